-- Tells our server where code was just copied: the place alone, never what a register holds; the server takes the lines
-- from its own copy of the text, by its own rules. What is deleted or changed is not told: most of it is thrown away.
local status = require('fastcoder.status')
local M = {}

local TELL = 'fastcoder/yanked'
M.PAUSE_MS = 100 -- between two; of what a command copies in one go, the last one is told
local REGISTERS = '^["%a]?$' -- the unnamed one and the named ones; what goes to other programs by its name is theirs

---@class fastcoder.Yanks
---@field client vim.lsp.Client ours
---@field buffer integer
---@field group integer its autocommand
---@field timer uv.uv_timer_t
---@field latest? table what is to be told
---@field pausing boolean
local Yanks = {}
Yanks.__index = Yanks

function Yanks:tell()
  if self.pausing or not self.latest or self.client:is_stopped() then
    return
  end
  self.client:notify(TELL, self.latest)
  self.latest, self.pausing = nil, true
  self.timer:start(
    M.PAUSE_MS,
    0,
    vim.schedule_wrap(function()
      self.pausing = false
      if not self.timer:is_closing() then
        self:tell()
      end
    end)
  )
end

---@param event { operator: string, regname: string } v:event
function Yanks:yanked(event)
  local buffer = self.buffer
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

function Yanks:close()
  pcall(vim.api.nvim_del_augroup_by_id, self.group)
  self.timer:stop()
  self.timer:close()
end

---@type table<integer, fastcoder.Yanks>
local following = {}

--- Tell what is copied in a buffer from now on.
---@param client vim.lsp.Client
---@param buffer integer
function M.attach(client, buffer)
  M.detach(buffer)
  local one = setmetatable({
    client = client,
    buffer = buffer,
    group = vim.api.nvim_create_augroup('fastcoder-yanks-' .. buffer, {}),
    timer = assert(vim.uv.new_timer()),
    pausing = false,
  }, Yanks)
  following[buffer] = one
  vim.api.nvim_create_autocmd('TextYankPost', {
    group = one.group,
    buffer = buffer,
    callback = function()
      one:yanked(vim.v.event)
    end,
  })
end

--- No longer.
---@param buffer integer
function M.detach(buffer)
  local one = following[buffer]
  if one then
    following[buffer] = nil
    one:close()
  end
end

return M
