-- The server's life as Neovim sees it: which buffers it serves, which folders it knows, what happens when it dies.
-- Never draws, never asks for text.
local config = require('fastcoder.config')
local cursor = require('fastcoder.cursor')
local definitions = require('fastcoder.definitions')
local status = require('fastcoder.status')
local yanks = require('fastcoder.yanks')

local M = {}

local WITHIN_MS = 3 * 60 * 1000
local FIRST_PAUSE_MS = 200

---@type integer[] when servers died by themselves, in ms
local deaths = {}
-- Whether :FastCoder stop was the last word; Neovim would start the server again with the next file.
local leaving = false

local function is_enabled()
  return vim.lsp.is_enabled == nil or vim.lsp.is_enabled(config.options.name)
end

--- The clients of our server; of one buffer, or all.
---@param buffer? integer
---@return vim.lsp.Client[]
function M.clients(buffer)
  return vim.lsp.get_clients({ name = config.options.name, bufnr = buffer })
end

--- Why a buffer has no server, and what to do, for a message.
---@param buffer integer
---@return string
function M.why_absent(buffer)
  local config_of = vim.lsp.config[config.options.name] or {}
  local command = type(config_of.cmd) == 'table' and config_of.cmd[1]
  if command and vim.fn.executable(command) == 0 then
    return ('%s is not on PATH. Run :checkhealth fastcoder.'):format(command)
  elseif not is_enabled() then
    return 'the server is stopped. Run :FastCoder restart.'
  elseif #deaths >= config.options.restarts then
    return 'the server crashed repeatedly. Run :FastCoder log, then :FastCoder restart.'
  elseif vim.bo[buffer].buftype ~= '' then
    return ('this buffer is not a file (buftype=%s), so it gets no suggestions.'):format(vim.bo[buffer].buftype)
  elseif vim.bo[buffer].filetype == '' then
    return 'this buffer has no file type. Save it under a name, or run :set filetype=python (or another).'
  elseif config_of.filetypes and not vim.list_contains(config_of.filetypes, vim.bo[buffer].filetype) then
    return ("the option filetypes excludes '%s'."):format(vim.bo[buffer].filetype)
  end
  return 'the server is not attached to this buffer. Run :checkhealth fastcoder.'
end

-- A client that sends and reads UTF-16 whatever was agreed on.
local UTF16_ALONE = 'copilot_ls'

--- Configure the server under another name, which another plugin looks for; what that plugin configures stays.
---@param name string
function M.define_as(name)
  local own = vim.deepcopy(vim.lsp.config.fastcoder)
  own.name = nil
  if name == UTF16_ALONE then
    own.capabilities.general = { positionEncodings = { 'utf-16' } }
  end
  vim.lsp.config(name, own)
end

--- Show ghost text wherever the server is attached. Safe to call again.
function M.watch()
  local group = vim.api.nvim_create_augroup('fastcoder', {})
  local function on(event, action)
    vim.api.nvim_create_autocmd(event, {
      group = group,
      callback = function(args)
        local client = vim.lsp.get_client_by_id(args.data.client_id)
        if client and client.name == config.options.name then
          action(client, args.buf)
        end
      end,
    })
  end
  on('LspAttach', function(client, buffer)
    M.add_folder(client, buffer)
    require('fastcoder').attach(client, buffer)
    cursor.attach(client, buffer)
    definitions.attach(client, buffer)
    yanks.attach(client, buffer)
  end)
  on('LspDetach', function(_, buffer)
    require('fastcoder').detach(buffer)
    cursor.detach(buffer)
    definitions.detach(buffer)
    yanks.detach(buffer)
  end)
  vim.api.nvim_create_autocmd('VimLeavePre', {
    group = group,
    callback = function()
      leaving = true
    end,
  })
end

--- One server for all folders: a model in memory costs more than anything else here.
---@type fun(client: vim.lsp.Client, config: vim.lsp.ClientConfig): boolean
function M.reuses(client, wanted)
  return client.name == wanted.name and not client:is_stopped()
end

--- Tell the server of the folder of a buffer that it has not served before.
---@param client vim.lsp.Client
---@param buffer integer
function M.add_folder(client, buffer)
  local markers = client.config.root_markers or vim.lsp.config[config.options.name].root_markers
  local root = markers and vim.fs.root(buffer, markers)
  if not root then
    return
  end
  local folder = { uri = vim.uri_from_fname(root), name = root }
  local known = client.workspace_folders or {}
  for _, other in ipairs(known) do
    if other.uri == folder.uri then
      return
    end
  end
  client.workspace_folders = vim.list_extend(known, { folder })
  client:notify('workspace/didChangeWorkspaceFolders', { event = { added = { folder }, removed = {} } })
end

-- Start the server for the buffers that it served: as vim.lsp.enable() does, or as the client was made.
local function start_again(client_config, buffers)
  if is_enabled() then
    vim.lsp.enable(config.options.name)
    return
  end
  for _, buffer in ipairs(buffers) do
    if vim.api.nvim_buf_is_loaded(buffer) then
      vim.lsp.start(client_config, { bufnr = buffer, reuse_client = M.reuses })
    end
  end
end

-- How long to wait before the next start; nil where it died too often.
local function pause_ms()
  local now = vim.uv.now()
  deaths = vim.tbl_filter(function(at)
    return now - at < WITHIN_MS
  end, deaths)
  if #deaths >= config.options.restarts then
    return nil
  end
  deaths[#deaths + 1] = now
  return FIRST_PAUSE_MS * 2 ^ (#deaths - 1)
end

--- The server's process has ended. One that died by itself is started again, but not for ever.
---@param code integer
---@param signal integer
---@param client_id integer
function M.on_exit(code, signal, client_id)
  local client = vim.lsp.get_client_by_id(client_id)
  local buffers = client and vim.tbl_keys(client.attached_buffers) or {}
  -- _is_stopping: Neovim's own mark on clients that it was asked to stop.
  local meant = not client or client._is_stopping or (code == 0 and signal == 0)
  vim.schedule(function()
    status.forget(client_id)
    if meant or leaving or vim.v.exiting ~= vim.NIL then
      return
    end
    local pause = pause_ms()
    if pause then
      vim.defer_fn(function()
        start_again(client.config, buffers)
      end, pause)
    else
      local text = 'fastcoder: the server crashed and stays off (option restarts: %d). See :FastCoder log; '
        .. 'to start it again, run :FastCoder restart.'
      vim.notify(text:format(config.options.restarts), vim.log.levels.ERROR)
    end
  end)
end

--- Stop the server; the model's memory is free again. Files opened later start it again.
---@param done? fun() called when no server is left
function M.stop(done)
  for _, client in ipairs(M.clients()) do
    client:stop()
  end
  local function look(tries)
    if #M.clients() == 0 then
      if done then
        done()
      end
      return
    end
    if tries == 0 then
      for _, client in ipairs(M.clients()) do
        client:stop(true)
      end
    end
    vim.defer_fn(function()
      look(tries - 1)
    end, 50)
  end
  look(60)
end

--- Start the server for what is open, as vim.lsp.enable() does.
function M.start()
  deaths = {}
  vim.lsp.enable(config.options.name)
end

--- Stop it, wait until it has gone, start it.
function M.restart()
  M.stop(M.start)
end

--- Tell a running server other settings (docs/settings.md; not those of machine scope). They hold until it ends.
---@param settings table
function M.change_settings(settings)
  for _, client in ipairs(M.clients()) do
    client.settings = vim.tbl_deep_extend('force', client.settings or {}, { fastcoder = settings })
    client:notify('workspace/didChangeConfiguration', { settings = client.settings })
  end
end

return M
