---@brief
---
--- https://github.com/OWNER/fastcoder-lsp
---
--- Completions from a code model that runs on your own machine. Install the server and its model:
---
--- ```sh
--- pipx install fastcoder-lsp
--- fastcoder-lsp model pull
--- ```
---
--- Neovim 0.12 shows ghost text after `vim.lsp.inline_completion.enable()`. Earlier versions list the suggestions in the
--- completion menu; for ghost text there, use the plugin in `editors/neovim` of the repository.

---@type vim.lsp.Config
return {
  cmd = { 'fastcoder-lsp', 'serve' },
  root_markers = { 'fastcoder.toml', '.git' },
}
