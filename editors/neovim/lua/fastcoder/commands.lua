-- :FastCoder and its subcommands.
local config = require('fastcoder.config')
local server = require('fastcoder.server')
local status = require('fastcoder.status')

local M = {}

local function say(text, level)
  vim.notify('fastcoder: ' .. text, level or vim.log.levels.INFO)
end

-- Ask the server, if one runs; `done` gets its answer.
local function request(method, params, done)
  local client = server.clients(0)[1] or server.clients()[1]
  if not client then
    say(server.why_absent(0), vim.log.levels.WARN)
    return
  end
  client:request(method, params, function(err, answer)
    if err then
      say(err.message, vim.log.levels.ERROR)
    else
      done(answer)
    end
  end)
end

-- Run a command of the server.
local function ask_server(name, done, arguments)
  request('workspace/executeCommand', { command = name, arguments = arguments or {} }, done)
end

local turns = { own = ", this editor's turn", other = ", another editor's turn" }

-- Which process has the model, how many editors share it and whose turn it is; nothing where this server has it.
local function host(of)
  if not of or of.shared == false or not of.process_id then
    return ''
  end
  return (', process %d, shared by %d'):format(of.process_id, of.fronts) .. (turns[of.turn] or '')
end

local function describe(of)
  local parts = { of.state .. (of.percent and (' %d%%'):format(of.percent) or '') .. host(of.host) }
  vim.list_extend(parts, of.message ~= '' and { of.message } or {})
  vim.list_extend(parts, of.hint ~= '' and { of.hint } or {})
  vim.list_extend(parts, of.notes or {})
  vim.list_extend(parts, { status.sent(of) })
  return table.concat(parts, ': ')
end

local function percent(share)
  return type(share) == 'number' and ('%.0f %%'):format(100 * share) or '–'
end

-- What :FastCoder stats shows of the answer to fastcoder/stats.
local function lines_of(stats)
  local lines = {
    stats.summary,
    '',
    'model      ' .. (stats.model and ('%s (%s)'):format(stats.model, stats.engine) or 'not loaded yet'),
    ('shown      %d, accepted %d (%s)'):format(
      stats.suggestions.shown,
      stats.suggestions.accepted,
      percent(stats.rates.accepted)
    ),
    ('requests   %d, answered without the model %s'):format(
      stats.requests.requests,
      percent(stats.rates.typed_through)
    ),
    ('prompts    %s from the cache'):format(percent(stats.rates.prompt_cache)),
    ('memory     %.0f MB'):format(stats.memory.resident_bytes / 1e6) .. host(stats.host),
    '',
    ('%-12s %8s %8s'):format('ms', 'median', '95 %'),
  }
  for span, ms in vim.spairs(stats.ms) do
    lines[#lines + 1] = ('%-12s %8.1f %8.1f'):format(span, ms.p50, ms.p95)
  end
  return lines
end

-- The cursor stays where it is, and closes the window by moving; the same command again enters it.
local function open_float(title, lines)
  local buffer = vim.lsp.util.open_floating_preview(lines, 'plaintext', {
    border = 'rounded',
    title = ' ' .. title .. ' ',
    focus_id = 'fastcoder ' .. title,
    wrap_at = vim.o.columns - 2,
    max_width = vim.o.columns - 2,
  })
  for _, key in ipairs({ 'q', '<Esc>' }) do
    vim.keymap.set('n', key, '<Cmd>close<CR>', { buffer = buffer, nowait = true })
  end
end

-- What the editor's side does, before what the server says.
local function own_reasons()
  local lines = {}
  if vim.b.fastcoder == false then
    lines[#lines + 1] = 'b:fastcoder is false: suggestions are off in this buffer.'
  end
  if not require('fastcoder.config').options.auto then
    lines[#lines + 1] = 'The option auto is off: suggestions appear when you ask for them.'
  end
  if #server.clients() > 0 and #server.clients(0) == 0 then
    lines[#lines + 1] = 'No suggestions here: ' .. server.why_absent(0)
  end
  return lines
end

local WHY = 'Why no suggestion?'

local function why()
  local lines = own_reasons()
  if #server.clients() > 0 and #server.clients(0) == 0 then
    open_float(WHY, lines) -- of this buffer the server knows nothing
    return
  end
  local params = { textDocument = { uri = vim.uri_from_bufnr(0) } }
  request('fastcoder/why', params, function(answer)
    open_float(WHY, vim.list_extend(lines, vim.split(answer.text, '\n', { plain = true })))
  end)
end

--- Open the server's own log file, if one is set; else its lines of the log that Neovim keeps for all servers.
local function open_log()
  local client = server.clients()[1]
  local options = client and client.config.init_options or {}
  local own = vim.tbl_get(options, 'log', 'file') or options['log.file']
  if own then
    vim.cmd.tabedit(vim.fn.fnameescape(own))
    return
  end
  local kept = vim.lsp.log.get_filename()
  local lines = vim.fn.filereadable(kept) == 1 and vim.fn.readfile(kept, '', -10000) or {}
  local ours = vim.tbl_filter(function(line)
    return line:find('fastcoder', 1, true) ~= nil
  end, lines)
  if #ours == 0 then
    say('Neovim\'s log has no line of the server. To log every request, set log.file.')
    return
  end
  vim.cmd.tabnew()
  vim.api.nvim_buf_set_lines(0, 0, -1, true, ours)
  vim.bo.buftype, vim.bo.bufhidden, vim.bo.modifiable = 'nofile', 'wipe', false
  vim.cmd.normal({ 'G', bang = true })
end

---@type table<string, { does: string, run: fun(argument?: string), takes?: string }>
local COMMANDS = {
  toggle = {
    does = 'turn suggestions off (unloads the model) or on',
    run = function()
      ask_server('fastcoder.toggle', function(answer)
        if not answer.enabled then
          require('fastcoder').dismiss()
        end
        say(answer.enabled and 'on' or 'off')
      end)
    end,
  },
  snooze = {
    does = 'suggest only by key for so many minutes (30); 0 ends it',
    takes = 'minutes',
    run = function(minutes)
      if minutes and not minutes:match('^%d+$') then
        say(('%q is not a number of minutes'):format(minutes), vim.log.levels.WARN)
        return
      end
      -- The server says for how long.
      ask_server('fastcoder.snooze', function()
        require('fastcoder').dismiss()
        require('fastcoder.edits').clear()
      end, { tonumber(minutes) })
    end,
  },
  ask = {
    does = 'ask for suggestions now',
    run = function()
      require('fastcoder').ask()
    end,
  },
  edit = {
    does = 'ask for the next edit now',
    run = function()
      if not require('fastcoder').ask_edit() then
        say('no next edits here: see docs/next-edit.md')
      end
    end,
  },
  everywhere = {
    does = 'show your last change at all its places in the repository, to make them at once',
    run = function()
      require('fastcoder.everywhere').show()
    end,
  },
  undo = {
    does = 'undo what :FastCoder everywhere made, in all files',
    run = function()
      require('fastcoder.everywhere').undo()
    end,
  },
  status = {
    does = "show the server's state",
    run = function()
      say(describe(status.of(0)))
    end,
  },
  stats = {
    does = 'say whether suggestions work well, and show times and acceptance rates',
    run = function()
      ask_server('fastcoder.stats', function(answer)
        open_float('fastcoder', lines_of(answer))
      end)
    end,
  },
  why = { does = 'explain why there was no suggestion', run = why },
  log = {
    does = "open the server's log",
    run = open_log,
  },
  reload = {
    does = 'reload the settings and the model',
    run = function()
      ask_server('fastcoder.reload', function()
        say('reloaded')
      end)
    end,
  },
  restart = { does = 'restart the server', run = server.restart },
  stop = {
    does = 'stop the server',
    run = function()
      vim.lsp.enable(config.options.name, false)
      server.stop()
    end,
  },
  health = {
    does = 'run :checkhealth fastcoder',
    run = function()
      vim.cmd.checkhealth('fastcoder')
    end,
  },
}

--- Run a subcommand; without one, list them.
---@param arguments string[]
function M.run(arguments)
  local command = COMMANDS[arguments[1]]
  if command and #arguments <= (command.takes and 2 or 1) then
    command.run(arguments[2])
    return
  end
  local lines = { arguments[1] and ('unknown command "%s"; the commands are'):format(table.concat(arguments, ' ')) or 'commands' }
  for name, known in vim.spairs(COMMANDS) do
    lines[#lines + 1] = ('  :FastCoder %-10s %s'):format(name, known.does)
  end
  say(table.concat(lines, '\n'), arguments[1] and vim.log.levels.WARN or nil)
end

--- Completion of :FastCoder.
---@param lead string
---@param line string
---@return string[]
function M.complete(lead, line)
  if not line:match('^%s*%S+%s+%S*$') then
    return {}
  end
  local found = vim.tbl_filter(function(name)
    return vim.startswith(name, lead)
  end, vim.tbl_keys(COMMANDS))
  table.sort(found)
  return found
end

return M
