-- Tells our server where the names near the cursor are defined, as the other servers of the buffer say: places alone,
-- which ours reads by its own rules. Asks them while nobody types, and never our own.
local status = require('fastcoder.status')

local METHOD, TELL = 'textDocument/definition', 'fastcoder/definitions'
local NAMES = 6
local LINES_ABOVE, LINES_BELOW, LONGEST_LINE, SHORTEST_NAME = 6, 2, 500, 3
local LOCATIONS = 2 -- of one name

-- Words of languages, which are defined nowhere. editors/vscode/src/shared/definitions.ts has the same; a word that is a
-- keyword in one language and a name in another may be missing of the names that are asked for.
local WORDS = [[
and as assert async await bool boolean break case catch char class const continue crate def default defer del delete do
double elif else elsif end enum except export extends extern False false final finally float fn for foreach from func
function global goto if impl implements import in include instanceof int interface is lambda let local long loop match
mod move mut namespace new nil None nonlocal not null nullptr number or override package pass private protected pub
public raise readonly ref repeat require return Self self short signed sizeof static string struct super switch template
then this throw throws trait True true try type typedef typename typeof undefined union unless unsafe unsigned until use
using var virtual void volatile when where while with yield
]]
---@type table<string, true>
local keywords = {}
for word in WORDS:gmatch('%a+') do
  keywords[word] = true
end

---@class fastcoder.Definitions: fastcoder.Follower
---@field open fun()[] what gives the requests up that are open
---@field last table<integer, integer> by server, the request that it was sent last
---@field asked? string the line and the text that all was asked for last
---@field told? string what was told last, to say nothing twice
---@field round integer counts; an answer to an older one comes too late
local Definitions = require('fastcoder.follower').kind('definitions')
Definitions.IDLE_MS = 400 -- without a key
Definitions.ANSWER_MS = 2000 -- for all answers of a round: what comes later is not waited for

-- The other servers of the buffer that know definitions; those of Neovim that answer from ours are none. Who has not
-- answered the last question, which was given up, has enough to do.
function Definitions:others()
  return vim.tbl_filter(function(client)
    local last = self.last[client.id]
    return client.id ~= self.client.id and client.name ~= self.client.name and not (last and client.requests[last])
  end, vim.lsp.get_clients({ bufnr = self.buffer, method = METHOD }))
end

-- (row from 0, column in bytes, name) of the names near a row, its own and those above first, each once.
local function names_near(buffer, row)
  local found, seen = {}, {}
  local first = math.max(row - LINES_ABOVE, 0)
  local lines = vim.api.nvim_buf_get_lines(buffer, first, row + LINES_BELOW + 1, false)
  local order = {}
  for at = row - first + 1, 1, -1 do
    order[#order + 1] = at
  end
  for at = row - first + 2, #lines do
    order[#order + 1] = at
  end
  for _, at in ipairs(order) do
    local line = lines[at] or ''
    local here = {}
    if #line <= LONGEST_LINE then
      for column, name in line:gmatch('()([%a_][%w_]*)') do
        table.insert(here, 1, { first + at - 1, column - 1, name })
      end
    end
    for _, one in ipairs(here) do
      local name = one[3]
      if #name >= SHORTEST_NAME and not keywords[name] and not seen[name] and #found < NAMES then
        seen[name] = true
        found[#found + 1] = one
      end
    end
  end
  return found
end

-- What a server answered, as a list of { name, uri, range }; nothing of the document itself.
local function definitions_of(name, result, own)
  if type(result) ~= 'table' then
    return {}
  end
  local found = {}
  for _, one in ipairs(vim.islist(result) and result or { result }) do
    local uri = type(one) == 'table' and (one.targetUri or one.uri)
    local range = type(one) == 'table' and (one.targetSelectionRange or one.range)
    if type(uri) == 'string' and type(range) == 'table' and uri ~= own and vim.startswith(uri, 'file:') then
      found[#found + 1] = { name = name, uri = uri, range = range }
    end
    if #found == LOCATIONS then
      break
    end
  end
  return found
end

function Definitions:stop()
  self.timer:stop()
  self.round = self.round + 1
  local open = self.open
  self.open = {}
  for _, cancel in ipairs(open) do
    cancel()
  end
end

function Definitions:tell(uri, version, found)
  local key = vim.json.encode(found)
  if key == self.told or self.client:is_stopped() then
    return
  end
  self.told = key
  self.client:notify(TELL, { textDocument = { uri = uri, version = version }, definitions = found })
end

-- Ask the other servers for the names near the cursor, and tell ours when all have answered, or time is up.
function Definitions:ask()
  local buffer = self.buffer
  if self.client:is_stopped() or vim.api.nvim_get_current_buf() ~= buffer then
    return
  end
  if vim.b[buffer].fastcoder == false or status.of(buffer).state == 'off' then
    return
  end
  if not status.shows_other_code(self.client) then
    return
  end
  self:stop()
  local row = vim.api.nvim_win_get_cursor(0)[1] - 1
  local place = ('%d %d'):format(row, vim.api.nvim_buf_get_changedtick(buffer))
  if place == self.asked then
    return
  end
  local servers, round = self:others(), self.round
  local names = #servers > 0 and names_near(buffer, row) or {}
  if #names == 0 then
    return
  end
  local uri, version = vim.uri_from_bufnr(buffer), vim.lsp.util.buf_versions[buffer]
  local answers, waiting = {}, #servers
  local function finish()
    if self.round ~= round then
      return
    end
    self:stop()
    self.asked = place
    local found = {}
    for number = 1, #names do
      vim.list_extend(found, answers[number] or {})
    end
    self:tell(uri, version, found)
  end
  -- One after the other: many a server works on one request at a time, and the user's own wait behind ours.
  local function ask_from(server, number)
    local one, sent, id = names[number], nil, nil
    if one then
      local line = vim.api.nvim_buf_get_lines(buffer, one[1], one[1] + 1, false)[1] or ''
      local character = vim.str_utfindex(line, server.offset_encoding, one[2], false)
      local params = { textDocument = { uri = uri }, position = { line = one[1], character = character } }
      sent, id = server:request(METHOD, params, function(err, result)
        if self.round ~= round then
          return
        end
        if not err and not answers[number] then
          local found = definitions_of(one[3], result, uri)
          answers[number] = #found > 0 and found or nil
        end
        ask_from(server, number + 1)
      end, buffer)
    end
    if sent and id then
      self.last[server.id] = id
      table.insert(self.open, function()
        if not server:is_stopped() and server.requests[id] then
          server:cancel_request(id)
        end
      end)
    else
      waiting = waiting - 1
      if waiting == 0 then
        finish()
      end
    end
  end
  self.timer:start(Definitions.ANSWER_MS, 0, vim.schedule_wrap(finish))
  for _, server in ipairs(servers) do
    ask_from(server, 1)
  end
end

function Definitions:ask_soon()
  self:stop()
  self:soon(Definitions.IDLE_MS, 'ask')
end

function Definitions:begin()
  self.open, self.last, self.round = {}, {}, 0
  self:on({ 'CursorMoved', 'CursorMovedI', 'TextChanged', 'TextChangedI', 'TextChangedP', 'BufEnter' }, 'ask_soon')
  self:on({ 'BufLeave', 'BufUnload' }, 'stop')
  self:ask_soon()
end

return Definitions
