-- The same, where Neovim itself draws inline completions (0.13): this only puts its functions behind our keys.
local edits = require('fastcoder.edits')
local keys = require('fastcoder.keys')
local text_of = require('fastcoder.text')

local M = {}

local function drawn_marks()
  local namespace = vim.api.nvim_get_namespaces()['nvim.lsp.inline_completion']
  return namespace and vim.api.nvim_buf_get_extmarks(0, namespace, 0, -1, { limit = 1 }) or {}
end

--- Whether ghost text is shown.
function M.is_visible()
  return #drawn_marks() > 0
end

-- Neovim says nothing when it draws a suggestion or takes it away: every drawing of the screen looks.
---@type table<integer, true> the buffers where suggestions are shown
local attached = {}
---@type integer? the buffer whose keys act on a suggestion
local active

local function follow()
  local buffer = vim.api.nvim_get_current_buf()
  local shown = attached[buffer] and M.is_visible() and buffer or nil
  if active and active ~= shown then
    keys.hidden(active)
  end
  if shown and active ~= shown then
    edits.clear()
    keys.shown(shown)
  end
  active = shown
  if attached[buffer] and vim.b[buffer].fastcoder ~= false then
    keys.entered(buffer)
  end
end

vim.api.nvim_set_decoration_provider(vim.api.nvim_create_namespace('fastcoder-look'), {
  on_start = function()
    vim.schedule(follow)
    return false
  end,
})

-- The columns of an item's range: `vim.Range` has had two forms.
local function columns(range, col)
  if not range then
    return col, col
  end
  if range.start_col then
    return range.start_col, range.end_col
  end
  return range.start.col, range.end_.col
end

-- Put in what `part_of` takes of the text behind the cursor; Neovim asks again by itself for the rest. The range is as
-- old as the answer: letters typed since are part of the text, or the suggestion fits no more (neovim#36529).
local function accept_part(part_of)
  return M.is_visible() and vim.lsp.inline_completion.get({
    on_accept = function(item)
      local row, col = unpack(vim.api.nvim_win_get_cursor(0))
      local text = type(item.insert_text) == 'table' and item.insert_text.value or item.insert_text
      local start, stop = columns(item.range, col)
      local typed = vim.api.nvim_get_current_line():sub(start + 1, col)
      if start > col or text:sub(1, #typed) ~= typed then
        return
      end
      local rest = text:sub(#typed + 1)
      local part = part_of(rest)
      local last = part == rest and math.min(math.max(stop, col), #vim.api.nvim_get_current_line()) or col
      local lines = vim.split(part, '\n', { plain = true })
      vim.api.nvim_buf_set_text(0, row - 1, col, row - 1, last, lines)
      vim.api.nvim_win_set_cursor(0, { row + #lines - 1, #lines == 1 and col + #part or #lines[#lines] })
      local client = part == rest and item.command and vim.lsp.get_client_by_id(item.client_id)
      if client then
        client:exec_cmd(item.command, { bufnr = vim.api.nvim_get_current_buf() }, function() end)
      end
    end,
  })
end

--- Put the whole suggestion in.
function M.accept()
  return accept_part(function(rest)
    return rest
  end)
end

--- Put its next word in.
function M.accept_word()
  return accept_part(text_of.word)
end

--- Put its next line in.
function M.accept_line()
  return accept_part(text_of.line)
end

--- Show another suggestion.
---@param by integer 1: the next, -1: the one before
function M.turn(by)
  if not M.is_visible() then
    return false
  end
  vim.lsp.inline_completion.select({ count = by })
  return true
end

--- Take it away: there is no function for this alone.
function M.dismiss()
  if not M.is_visible() then
    return false
  end
  local buffer = vim.api.nvim_get_current_buf()
  vim.lsp.inline_completion.enable(false, { bufnr = buffer })
  vim.lsp.inline_completion.enable(true, { bufnr = buffer })
  return true
end

--- Ask now: Neovim asks whenever the cursor has moved.
function M.ask(_, buffer)
  if vim.b[buffer].fastcoder == false then
    return false
  end
  vim.api.nvim_exec_autocmds('CursorMovedI', { buffer = buffer, modeline = false })
  return true
end

--- The server has made what belongs at the cursor: Neovim asks again if nothing is shown, in its own time.
---@param buffer integer the current one
---@param position lsp.Position where it belongs
function M.late(client, buffer, position)
  local here = vim.lsp.util.make_position_params(0, client.offset_encoding).position
  local same = here.line == position.line and here.character == position.character
  if same and vim.api.nvim_get_mode().mode:sub(1, 1) == 'i' and not M.is_visible() then
    M.ask(client, buffer)
  end
end

--- Show ghost text in a buffer from now on.
function M.attach(_, buffer)
  attached[buffer] = true
  keys.entered(buffer)
  vim.lsp.inline_completion.enable(true, { bufnr = buffer })
end

--- No longer.
function M.detach(buffer)
  attached[buffer] = nil
  keys.hidden(buffer)
  keys.left(buffer)
  if vim.api.nvim_buf_is_valid(buffer) then
    vim.lsp.inline_completion.enable(false, { bufnr = buffer })
  end
end

return M
