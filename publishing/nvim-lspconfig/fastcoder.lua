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
--- This installs torch, 1.5 GB and more. Without an NVIDIA GPU, 0.4 GB suffice, by the exact versions that the package
--- names; put `~/fastcoder/bin` on your `PATH`:
---
--- ```sh
--- python3 -m venv ~/fastcoder
--- ~/fastcoder/bin/pip install --no-deps fastcoder-lsp
--- ~/fastcoder/bin/pip install --no-deps -r "$(~/fastcoder/bin/fastcoder-lsp --cpu-requirements)"
--- ~/fastcoder/bin/fastcoder-lsp model pull
--- ```
---
--- Neovim 0.12 shows ghost text after `vim.lsp.inline_completion.enable()`. Earlier versions list the suggestions in the
--- completion menu; for ghost text there, use the plugin in `editors/neovim` of the repository.

---@type vim.lsp.Config
return {
  cmd = { 'fastcoder-lsp', 'serve' },
  root_markers = { 'fastcoder.toml', '.git' },
}
