-- :checkhealth fastcoder
local config = require('fastcoder.config')
local keys = require('fastcoder.keys')
local server = require('fastcoder.server')
local status = require('fastcoder.status')

local M = {}

local health = vim.health
local RUN_MS = 20000

local function run(command)
  local ok, done = pcall(function()
    return vim.system(command, { text = true }):wait(RUN_MS)
  end)
  if not ok then
    return nil, tostring(done)
  end
  local text = vim.trim((done.stdout or '') .. '\n' .. (done.stderr or ''))
  return done.code == 0 and text or nil, text
end

local function check_neovim()
  health.start('Neovim')
  local version = tostring(vim.version())
  if vim.fn.has('nvim-0.11') == 0 then
    health.error(('Neovim %s is too old'):format(version), { 'Install Neovim 0.11 or newer' })
    return
  end
  local native = config.is_native()
  health.ok(('Neovim %s'):format(version))
  health.info(native and "ghost text: Neovim's own vim.lsp.inline_completion" or 'ghost text: drawn by fastcoder')
end

local function check_program()
  health.start('The program')
  local command = (vim.lsp.config[config.options.name] or {}).cmd
  if type(command) ~= 'table' then
    health.info('your configuration starts the server by a function')
    return nil
  end
  local path = vim.fn.exepath(command[1])
  if path == '' then
    health.error(('%s is not on PATH'):format(command[1]), {
      'Install it: uv tool install fastcoder-lsp, or pipx install fastcoder-lsp',
      "Or set its path: require('fastcoder').setup({ cmd = { '/path/to/fastcoder-lsp', 'serve' } })",
    })
    return nil
  end
  local version, problem = run({ path, '--version' })
  if version then
    health.ok(('%s: %s'):format(path, version))
    return path
  end
  health.error(('%s --version failed'):format(path), { problem })
  return nil
end

local function check_model(path)
  health.start('The model')
  local options = (vim.lsp.config[config.options.name] or {}).init_options or {}
  local name = options.model or 'auto'
  local folder, problem = run({ path, 'model', 'path', name })
  if folder then
    health.ok(('%s: %s'):format(name, folder))
  else
    health.error(('the model %s is not installed'):format(name), {
      problem,
      ('Download it: %s model pull%s'):format(vim.fs.basename(path), name == 'auto' and '' or ' ' .. name),
    })
  end
end

local function check_server()
  health.start('The server')
  local clients = server.clients()
  if #clients == 0 then
    local enabled = vim.lsp.is_enabled == nil or vim.lsp.is_enabled(config.options.name)
    health.warn(enabled and 'not running; it starts with the first file' or 'not running and not enabled', {
      "Enable it: require('fastcoder').setup(), or vim.lsp.enable('fastcoder')",
    })
    return
  end
  for _, client in ipairs(clients) do
    local of = status.of(vim.tbl_keys(client.attached_buffers)[1])
    local words = { of.state, of.message, of.hint }
    local said = table.concat(
      vim.tbl_filter(function(word)
        return word ~= ''
      end, words),
      ': '
    )
    local report = of.state == 'error' and health.error or health.ok
    report(said)
    local sent = status.sent(of)
    if sent then
      health.info(sent)
    end
    local folders = vim.tbl_map(function(folder)
      return folder.name
    end, client.workspace_folders or {})
    health.info(('buffers: %d, %s positions'):format(vim.tbl_count(client.attached_buffers), client.offset_encoding))
    health.info('folders: ' .. (#folders > 0 and table.concat(folders, ', ') or 'none, single files'))
  end
end

local function check_keys()
  health.start('Keys')
  local used = {}
  for name, key in vim.spairs(config.options.keys) do
    if key then
      local mode = keys.mode(name)
      local other = used[mode .. key]
      used[mode .. key] = name
      if other then
        health.warn(('%s is set for both %s and %s'):format(key, other, name))
      else
        local global = vim.fn.maparg(key, mode, false, true)
        local below = global.lhs and global.buffer ~= 1 and (global.desc or global.rhs or 'a function')
        local where = mode == 'n' and ' in normal mode' or ''
        health.info(('%-10s %s%s%s'):format(key, name, where, below and (', otherwise your mapping: ' .. below) or ''))
      end
    end
  end
end

--- Check everything and say what to do.
function M.check()
  check_neovim()
  local path = check_program()
  if path then
    check_model(path)
  end
  check_server()
  check_keys()
end

return M
