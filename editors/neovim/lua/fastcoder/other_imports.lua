-- Asks the buffer's other servers whether they offer to import what a next edit would: a code action of theirs says it
-- already, and comes first. Ours is no code action, and is never asked.
local M = {}

local METHOD = 'textDocument/codeAction'
local ANSWER_MS = 300 -- for all answers: what comes later is not waited for
local ADD_IMPORTS = 'source.addMissingImports' -- imports all that a document lacks
local KINDS = { 'quickfix', ADD_IMPORTS }
local WORDS = { 'import', 'include', 'require', 'use' }

-- The texts that a workspace edit puts in.
local function texts_of(edit)
  local found = {}
  local function add(edits)
    for _, one in ipairs(type(edits) == 'table' and edits or {}) do
      found[#found + 1] = type(one) == 'table' and type(one.newText) == 'string' and one.newText or nil
    end
  end
  for _, edits in pairs(type(edit.changes) == 'table' and edit.changes or {}) do
    add(edits)
  end
  for _, change in ipairs(type(edit.documentChanges) == 'table' and edit.documentChanges or {}) do
    add(type(change) == 'table' and change.edits)
  end
  return found
end

-- Whether a code action imports a name: by its edit, or by its title where it has none.
local function imports(action, name)
  if type(action) ~= 'table' or type(action.title) ~= 'string' or action.disabled then
    return false
  end
  local texts = type(action.edit) == 'table' and texts_of(action.edit)
  local words, lower = {}, {}
  for word in table.concat({ action.title, unpack(texts or {}) }, ' '):gmatch('[%w_$\128-\255]+') do
    words[word], lower[word:lower()] = true, true
  end
  local adds_all = vim.startswith((type(action.kind) == 'string' and action.kind or '') .. '.', ADD_IMPORTS .. '.')
  local named = words[name] or (adds_all and not texts and (action.command or action.data) ~= nil)
  return named and (adds_all or vim.iter(WORDS):any(function(word)
    return lower[word]
  end)) or false
end

-- A question about a name of the buffer, whose place is in our server's encoding, in another server's.
local function question(server, buffer, one, encoding)
  local function place(position)
    local line = vim.api.nvim_buf_get_lines(buffer, position.line, position.line + 1, false)[1] or ''
    local byte = vim.str_byteindex(line, encoding, position.character, false)
    local character = vim.str_utfindex(line, server.offset_encoding, byte, false)
    return { line = position.line, character = character }, byte
  end
  local start, from = place(one.range.start)
  local stop, to = place(one.range['end'])
  local reported = {}
  for _, found in ipairs(vim.diagnostic.get(buffer, { lnum = start.line })) do
    if found.user_data and found.user_data.lsp and found.col <= to and from <= (found.end_col or found.col) then
      reported[#reported + 1] = found.user_data.lsp
    end
  end
  return {
    textDocument = { uri = vim.uri_from_bufnr(buffer) },
    range = { start = start, ['end'] = stop },
    context = { diagnostics = reported, only = KINDS, triggerKind = 2 },
  }
end

--- Find out whether another server offers to import one of some names, and call `done` with it: at once where there is
--- no other. Many offer it only once they have reported the name, so all are asked again at each report.
---@param client vim.lsp.Client ours
---@param buffer integer
---@param names { name: string, range: lsp.Range }[]
---@param done fun(offered: boolean)
function M.offer(client, buffer, names, done)
  local servers = vim.tbl_filter(function(server)
    return server.id ~= client.id and server.name ~= client.name
  end, #names > 0 and vim.lsp.get_clients({ bufnr = buffer, method = METHOD }) or {})
  if #servers == 0 then
    done(false)
    return
  end
  local timer, watch = assert(vim.uv.new_timer()), nil
  local round, open = 0, {} -- the requests of a round, by server
  local function cancel()
    round = round + 1
    for _, server in ipairs(servers) do
      local id = open[server.id]
      if id and not server:is_stopped() and server.requests[id] then
        server:cancel_request(id)
      end
    end
    open = {}
  end
  local function finish(offered)
    if not timer:is_closing() then
      timer:close()
      vim.api.nvim_del_autocmd(watch)
      cancel()
      done(offered)
    end
  end
  -- One name after the other: many a server works on one request at a time, and the user's own wait behind ours.
  local function ask(server, number)
    local one, asked = names[number], round
    if not one or server:is_stopped() or not vim.api.nvim_buf_is_loaded(buffer) then
      return
    end
    local params = question(server, buffer, one, client.offset_encoding)
    local _, id = server:request(METHOD, params, function(err, actions)
      if asked ~= round then
        return
      end
      local offers = not err and type(actions) == 'table' and vim.iter(actions):any(function(action)
        return imports(action, one.name)
      end)
      if offers then
        finish(true)
      else
        ask(server, number + 1)
      end
    end, buffer)
    open[server.id] = id
  end
  local function ask_all()
    cancel()
    for _, server in ipairs(servers) do
      ask(server, 1)
    end
  end
  watch = vim.api.nvim_create_autocmd('DiagnosticChanged', { buffer = buffer, callback = ask_all })
  timer:start(
    ANSWER_MS,
    0,
    vim.schedule_wrap(function()
      finish(false)
    end)
  )
  ask_all()
end

return M
