-- How Neovim starts the server: vim.lsp.enable('fastcoder') finds this file on the runtimepath.
-- Change any of it by vim.lsp.config('fastcoder', { … }).
return {
  cmd = { 'fastcoder-lsp', 'serve' },
  root_markers = { 'fastcoder.toml', '.git' },
  -- Settings go here, as in docs/settings.md.
  init_options = vim.empty_dict(),
  -- "Ghost text can be shown": without this the server offers its suggestions in the completion menu.
  capabilities = { textDocument = { inlineCompletion = { dynamicRegistration = false } } },
  on_attach = function(client, buffer)
    require('fastcoder').attach(client, buffer)
  end,
}
