-- Our own ghost text: asks for inline completions while one types, and puts them in.
-- For Neovim 0.11, and for 0.12 where options.ghost is 'own'. Owns what is shown; never starts or stops the server.
local config = require('fastcoder.config')
local fit = require('fastcoder.fit')
local screen = require('fastcoder.screen')
local text_of = require('fastcoder.text')

local M = {}

local METHOD = 'textDocument/inlineCompletion'
local INVOKED, AUTOMATIC = 1, 2
-- The server keeps to a budget, says nothing rather than late, goes on in the background, and tells when it is done
-- (M.late). For one that does not tell, or stood still meanwhile, it is asked again after so many milliseconds each.
local AGAIN_MS = { 1000 }

---@class fastcoder.Shown One user, one cursor: so one for all buffers.
---@field client vim.lsp.Client
---@field buffer integer
---@field row integer of the cursor, from 0
---@field col integer in bytes
---@field tail string what stands behind the cursor on its line
---@field replaces integer how many bytes of the tail the candidates stand for
---@field candidates fastcoder.Candidate[] never empty
---@field index integer the one that is drawn
---@field invoked boolean whether the user asked, so that all alternatives are here

---@type fastcoder.Shown?
local shown = nil
-- The request that is open: an answer to any other comes too late.
---@type { client: vim.lsp.Client, id?: integer }?
local open = nil
local timer = assert(vim.uv.new_timer())
-- Where it will be asked again, if the cursor stays there.
---@type { [1]: integer, [2]: integer }?
local waits_at = nil
-- Whether the user has taken away what was shown, and nothing was asked since.
local unwanted = false

local function cursor()
  local row, col = unpack(vim.api.nvim_win_get_cursor(0))
  return row - 1, col
end

local function line_at(buffer, row)
  return vim.api.nvim_buf_get_lines(buffer, row, row + 1, false)[1] or ''
end

local function erase()
  if shown then
    screen.erase(shown.buffer)
  end
  shown = nil
end

local function cancel()
  timer:stop()
  waits_at = nil
  if open then
    if open.id then
      open.client:cancel_request(open.id)
    end
    open = nil
  end
end

local function draw()
  screen.draw(shown)
end

-- Answers -----------------------------------------------------------------------------------------------------------

local function show(client, buffer, items, invoked)
  local row, col = cursor()
  local line = line_at(buffer, row)
  local candidates, replaces = fit.candidates(items, client.offset_encoding, line, row, col)
  if #candidates == 0 then
    erase()
    return
  end
  shown = {
    client = client,
    buffer = buffer,
    row = row,
    col = col,
    tail = line:sub(col + 1),
    replaces = replaces,
    candidates = candidates,
    index = 1,
    invoked = invoked,
  }
  draw()
end

-- Whether a menu holds the keys: then what is typed next is its entry.
local function menu_has_selection()
  return vim.fn.pumvisible() == 1 and vim.fn.complete_info({ 'selected' }).selected ~= -1
end

local function may_suggest(buffer)
  return vim.api.nvim_get_current_buf() == buffer
    and vim.api.nvim_get_mode().mode:sub(1, 1) == 'i'
    and vim.b[buffer].fastcoder ~= false
    and not menu_has_selection()
end

local ask

local function ask_after(wait_ms, client, buffer, tries)
  timer:start(
    wait_ms,
    0,
    vim.schedule_wrap(function()
      ask(client, buffer, AUTOMATIC, nil, tries)
    end)
  )
end

---@param after? fun() what to do with the answer, once it is shown
---@param tries? integer how often nothing was the answer, at this very place
function ask(client, buffer, kind, after, tries)
  cancel()
  if client:is_stopped() or not may_suggest(buffer) then
    return
  end
  unwanted = false
  local tick, row, col = vim.api.nvim_buf_get_changedtick(buffer), cursor()
  local params = vim.lsp.util.make_position_params(0, client.offset_encoding)
  params.context = { triggerKind = kind }
  local asked = { client = client }
  open = asked
  local sent, id = client:request(METHOD, params, function(err, result)
    if open ~= asked then
      return
    end
    open = nil
    local here, at = cursor()
    local same = may_suggest(buffer) and vim.api.nvim_buf_get_changedtick(buffer) == tick and here == row and at == col
    if not err and result and same then
      show(client, buffer, result.items or result, kind == INVOKED)
      local wait_ms = AGAIN_MS[(tries or 0) + 1]
      if not shown and kind == AUTOMATIC and wait_ms then
        ask_after(wait_ms, client, buffer, (tries or 0) + 1)
        waits_at = { row, col }
      elseif after and shown then
        after()
      end
    end
  end, buffer)
  asked.id = id
  if not sent then
    open = nil
  end
end

local function ask_soon(client, buffer)
  cancel()
  if config.options.auto then
    ask_after(config.options.debounce_ms, client, buffer, 0)
  end
end

-- Typing ------------------------------------------------------------------------------------------------------------

-- What was typed since it was drawn; nil where the cursor has left the place.
local function typed_since()
  local row, col = cursor()
  if
    row < shown.row
    or (row == shown.row and col < shown.col)
    or line_at(shown.buffer, row):sub(col + 1) ~= shown.tail
  then
    return nil
  end
  local ok, lines = pcall(vim.api.nvim_buf_get_text, shown.buffer, shown.row, shown.col, row, col, {})
  return ok and table.concat(lines, '\n') or nil
end

-- Typing the suggested letters keeps the rest in place until the server's own answer comes; the screen is drawn after
-- this, so nothing flickers.
local function keep_what_was_typed(buffer)
  if not shown then
    return
  end
  local typed = shown.buffer == buffer and not menu_has_selection() and typed_since()
  if typed == '' then
    return
  end
  local kept, index = {}, 1
  for i, candidate in ipairs(typed and shown.candidates or {}) do
    if #candidate.text > #typed and vim.startswith(candidate.text, typed) then
      kept[#kept + 1] = { text = candidate.text:sub(#typed + 1), command = candidate.command }
      index = i == shown.index and #kept or index
    end
  end
  if #kept == 0 then
    erase()
    return
  end
  shown.candidates, shown.index = kept, index
  shown.row, shown.col = cursor()
  draw()
end

-- Put text in at the cursor. The change is an undo step of its own.
local function insert(text, replaces)
  local lines = vim.split(text, '\n', { plain = true })
  local row, col = shown.row, shown.col
  local levels = vim.bo[shown.buffer].undolevels
  vim.bo[shown.buffer].undolevels = levels -- setting it, to whatever, ends the undo step
  vim.api.nvim_buf_set_text(shown.buffer, row, col, row, col + replaces, lines)
  local last = #lines == 1 and col + #lines[1] or #lines[#lines]
  vim.api.nvim_win_set_cursor(0, { row + #lines, last })
  vim.bo[shown.buffer].undolevels = levels
end

local function accept_part(part_of)
  if not shown then
    return false
  end
  local part = part_of(shown.candidates[shown.index].text)
  if part == shown.candidates[shown.index].text then
    return M.accept()
  end
  insert(part, 0)
  keep_what_was_typed(shown.buffer)
  return true
end

-- For the keys ------------------------------------------------------------------------------------------------------

--- Whether ghost text is shown.
function M.is_visible()
  return shown ~= nil and shown.buffer == vim.api.nvim_get_current_buf()
end

--- Put the whole suggestion in.
function M.accept()
  if not shown then
    return false
  end
  local taken, candidate = shown, shown.candidates[shown.index]
  insert(candidate.text, taken.replaces)
  erase()
  cancel()
  if candidate.command then
    taken.client:exec_cmd(candidate.command, { bufnr = taken.buffer }, function() end)
  end
  return true
end

--- Put its next word in.
function M.accept_word()
  return accept_part(text_of.word)
end

--- Put its next line in.
function M.accept_line()
  return accept_part(text_of.line)
end

local function turn(by)
  shown.index = (shown.index - 1 + by) % #shown.candidates + 1
  draw()
end

--- Show another suggestion. While one types there is one alone: the others are asked for at the first turn.
---@param by integer 1: the next, -1: the one before
function M.turn(by)
  if not shown then
    return false
  end
  if shown.invoked or #shown.candidates > 1 then
    shown.invoked = true
    turn(by)
  else
    ask(shown.client, shown.buffer, INVOKED, function()
      turn(by)
    end)
  end
  return true
end

--- Take it away, and want no answer that is still to come.
function M.dismiss()
  cancel()
  erase()
  unwanted = true
end

--- Ask now, with alternatives.
---@param client vim.lsp.Client
---@param buffer integer
function M.ask(client, buffer)
  ask(client, buffer, INVOKED)
end

--- The server has made what belongs at the cursor, too late for the question: ask again, for it is there at once.
---@param client vim.lsp.Client
---@param buffer integer the current one
---@param position lsp.Position where it belongs
function M.late(client, buffer, position)
  if open or unwanted or (shown and shown.invoked) or not may_suggest(buffer) then
    return -- an answer is on its way, one has said no, or chooses among alternatives
  end
  local here = vim.lsp.util.make_position_params(0, client.offset_encoding).position
  if here.line == position.line and here.character == position.character then
    ask(client, buffer, AUTOMATIC, nil, #AGAIN_MS)
  end
end

-- Buffers -----------------------------------------------------------------------------------------------------------

local function group_of(buffer)
  return 'fastcoder-' .. buffer
end

--- Show ghost text in a buffer from now on.
---@param client vim.lsp.Client
---@param buffer integer
function M.attach(client, buffer)
  local group = vim.api.nvim_create_augroup(group_of(buffer), {})
  local function on(events, action)
    vim.api.nvim_create_autocmd(events, { group = group, buffer = buffer, callback = action })
  end
  on('InsertEnter', function()
    ask_soon(client, buffer)
  end)
  on({ 'TextChangedI', 'TextChangedP' }, function()
    keep_what_was_typed(buffer)
    -- One who chose among alternatives keeps the choice as long as the typing follows it.
    if not (shown and shown.invoked) then
      ask_soon(client, buffer)
    end
  end)
  on({ 'CursorMovedI', 'CompleteChanged' }, function()
    keep_what_was_typed(buffer)
    if waits_at and not vim.deep_equal(waits_at, { cursor() }) then
      cancel()
    end
  end)
  on({ 'InsertLeave', 'BufLeave', 'BufUnload' }, M.dismiss)
  if vim.api.nvim_get_current_buf() == buffer and vim.api.nvim_get_mode().mode:sub(1, 1) == 'i' then
    ask_soon(client, buffer) -- one did not wait for the server to start
  end
end

--- No longer.
---@param buffer integer
function M.detach(buffer)
  if shown and shown.buffer == buffer then
    erase()
  end
  cancel()
  pcall(vim.api.nvim_del_augroup_by_name, group_of(buffer))
end

return M
