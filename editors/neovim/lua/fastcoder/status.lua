-- What the server says of itself (fastcoder/status), kept for the statusline. Asks nobody.
local M = {}

---@class fastcoder.Status
---@field state 'stopped'|'starting'|'loading'|'ready'|'thinking'|'off'|'error'
---@field percent? integer
---@field message string
---@field hint string what to do about an error
---@field asks? string the server that is asked in the model's place: code around the cursor is sent there
---@field context? true where other files' code goes along with suggestions
---@field host? { process_id: integer, fronts: integer, turn: 'own'|'other'|nil } of the model, where editors share one

local STOPPED = { state = 'stopped', message = '', hint = '' }

---@type table<integer, fastcoder.Status>
local by_client = {}

local function changed()
  vim.api.nvim_exec_autocmds('User', { pattern = 'FastCoderStatus', modeline = false })
  vim.cmd.redrawstatus({ bang = true })
end

--- The handler of fastcoder/status.
---@type lsp.Handler
function M.on_status(_, told, context)
  local percent = told.percent
  by_client[context.client_id] = {
    state = told.state,
    percent = percent ~= vim.NIL and percent or nil,
    message = told.message or '',
    hint = told.hint or '',
    asks = told.asks ~= vim.NIL and told.asks or nil,
    host = told.host ~= vim.NIL and told.host or nil,
    context = told.context == true or nil,
  }
  changed()
end

--- The server of this client has gone.
---@param client_id integer
function M.forget(client_id)
  by_client[client_id] = nil
  changed()
end

--- The status of the server of a buffer, or of any where the buffer has none.
---@param buffer? integer 0 or nil: the current one
---@return fastcoder.Status
function M.of(buffer)
  local client = vim.lsp.get_clients({ name = 'fastcoder', bufnr = buffer or 0 })[1]
    or vim.lsp.get_clients({ name = 'fastcoder' })[1]
  if not client then
    return STOPPED
  end
  return by_client[client.id] or { state = 'starting', message = '', hint = '' }
end

--- Whether other files' code goes along with suggestions, so that a server has a use for places in it.
---@param client vim.lsp.Client
---@return boolean
function M.shows_other_code(client)
  local told = by_client[client.id]
  if told then
    return told.context == true
  end
  local experimental = client.server_capabilities and client.server_capabilities.experimental
  return type(experimental) == 'table' and experimental.fastcoderDefinitions == true
end

--- What is sent to whom, in words; nil where nothing is: of an error the server's own words say it.
---@param status fastcoder.Status
---@return string?
function M.sent(status)
  if status.asks and status.state ~= 'error' then
    return ('code around the cursor is sent to %s'):format(status.asks)
  end
end

-- Characters of what is being made.
local LONGEST = 24

local SHOWN = {
  starting = 'fastcoder …',
  loading = 'fastcoder …',
  ready = 'fastcoder',
  thinking = 'fastcoder ·',
  off = 'fastcoder off',
  error = 'fastcoder !',
}

--- A word or two for the statusline; empty in a buffer without the server.
---@return string
function M.statusline()
  local buffer = vim.api.nvim_get_current_buf()
  if #vim.lsp.get_clients({ name = 'fastcoder', bufnr = buffer }) == 0 then
    return ''
  end
  local status = M.of(buffer)
  if status.state == 'loading' and status.percent then
    local what = status.message == '' and '' or ' ' .. vim.fn.strcharpart(status.message, 0, LONGEST)
    return (('fastcoder %d%%'):format(status.percent) .. what):gsub('%%', '%%%%')
  end
  return SHOWN[status.state] or ''
end

return M
