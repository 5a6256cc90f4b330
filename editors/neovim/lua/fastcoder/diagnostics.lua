-- Sends our server the diagnostics of the buffer's other servers and linters, the nearest to the cursor first. Waits
-- until they rest, and sends none of an older text.
local status = require('fastcoder.status')

local TELL = 'fastcoder/diagnostics'
local MOST, LONGEST_MESSAGE = 16, 500

---@class fastcoder.Diagnostics: fastcoder.Follower
---@field told? string what was sent last, to send nothing twice
---@field tick? integer the text's version at the last report
local Diagnostics = require('fastcoder.follower').kind('diagnostics')
Diagnostics.IDLE_MS = 300 -- without a key or another report

-- A diagnostic of Neovim as the protocol has it, in the units of our server.
function Diagnostics:converted(one)
  local function position(row, column)
    local line = vim.api.nvim_buf_get_lines(self.buffer, row, row + 1, false)[1] or ''
    local character = vim.str_utfindex(line, self.client.offset_encoding, math.min(column, #line), false)
    return { line = row, character = character }
  end
  return {
    range = {
      start = position(one.lnum, one.col),
      ['end'] = position(one.end_lnum or one.lnum, one.end_col or one.col),
    },
    severity = one.severity,
    message = vim.fn.strcharpart(one.message, 0, LONGEST_MESSAGE),
    tags = one._tags and one._tags.unnecessary and { 1 } or nil,
  }
end

function Diagnostics:tell()
  local buffer = self.buffer
  if self.client:is_stopped() or vim.api.nvim_get_current_buf() ~= buffer then
    return
  end
  if vim.b[buffer].fastcoder == false or not status.shows_diagnostics(self.client) then
    return
  end
  local row = vim.api.nvim_win_get_cursor(0)[1] - 1
  local found = vim.diagnostic.get(buffer)
  table.sort(found, function(a, b)
    local left, right = math.abs(a.lnum - row), math.abs(b.lnum - row)
    return left < right or (left == right and a.lnum < b.lnum)
  end)
  local given = {}
  for number = 1, math.min(#found, MOST) do
    given[number] = self:converted(found[number])
  end
  local key = vim.json.encode(given)
  if key ~= self.told then
    self.told = key
    local document = { uri = vim.uri_from_bufnr(buffer), version = vim.lsp.util.buf_versions[buffer] }
    self.client:notify(TELL, { textDocument = document, diagnostics = given })
  end
end

-- After a report, unless the text changes meanwhile: then another report will follow.
function Diagnostics:tell_soon()
  self.tick = vim.api.nvim_buf_get_changedtick(self.buffer)
  self:soon(Diagnostics.IDLE_MS, 'tell_unchanged')
end

function Diagnostics:tell_unchanged()
  local buffer = self.buffer
  if vim.api.nvim_buf_is_loaded(buffer) and vim.api.nvim_buf_get_changedtick(buffer) == self.tick then
    self:tell()
  end
end

function Diagnostics:begin()
  self:on({ 'DiagnosticChanged', 'BufEnter' }, 'tell_soon')
  self:tell_soon()
end

return Diagnostics
