-- Tells our server where the cursor rests, so that it prepares a suggestion for that place.
local config = require('fastcoder.config')
local status = require('fastcoder.status')

local TELL = 'fastcoder/cursor'

---@class fastcoder.Cursor: fastcoder.Follower
---@field told? string the place that was told last
local Cursor = require('fastcoder.follower').kind('cursor')
Cursor.REST_MS = 400 -- without a move

function Cursor:tell()
  local buffer, mode = self.buffer, vim.api.nvim_get_mode().mode
  if not config.options.auto or self.client:is_stopped() or vim.api.nvim_get_current_buf() ~= buffer or not mode:match('^[ni]') then
    return
  end
  if vim.b[buffer].fastcoder == false or status.of(buffer).state == 'off' or not vim.bo[buffer].modifiable then
    return
  end
  local position = vim.lsp.util.make_position_params(0, self.client.offset_encoding).position
  local version = vim.lsp.util.buf_versions[buffer]
  local place = ('%d %d %d'):format(version or 0, position.line, position.character)
  if place ~= self.told then
    self.told = place
    self.client:notify(TELL, {
      textDocument = { uri = vim.uri_from_bufnr(buffer), version = version },
      position = position,
    })
  end
end

function Cursor:moved()
  self:soon(Cursor.REST_MS, 'tell')
end

function Cursor:begin()
  self:on({ 'CursorMoved', 'CursorMovedI', 'InsertEnter', 'BufEnter' }, 'moved')
  self:on({ 'BufLeave', 'BufUnload' }, 'stop')
end

return Cursor
