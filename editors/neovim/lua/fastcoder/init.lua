-- Ghost text for Neovim 0.11: asks for inline completions while one types, draws them by extmarks, accepts them by keys.
-- Neovim 0.12 has vim.lsp.inline_completion for this; there only the keys are ours.
local M = {}

local METHOD = 'textDocument/inlineCompletion'
local INVOKED, AUTOMATIC = 1, 2

--- Keys in insert mode. false leaves a key alone.
M.keys = { accept = '<Tab>', accept_word = '<M-f>', dismiss = '<C-]>', ask = '<M-Space>' }

local namespace = vim.api.nvim_create_namespace('fastcoder')
vim.api.nvim_set_hl(0, 'FastcoderGhost', { link = 'Comment', default = true })

-- What is shown: { buffer, row, col, text, replaces, item, client }; row and col from 0, col in bytes. text stands at the
-- cursor and would replace `replaces` bytes behind it. One user, one cursor: so one for all buffers.
local shown = nil
-- The request that is open: { client, id }. An answer to any other comes too late.
local open = nil

local function erase()
  if shown and vim.api.nvim_buf_is_valid(shown.buffer) then
    vim.api.nvim_buf_clear_namespace(shown.buffer, namespace, 0, -1)
  end
  shown = nil
end

local function cancel()
  if open then
    open.client:cancel_request(open.id)
    open = nil
  end
end

local function cursor()
  local row, col = unpack(vim.api.nvim_win_get_cursor(0))
  return row - 1, col
end

local function draw()
  vim.api.nvim_buf_clear_namespace(shown.buffer, namespace, 0, -1)
  local lines = vim.split(shown.text, '\n', { plain = true })
  local below = {}
  for i = 2, #lines do
    below[#below + 1] = { { lines[i]:gsub('\t', (' '):rep(vim.bo[shown.buffer].tabstop)), 'FastcoderGhost' } }
  end
  vim.api.nvim_buf_set_extmark(shown.buffer, namespace, shown.row, shown.col, {
    virt_text = { { lines[1], 'FastcoderGhost' } },
    virt_text_pos = 'inline',
    virt_lines = #below > 0 and below or nil,
    hl_mode = 'combine',
  })
end

local function show(client, buffer, item)
  local row, col = cursor()
  local line = vim.api.nvim_buf_get_lines(buffer, row, row + 1, false)[1]
  local from, to = col, col
  if item.range then
    if item.range.start.line ~= row or item.range['end'].line ~= row then
      return
    end
    from = vim.str_byteindex(line, client.offset_encoding, item.range.start.character, false)
    to = vim.str_byteindex(line, client.offset_encoding, item.range['end'].character, false)
  end
  local text = type(item.insertText) == 'table' and item.insertText.value or item.insertText
  local typed = line:sub(from + 1, col)
  if from > col or to < col or not vim.startswith(text, typed) or #text == #typed then
    return
  end
  shown = {
    buffer = buffer,
    row = row,
    col = col,
    text = text:sub(#typed + 1),
    replaces = to - col,
    item = item,
    client = client,
  }
  draw()
end

local function ask(client, buffer, kind)
  cancel()
  local tick, row, col = vim.api.nvim_buf_get_changedtick(buffer), cursor()
  local params = vim.lsp.util.make_position_params(0, client.offset_encoding)
  params.context = { triggerKind = kind }
  local asked = { client = client }
  local sent, id = client:request(METHOD, params, function(err, result)
    if open ~= asked then
      return
    end
    open = nil
    local here, at = cursor()
    if
      err
      or vim.api.nvim_get_current_buf() ~= buffer
      or vim.api.nvim_buf_get_changedtick(buffer) ~= tick
      or here ~= row
      or at ~= col
      or vim.api.nvim_get_mode().mode:sub(1, 1) ~= 'i'
    then
      return
    end
    erase()
    local item = result and (result.items or result)[1]
    if item then
      show(client, buffer, item)
    end
  end, buffer)
  asked.id = id
  open = sent and asked or nil
end

-- Typing the suggested letters keeps the rest in place until the server's own answer comes.
local function keep_what_was_typed(buffer)
  if not shown then
    return
  end
  local row, col = cursor()
  local line = vim.api.nvim_buf_get_lines(buffer, row, row + 1, false)[1]
  local typed = line:sub(shown.col + 1, col)
  local here = shown.buffer == buffer and shown.row == row and col >= shown.col
  if here and #typed < #shown.text and vim.startswith(shown.text, typed) then
    shown.text, shown.col = shown.text:sub(#typed + 1), col
    draw()
  else
    erase()
  end
end

local function insert(text, replaces)
  local lines = vim.split(text, '\n', { plain = true })
  local row, col = shown.row, shown.col
  vim.api.nvim_buf_set_text(shown.buffer, row, col, row, col + replaces, lines)
  local last = #lines == 1 and col + #lines[1] or #lines[#lines]
  vim.api.nvim_win_set_cursor(0, { row + #lines, last })
end

--- Whether ghost text is shown.
function M.visible()
  return shown ~= nil
end

--- Put the whole suggestion in.
function M.accept()
  if not shown then
    return false
  end
  local taken = shown
  insert(taken.text, taken.replaces)
  erase()
  if taken.item.command then
    taken.client:exec_cmd(taken.item.command, { bufnr = taken.buffer }, function() end)
  end
  return true
end

--- Put its next word in.
function M.accept_word()
  if not shown then
    return false
  end
  local word = shown.text:match('^%s*[%w_]+') or shown.text:match('^%s*[^%w_%s]+') or shown.text
  if word == shown.text then
    return M.accept()
  end
  insert(word, 0)
  return true
end

--- Take it away.
function M.dismiss()
  cancel()
  erase()
end

-- A key that does what it did before where there is no ghost text. Buffers are not to be changed while a mapping is
-- evaluated, so the work is scheduled.
local function map(buffer, key, action, always)
  if not key then
    return
  end
  local before = vim.fn.maparg(key, 'i', false, true)
  vim.keymap.set('i', key, function()
    if always or M.visible() or (vim.lsp.inline_completion and action == M.accept and vim.lsp.inline_completion.get()) then
      vim.schedule(action)
      return ''
    end
    if before.callback then
      local keys = before.callback()
      return before.expr == 1 and keys or ''
    end
    return before.expr == 1 and vim.api.nvim_eval(before.rhs) or before.rhs or key
  end, { buffer = buffer, expr = true, desc = 'fastcoder' })
end

--- Show ghost text in a buffer; called for every buffer that the server is attached to.
function M.attach(client, buffer)
  if vim.lsp.inline_completion then
    vim.lsp.inline_completion.enable(true, { bufnr = buffer })
  else
    local group = vim.api.nvim_create_augroup('fastcoder-' .. buffer, {})
    local function on(events, action)
      vim.api.nvim_create_autocmd(events, { group = group, buffer = buffer, callback = action })
    end
    on('TextChangedI', function()
      keep_what_was_typed(buffer)
      ask(client, buffer, AUTOMATIC)
    end)
    on('CursorMovedI', function()
      keep_what_was_typed(buffer)
    end)
    on({ 'InsertLeave', 'BufLeave' }, M.dismiss)
    on('LspDetach', function(args)
      if args.data.client_id == client.id then
        M.dismiss()
        vim.api.nvim_del_augroup_by_id(group)
      end
    end)
    map(buffer, M.keys.accept_word, M.accept_word)
    map(buffer, M.keys.dismiss, M.dismiss)
    map(buffer, M.keys.ask, function()
      ask(client, buffer, INVOKED)
    end, true)
  end
  map(buffer, M.keys.accept, M.accept)
end

return M
