-- fastcoder in Neovim: what a user's configuration calls. The parts: ghost or native (0.13) show suggestions,
-- keys, status, server, commands, health.
local config = require('fastcoder.config')
local colours = require('fastcoder.colours')
local edits = require('fastcoder.edits')
local server = require('fastcoder.server')
local status = require('fastcoder.status')

local here = vim.fn.fnamemodify(debug.getinfo(1, 'S').source:sub(2), ':p:h:h:h')
local M = {}

--- Keys, as in options.keys; false leaves a key alone.
M.keys = config.options.keys

--- The server's status in a word or two; `vim.o.statusline = "… %{%v:lua.require'fastcoder'.statusline()%}"`.
M.statusline = status.statusline

--- The server's status as a table: state, percent, message, hint, asks, host, notes, snoozed.
M.status = status.of

--- Other settings (docs/settings.md) for the running server.
M.change_settings = server.change_settings

local function backend()
  return require(config.is_native() and 'fastcoder.native' or 'fastcoder.ghost')
end

--- Start the server with every file, with ghost text.
---@param options? table options of fastcoder.config, and cmd, filetypes, root_markers, settings for the server
function M.setup(options)
  -- Neovim has already looked for plugins where a file of the user's own plugin folder calls this.
  vim.cmd.source(vim.fs.joinpath(here, 'plugin', 'fastcoder.lua'))
  options = vim.deepcopy(options or {})
  local launch = { cmd = options.cmd, filetypes = options.filetypes, root_markers = options.root_markers }
  launch.init_options = options.settings
  options.cmd, options.filetypes, options.root_markers, options.settings = nil, nil, nil, nil
  if options.name and options.edits == nil then
    options.edits = false -- the plugin that looks for that name shows them
  end
  config.set(options)
  if config.options.name ~= 'fastcoder' then
    server.define_as(config.options.name)
  end
  if next(launch) then
    vim.lsp.config(config.options.name, launch)
  end
  vim.lsp.enable(config.options.name)
end

--- Whether ghost text is shown; for mappings of your own.
---@return boolean
function M.is_visible()
  return backend().is_visible()
end

--- Accept the whole suggestion; false where there is none.
---@return boolean
function M.accept()
  return backend().accept()
end

--- Accept its next word.
---@return boolean
function M.accept_word()
  return backend().accept_word()
end

--- Accept its next line.
---@return boolean
function M.accept_line()
  return backend().accept_line()
end

--- Show the next suggestion.
---@return boolean
function M.next()
  return backend().turn(1)
end

--- Show the previous one.
---@return boolean
function M.previous()
  return backend().turn(-1)
end

--- Dismiss it; false where there is none.
---@return boolean
function M.dismiss()
  return backend().dismiss()
end

--- Ask now, in the current buffer; false where no suggestions are wanted.
---@return boolean
function M.ask()
  local client = server.clients(0)[1]
  if client then
    return backend().ask(client, vim.api.nvim_get_current_buf())
  end
  vim.notify('fastcoder: ' .. server.why_absent(0), vim.log.levels.WARN)
  return true
end

--- Whether a next edit is shown, or a hint to one.
---@return boolean
function M.is_edit_visible()
  return edits.is_visible()
end

--- Go to the next edit; where the cursor is there already, make it. False where there is none. For a mapping of your own,
--- also an <expr> mapping.
---@return boolean
function M.accept_edit()
  return edits.accept()
end

--- Reject it; false where there is none.
---@return boolean
function M.reject_edit()
  return edits.reject()
end

--- Ask for the next edit now; false where none are proposed.
---@return boolean
function M.ask_edit()
  return edits.ask()
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

--- Show ghost text in a buffer; done by itself for every buffer that the server is attached to.
---@param client vim.lsp.Client
---@param buffer integer
function M.attach(client, buffer)
  backend().detach(buffer)
  colours.set()
  backend().attach(client, buffer)
  edits.attach(client, buffer)
end

--- No longer.
---@param buffer integer
function M.detach(buffer)
  backend().detach(buffer)
  edits.detach(buffer)
end

return M
