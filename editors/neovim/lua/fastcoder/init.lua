-- fastcoder in Neovim: what a user's configuration calls. The parts: ghost (0.11) or native (0.12) show suggestions,
-- keys, status, server, commands, health.
local config = require('fastcoder.config')
local keys = require('fastcoder.keys')
local server = require('fastcoder.server')
local status = require('fastcoder.status')

local M = {}

--- Keys in insert mode, as in options.keys; false leaves a key alone.
M.keys = config.options.keys

--- The server's status in a word or two; `vim.o.statusline = "… %{%v:lua.require'fastcoder'.statusline()%}"`.
M.statusline = status.statusline

--- The server's status as a table: state, percent, message, hint, asks, host.
M.status = status.of

--- Other settings (docs/settings.md) for the running server.
M.change_settings = server.change_settings

local function link(name, to)
  vim.api.nvim_set_hl(0, name, { link = to, default = true })
end

local function set_highlights()
  link('FastcoderGhost', 'Comment')
  link('FastcoderCount', 'NonText')
  link('FastcoderReplaced', '@markup.strikethrough')
end

local function backend()
  local ghost = config.options.ghost
  local native = ghost == 'native' or (ghost == 'auto' and vim.lsp.inline_completion ~= nil)
  return require(native and 'fastcoder.native' or 'fastcoder.ghost')
end

--- Start the server with every file, with ghost text.
---@param options? table options of fastcoder.config, and cmd, filetypes, root_markers, settings for the server
function M.setup(options)
  options = vim.deepcopy(options or {})
  local launch = { cmd = options.cmd, filetypes = options.filetypes, root_markers = options.root_markers }
  launch.init_options = options.settings
  options.cmd, options.filetypes, options.root_markers, options.settings = nil, nil, nil, nil
  config.set(options)
  if next(launch) then
    vim.lsp.config(server.NAME, launch)
  end
  vim.lsp.enable(server.NAME)
end

--- Whether ghost text is shown; for mappings of your own.
---@return boolean
function M.is_visible()
  return backend().is_visible()
end

--- Put the whole suggestion in; false where there is none.
---@return boolean
function M.accept()
  return backend().accept()
end

--- Put its next word in.
---@return boolean
function M.accept_word()
  return backend().accept_word()
end

--- Put its next line in.
---@return boolean
function M.accept_line()
  return backend().accept_line()
end

--- Show another suggestion.
---@return boolean
function M.next()
  return backend().turn(1)
end

--- Show the one before.
---@return boolean
function M.previous()
  return backend().turn(-1)
end

--- Take it away.
function M.dismiss()
  backend().dismiss()
end

--- Ask now, in the current buffer.
function M.ask()
  local client = server.clients(0)[1]
  if client then
    backend().ask(client, vim.api.nvim_get_current_buf())
  else
    vim.notify('fastcoder: no server in this buffer; :checkhealth fastcoder says why', vim.log.levels.WARN)
  end
end

--- The handler of fastcoder/late: a suggestion is there that came too late for its question.
---@type lsp.Handler
function M.on_late(_, told, context)
  local client = vim.lsp.get_client_by_id(context.client_id)
  local buffer = vim.api.nvim_get_current_buf()
  local of = told.textDocument
  if client and vim.uri_from_bufnr(buffer) == of.uri and vim.lsp.util.buf_versions[buffer] == of.version then
    backend().late(client, buffer, told.position)
  end
end

local ACTIONS = {
  accept = 'accept all of it',
  accept_word = 'accept its next word',
  accept_line = 'accept its next line',
  next = 'the next alternative',
  previous = 'the alternative before',
  dismiss = 'take it away',
}

local function always()
  return true
end

--- Show ghost text in a buffer; done by itself for every buffer that the server is attached to.
---@param client vim.lsp.Client
---@param buffer integer
function M.attach(client, buffer)
  M.detach(buffer)
  set_highlights()
  backend().attach(client, buffer)
  for name, description in pairs(ACTIONS) do
    local key = config.options.keys[name]
    if key then
      keys.map(buffer, key, M.is_visible, M[name], 'fastcoder: ' .. description)
    end
  end
  if config.options.keys.ask then
    keys.map(buffer, config.options.keys.ask, always, M.ask, 'fastcoder: suggest now')
  end
end

--- No longer, and the keys are what they were.
---@param buffer integer
function M.detach(buffer)
  backend().detach(buffer)
  keys.unmap(buffer)
end

return M
