-- What the server says of itself (fastcoder/status), kept for the statusline, and shown where none has it. Asks nobody.
local config = require('fastcoder.config')
local notice = require('fastcoder.notice')

local M = {}

---@class fastcoder.Status
---@field state 'stopped'|'starting'|'loading'|'ready'|'thinking'|'off'|'error'
---@field percent? integer
---@field message string
---@field hint string what to do about an error
---@field asks? string the server that is asked in the model's place: code around the cursor is sent there
---@field context? true where other files' code goes along with suggestions
---@field edits? boolean whether next edits are proposed, where the server says so with its status
---@field notes? string[] what holds suggestions or work back at the moment
---@field snoozed? integer minutes that are left
---@field host? { process_id: integer, fronts: integer, turn: 'own'|'other'|nil } of the model, where editors share one

local STOPPED = { state = 'stopped', message = '', hint = '' }

---@type table<integer, fastcoder.Status>
local by_client = {}

local function changed()
  vim.api.nvim_exec_autocmds('User', { pattern = 'FastCoderStatus', modeline = false })
  vim.cmd.redrawstatus({ bang = true })
end

-- Whether the user's own configuration shows the status.
local is_shown_elsewhere = false
local PAUSE_MS, ERROR_MS = 400, 30000 -- a model that another editor has loaded is there at once

local function loading_text(of)
  return (of.percent and ('%d%% '):format(of.percent) or '') .. (of.message ~= '' and of.message or 'loading the model')
end

-- The model loads at the first suggestion, which takes seconds: say so. An error stays in :FastCoder status, too.
local function announce(client_id, before)
  local now = by_client[client_id]
  local was = before and before.state
  if now.state == 'error' then
    if was ~= 'error' or before.message ~= now.message then
      local text = vim.trim(now.message .. '\n' .. now.hint)
      if config.options.notices then
        notice.show_error(text, ERROR_MS)
      else
        vim.notify('fastcoder: ' .. text, vim.log.levels.ERROR)
      end
    end
  elseif now.state == 'loading' and not is_shown_elsewhere then
    if was == 'loading' and notice.is_shown() then
      notice.show(loading_text(now))
    elseif was ~= 'loading' then
      vim.defer_fn(function()
        local later = by_client[client_id]
        if later and later.state == 'loading' then
          notice.show(loading_text(later))
        end
      end, PAUSE_MS)
    end
  elseif was == 'loading' or was == 'error' then
    notice.hide()
  end
end

--- The handler of fastcoder/status.
---@type lsp.Handler
function M.on_status(_, told, context)
  local percent, before = told.percent, by_client[context.client_id]
  by_client[context.client_id] = {
    state = told.state,
    percent = percent ~= vim.NIL and percent or nil,
    message = told.message or '',
    hint = told.hint or '',
    asks = told.asks ~= vim.NIL and told.asks or nil,
    host = told.host ~= vim.NIL and told.host or nil,
    context = told.context == true or nil,
    edits = told.edits,
    notes = told.notes,
    snoozed = told.snoozed ~= vim.NIL and told.snoozed or nil,
  }
  announce(context.client_id, before)
  changed()
end

--- The server of this client has gone.
---@param client_id integer
function M.forget(client_id)
  local was = by_client[client_id]
  by_client[client_id] = nil
  if was and was.state == 'loading' then
    notice.hide()
  end
  changed()
end

--- The status of the server of a buffer, or of any where the buffer has none.
---@param buffer? integer 0 or nil: the current one
---@return fastcoder.Status
function M.of(buffer)
  local name = config.options.name
  local client = vim.lsp.get_clients({ name = name, bufnr = buffer or 0 })[1] or vim.lsp.get_clients({ name = name })[1]
  if not client then
    return STOPPED
  end
  return by_client[client.id] or { state = 'starting', message = '', hint = '' }
end

-- What a server said when it started.
local function offers(client, capability)
  local experimental = client.server_capabilities and client.server_capabilities.experimental
  return type(experimental) == 'table' and experimental[capability] == true
end

--- Whether other files' code goes along with suggestions, so that a server has a use for places in it.
---@param client vim.lsp.Client
---@return boolean
function M.shows_other_code(client)
  local told = by_client[client.id]
  if told then
    return told.context == true
  end
  return offers(client, 'fastcoderDefinitions')
end

--- Whether a server proposes next edits: not while it is off.
---@param client vim.lsp.Client
---@return boolean
function M.proposes_edits(client)
  local told = by_client[client.id]
  if told and told.state == 'off' then
    return false
  end
  if told and type(told.edits) == 'boolean' then
    return told.edits
  end
  return offers(client, 'fastcoderEdits')
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
  is_shown_elsewhere = true
  local buffer = vim.api.nvim_get_current_buf()
  if #vim.lsp.get_clients({ name = config.options.name, bufnr = buffer }) == 0 then
    return ''
  end
  local status = M.of(buffer)
  if status.state == 'loading' and status.percent then
    local what = status.message == '' and '' or ' ' .. vim.fn.strcharpart(status.message, 0, LONGEST)
    return (('fastcoder %d%%'):format(status.percent) .. what):gsub('%%', '%%%%')
  end
  if status.snoozed and (status.state == 'ready' or status.state == 'thinking') then
    return ('fastcoder %d min'):format(status.snoozed)
  end
  return SHOWN[status.state] or ''
end

return M
