-- How Neovim starts the server: vim.lsp.enable('fastcoder') finds this file on the runtimepath.
-- Change any of it by vim.lsp.config('fastcoder', { … }); your own on_attach and handlers leave the ghost text alone.
local server = require('fastcoder.server')
server.watch()

---@type vim.lsp.Config
return {
  cmd = { 'fastcoder-lsp', 'serve' },
  root_markers = { 'fastcoder.toml', '.git' },
  -- One server, and so one model, for everything that is open.
  reuse_client = server.reuses,
  -- Settings go here, as in docs/settings.md.
  -- "The status is shown": the server says nothing of it by messages and progress of the protocol.
  init_options = { client = { showsStatus = true } },
  -- "Ghost text can be shown": without this the server offers its suggestions in the completion menu.
  -- "Late ones are asked for again": the server tells when it has made what a question could not wait for.
  capabilities = {
    textDocument = { inlineCompletion = { dynamicRegistration = false } },
    experimental = { fastcoderLate = true },
  },
  handlers = {
    ['fastcoder/status'] = require('fastcoder.status').on_status,
    ['fastcoder/late'] = function(...)
      return require('fastcoder').on_late(...)
    end,
  },
  on_exit = server.on_exit,
}
