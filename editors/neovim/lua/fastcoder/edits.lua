-- The next edit: a change that the server proposes for a place further on. Asks for it when the keys rest, draws it, and
-- keeps it until the text changes. There is one at a time; ghost text comes first.
local config = require('fastcoder.config')
local diff = require('fastcoder.diff')
local keys = require('fastcoder.keys')
local menus = require('fastcoder.menus')
local notice = require('fastcoder.notice')
local other_imports = require('fastcoder.other_imports')
local status = require('fastcoder.status')

local M = {}

---@class fastcoder.NextEdit
---@field client vim.lsp.Client
---@field buffer integer where it belongs
---@field keys_in integer the buffer where the keys act on it
---@field asked_tick integer of the buffer where one asked
---@field tick? integer of its buffer; nil while it is another one than where one asked
---@field edits table[] as in the answer
---@field hunks fastcoder.Hunk[] empty until its buffer is seen
---@field more? boolean whether more files want the same
---@field reach integer how many lines away the cursor may go

local AFTER_KEY_MS, AFTER_CHANGE_MS = 200, 100
local NO_ANSWER_MS = 4000
local NEAR = 2 -- lines around it where the key applies it without going there
local FAR = 30 -- lines that the cursor may go away from it

---@type table<integer, vim.lsp.Client> by buffer
local attached = {}
local timer = assert(vim.uv.new_timer())
---@type { client: vim.lsp.Client, id?: integer }?
local open
---@type fastcoder.NextEdit?
local shown
local hinted, going = false, false
---@type fun()? what a key does once Neovim is ready for it
local action

local function is_insert()
  return vim.api.nvim_get_mode().mode:sub(1, 1) == 'i'
end

local function cursor_line()
  return vim.api.nvim_win_get_cursor(0)[1] - 1
end

local function in_macro()
  return vim.fn.reg_recording() ~= '' or vim.fn.reg_executing() ~= ''
end

local function cancel()
  timer:stop()
  if open and open.id then
    open.client:cancel_request(open.id)
  end
  open = nil
end

local function hide_hint()
  if hinted then
    notice.hide()
  end
  hinted = false
end

--- Show no next edit, and want none that is still to come.
function M.clear()
  cancel()
  hide_hint()
  if shown then
    diff.erase(shown.buffer)
    keys.no_edit(shown.keys_in)
  end
  shown = nil
end

-- Drawing -----------------------------------------------------------------------------------------------------------

-- The first line of the screen's buffer that a hunk changes.
local function line_of(hunk)
  return math.min(hunk.row, vim.api.nvim_buf_line_count(0) - 1)
end

-- How many lines the cursor is away from a hunk.
local function distance(hunk)
  local line, first = cursor_line(), line_of(hunk)
  return math.max(first - line, line - math.max(first, hunk.row + #hunk.old - 1), 0)
end

-- The hunk that is nearest to the cursor.
local function nearest(next_edit)
  local found
  for _, hunk in ipairs(next_edit.hunks) do
    found = (not found or distance(hunk) < distance(found)) and hunk or found
  end
  return found
end

local function is_here(next_edit)
  return vim.api.nvim_get_current_buf() == next_edit.buffer
end

local function is_in_view(hunk)
  local line = line_of(hunk) + 1
  return line >= vim.fn.line('w0') and line <= vim.fn.line('w$')
end

-- Where the edit is, or a part of it, when one does not see it.
local function draw_hint(next_edit)
  hide_hint()
  local place, goes = nil, true
  if is_here(next_edit) then
    for _, hunk in ipairs(next_edit.hunks) do
      if not is_in_view(hunk) then
        local arrow = hunk.row < cursor_line() and '↑' or '↓'
        place = ('%s line %d'):format(arrow, line_of(hunk) + 1)
        goes = not is_in_view(nearest(next_edit))
        break
      end
    end
  else
    local name = vim.fs.basename(vim.api.nvim_buf_get_name(next_edit.buffer))
    place = ('%s, line %d'):format(name, next_edit.edits[1].range.start.line + 1)
  end
  local all = next_edit.more and not is_here(next_edit) and ', :FastCoder everywhere for all' or ''
  if place then
    local key = config.options.keys[is_insert() and 'accept' or 'edit']
    local text = (goes and 'edit in %s' or 'also %s'):format(place) .. (goes and key and (' (%s)'):format(key) or '')
    notice.show(text .. all, nil, true)
    hinted = true
  end
end

local function draw(next_edit)
  if is_here(next_edit) then
    diff.draw(next_edit.hunks)
  end
  draw_hint(next_edit)
end

-- Find out which lines of its buffer, which is loaded, an edit changes; false where it changes none.
local function read(next_edit)
  local changes = diff.changes(next_edit.buffer, next_edit.edits, next_edit.client.offset_encoding)
  next_edit.hunks = diff.hunks(next_edit.buffer, changes)
  next_edit.tick = vim.api.nvim_buf_get_changedtick(next_edit.buffer)
  return #next_edit.hunks > 0
end

-- Asking ------------------------------------------------------------------------------------------------------------

local function ghost()
  return require('fastcoder').is_visible()
end

-- Whether edits are on in a buffer; a register holds only keys that the user typed, so none are while it records.
local function is_on(buffer, client)
  return config.options.edits
    and vim.api.nvim_buf_is_loaded(buffer)
    and vim.b[buffer].fastcoder ~= false
    and not in_macro()
    and not client:is_stopped()
    and status.proposes_edits(client)
end

-- Whether edits are wanted in a buffer now.
local function may_ask(buffer, client)
  local mode = vim.api.nvim_get_mode().mode
  return vim.api.nvim_get_current_buf() == buffer
    and (mode == 'n' or is_insert())
    and vim.bo[buffer].modifiable
    and is_on(buffer, client)
end

-- The edits of an answer that belong to one document; nil where there is none, or the document has changed.
local function take(client, buffer, answer)
  local first = type(answer) == 'table' and type(answer.edits) == 'table' and answer.edits[1]
  if not first then
    return nil
  end
  local document = first.textDocument
  local edits = vim.tbl_filter(function(edit)
    return edit.textDocument.uri == document.uri
  end, answer.edits)
  local place = vim.uri_to_bufnr(document.uri)
  local version = vim.api.nvim_buf_is_loaded(place) and vim.lsp.util.buf_versions[place]
  if version and type(document.version) == 'number' and document.version ~= version then
    return nil
  end
  local next_edit = { client = client, buffer = place, keys_in = buffer, edits = edits, hunks = {}, reach = FAR }
  next_edit.asked_tick = vim.api.nvim_buf_get_changedtick(buffer)
  next_edit.more = answer.elsewhere == true
  if vim.api.nvim_buf_is_loaded(place) and not read(next_edit) then
    return nil
  end
  if place == buffer then
    next_edit.reach = FAR + distance(nearest(next_edit))
  end
  return next_edit
end

local function tell(next_edit, method)
  for _, edit in ipairs(next_edit.edits) do
    if edit.command then
      next_edit.client:notify(method, { item = { command = edit.command } })
    end
  end
end

local function show(next_edit)
  shown = next_edit
  draw(next_edit)
  keys.edit(next_edit.keys_in)
  tell(next_edit, 'textDocument/didShowInlineEdit')
end

local function ask(buffer, invoked)
  local client = attached[buffer]
  if not client or not may_ask(buffer, client) or (not invoked and ghost()) then
    return false
  end
  M.clear()
  local tick = vim.api.nvim_buf_get_changedtick(buffer)
  local params = vim.lsp.util.make_position_params(0, client.offset_encoding)
  params.textDocument.version = vim.lsp.util.buf_versions[buffer]
  params.context = { triggerKind = invoked and 1 or 2 }
  local asked = { client = client }
  open = asked
  local function answered(err, answer, offered)
    if open ~= asked then
      return
    end
    open = nil
    local same = may_ask(buffer, client) and vim.api.nvim_buf_get_changedtick(buffer) == tick
    if err or offered or not same or ghost() then
      return
    end
    local next_edit = take(client, buffer, answer)
    if next_edit then
      show(next_edit)
    elseif invoked then
      notice.show('no edit here.', NO_ANSWER_MS)
    end
  end
  local sent, id = client:request('textDocument/copilotInlineEdit', params, function(err, answer)
    if open ~= asked then
      return
    end
    asked.id = nil
    local names = not invoked and type(answer) == 'table' and answer.imports or {}
    other_imports.offer(client, buffer, names, function(offered)
      answered(err, answer, offered)
    end)
  end, buffer)
  asked.id = id
  open = sent and open or nil
  return sent
end

local function ask_soon(buffer, wait_ms)
  cancel()
  timer:start(
    wait_ms,
    0,
    vim.schedule_wrap(function()
      ask(buffer, false)
    end)
  )
end

--- Ask now; false where no edits are proposed.
---@return boolean
function M.ask()
  return ask(vim.api.nvim_get_current_buf(), true)
end

-- Keys --------------------------------------------------------------------------------------------------------------

-- Whether the text of an edit's buffer is still as it was, and may be changed; yes before the buffer is seen. Until one
-- goes there, what was asked about is the same, too.
local function is_fresh(next_edit)
  local buffer, asked = next_edit.buffer, next_edit.keys_in
  if asked ~= buffer and vim.api.nvim_buf_get_changedtick(asked) ~= next_edit.asked_tick then
    return false
  end
  return not next_edit.tick
    or vim.api.nvim_buf_is_loaded(buffer)
      and vim.bo[buffer].modifiable
      and vim.api.nvim_buf_get_changedtick(buffer) == next_edit.tick
end

-- What is shown, while edits are on and its text is the same: keys may come before the events of those before them.
local function current()
  if shown and not (is_on(shown.keys_in, shown.client) and is_fresh(shown)) then
    M.clear()
  end
  return shown
end

-- Turning edits off has no event of its own, `b:fastcoder` neither: every drawing of the screen looks.
vim.api.nvim_set_decoration_provider(vim.api.nvim_create_namespace('fastcoder-edit-look'), {
  on_start = function()
    if shown and not is_on(shown.keys_in, shown.client) then
      vim.schedule(current)
    end
    return false
  end,
})

--- Whether a next edit is shown, or a hint to one.
---@return boolean
function M.is_visible()
  return current() ~= nil
end

-- Go to an edit and show it there.
local function go(next_edit)
  vim.cmd("normal! m'")
  if not is_here(next_edit) then
    going = true
    local first = next_edit.edits[1]
    local place = { uri = first.textDocument.uri, range = first.range }
    local gone = vim.lsp.util.show_document(place, next_edit.client.offset_encoding, { focus = true })
    going = false
    if not gone or not read(next_edit) then
      M.clear()
      return
    end
    keys.no_edit(next_edit.keys_in)
    next_edit.keys_in = next_edit.buffer
    keys.edit(next_edit.buffer)
  end
  local hunk = nearest(next_edit)
  local pieces = #hunk.old > 0 and #hunk.new > 0 and diff.pieces(hunk.old[1], hunk.new[1])
  vim.api.nvim_win_set_cursor(0, { line_of(hunk) + 1, pieces and pieces[1] and pieces[1].from or 0 })
  vim.cmd('normal! zv')
  next_edit.reach = FAR
  draw(next_edit)
end

-- Make an edit, an undo step of its own; the cursor goes to its end.
local function put_in(next_edit)
  local buffer, edits, client = next_edit.buffer, next_edit.edits, next_edit.client
  M.clear()
  local changes = diff.changes(buffer, edits, client.offset_encoding)
  local last = changes[#changes].to
  local space = vim.api.nvim_create_namespace('fastcoder-edit-end')
  local mark = vim.api.nvim_buf_set_extmark(buffer, space, last[1], last[2], {})
  local levels = vim.bo[buffer].undolevels
  vim.bo[buffer].undolevels = levels -- setting it, to whatever, ends the undo step
  for i = #changes, 1, -1 do
    local change = changes[i]
    local lines = vim.split(change.text, '\n', { plain = true })
    vim.api.nvim_buf_set_text(buffer, change.from[1], change.from[2], change.to[1], change.to[2], lines)
  end
  vim.bo[buffer].undolevels = levels
  local row, col = unpack(vim.api.nvim_buf_get_extmark_by_id(buffer, space, mark, {}))
  vim.api.nvim_buf_del_extmark(buffer, space, mark)
  vim.api.nvim_win_set_cursor(0, { row + 1, col })
  for _, edit in ipairs(edits) do
    if edit.command then
      client:exec_cmd(edit.command, { bufnr = buffer }, function() end)
    end
  end
end

--- Go to the edit; where one is there already, make it. False where there is none.
---@return boolean
function M.accept()
  local next_edit = current()
  if not next_edit or (is_insert() and menus.has_selection()) then
    return false
  end
  local near = is_here(next_edit) and nearest(next_edit)
  near = near and is_in_view(near) and distance(near) <= NEAR
  action = function()
    if current() == next_edit then
      (near and put_in or go)(next_edit)
    end
  end
  -- In an expression mapping nothing can be changed. A key that moves the cursor ends what `.` repeats: it would put
  -- what is typed here and there together.
  local run = "<Cmd>lua require('fastcoder.edits').act()<CR>"
  vim.api.nvim_feedkeys(vim.keycode((is_insert() and '<Home>' or '') .. run), 'in', false)
  return true
end

---@private
function M.act()
  local act = action
  action = nil
  if act then
    act()
  end
end

--- Take the edit away, and tell the server that it was not wanted; false where there is none.
---@return boolean
function M.reject()
  local next_edit = current()
  if not next_edit then
    return false
  end
  tell(next_edit, 'fastcoder/editRejected')
  M.clear()
  return true
end

-- Buffers -----------------------------------------------------------------------------------------------------------

local function group_of(buffer)
  return 'fastcoder-edits-' .. buffer
end

--- Propose edits in a buffer from now on.
---@param client vim.lsp.Client
---@param buffer integer
function M.attach(client, buffer)
  attached[buffer] = client
  local group = vim.api.nvim_create_augroup(group_of(buffer), {})
  local function on(events, act)
    vim.api.nvim_create_autocmd(events, { group = group, buffer = buffer, callback = act })
  end
  on({ 'TextChangedI', 'TextChangedP' }, function()
    M.clear()
    ask_soon(buffer, AFTER_KEY_MS)
  end)
  on('TextChanged', function()
    if not current() then -- opening a file by our key is a change for Neovim
      ask_soon(buffer, AFTER_CHANGE_MS)
    end
  end)
  on('InsertLeave', function()
    if current() then
      draw_hint(shown)
    else
      ask_soon(buffer, AFTER_CHANGE_MS)
    end
  end)
  on({ 'CursorMoved', 'CursorMovedI' }, function()
    local next_edit = current()
    if not next_edit then
      return
    end
    if is_here(next_edit) and distance(nearest(next_edit)) > next_edit.reach then
      M.clear()
    else
      draw_hint(next_edit)
    end
  end)
  on({ 'BufLeave', 'BufUnload' }, function()
    if not going then
      M.clear()
    end
  end)
  on('RecordingEnter', current)
  vim.api.nvim_create_autocmd('User', { group = group, pattern = 'FastCoderStatus', callback = current })
  vim.api.nvim_create_autocmd({ 'VimResized', 'WinEnter', 'WinResized', 'WinScrolled' }, {
    group = group,
    callback = function()
      if vim.api.nvim_get_current_buf() == buffer and current() then
        draw(shown)
      end
    end,
  })
end

--- No longer.
---@param buffer integer
function M.detach(buffer)
  if shown and (shown.buffer == buffer or shown.keys_in == buffer) then
    M.clear()
  end
  attached[buffer] = nil
  pcall(vim.api.nvim_del_augroup_by_name, group_of(buffer))
end

return M
