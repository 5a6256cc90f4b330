-- Tells our server where code was just copied: the place alone, never what a register holds; the server takes the lines
-- from its own copy of the text, by its own rules. What is deleted or changed is not told: most of it is thrown away.
local status = require('fastcoder.status')

local TELL = 'fastcoder/yanked'
local REGISTERS = '^["%a]?$' -- the unnamed one and the named ones; what goes to other programs by its name is theirs

---@class fastcoder.Yanks: fastcoder.Follower
---@field latest? table what is to be told
---@field pausing boolean
local Yanks = require('fastcoder.follower').kind('yanks')
Yanks.PAUSE_MS = 100 -- between two; of what a command copies in one go, the last one is told

function Yanks:tell()
  if self.pausing or not self.latest or self.client:is_stopped() then
    return
  end
  self.client:notify(TELL, self.latest)
  self.latest, self.pausing = nil, true
  self:soon(Yanks.PAUSE_MS, 'tell_next')
end

function Yanks:tell_next()
  self.pausing = false
  self:tell()
end

function Yanks:yanked()
  local buffer, event = self.buffer, vim.v.event
  if event.operator ~= 'y' or not event.regname:match(REGISTERS) or not status.shows_other_code(self.client) then
    return
  end
  if vim.b[buffer].fastcoder == false or status.of(buffer).state == 'off' then
    return
  end
  local first, last = vim.api.nvim_buf_get_mark(buffer, '[')[1], vim.api.nvim_buf_get_mark(buffer, ']')[1]
  if first < 1 or last < first then
    return
  end
  self.latest = {
    textDocument = { uri = vim.uri_from_bufnr(buffer), version = vim.lsp.util.buf_versions[buffer] },
    range = { start = { line = first - 1, character = 0 }, ['end'] = { line = last, character = 0 } },
  }
  self:tell()
end

function Yanks:begin()
  self.pausing = false
  self:on('TextYankPost', 'yanked')
end

return Yanks
