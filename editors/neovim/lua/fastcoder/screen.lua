-- Draws a suggestion by extmarks. Knows nothing of where it comes from.
local text_of = require('fastcoder.text')

local M = {}

local GHOST, HINT, REPLACED = 'FastcoderGhost', 'FastcoderCount', 'FastcoderReplaced'
local GOES_ON = '↪ ' -- before what of a line had no room
local namespace = vim.api.nvim_create_namespace('fastcoder')
local asking = vim.api.nvim_create_namespace('fastcoder-asking')

--- Of two windows with one buffer the current one alone shows it. nvim__ns_set() is not promised: without it both do.
---@param space integer a namespace
function M.in_this_window(space)
  if vim.api.nvim__ns_set then
    vim.api.nvim__ns_set(space, { wins = { vim.api.nvim_get_current_win() } })
  end
end

-- " 2/3", once the user asked for alternatives.
local function count(shown)
  local all = #shown.candidates
  local counts = shown.turned or (shown.invoked and all > 1)
  return counts and (' %d/%d'):format(shown.index, all) or nil
end

--- How wide text can be in the current window.
---@return integer
function M.text_width()
  local info = vim.fn.getwininfo(vim.api.nvim_get_current_win())[1]
  return math.max(info.width - info.textoff, 10)
end

--- Virtual lines are cut at the right edge: what is wider than the window goes on in the next one.
---@param lines { text: string, goes_on?: boolean }[] without tabs
---@param width integer
---@param highlight string
---@return [string, string][][]
function M.virtual_lines(lines, width, highlight)
  local drawn = {}
  local beside = width - vim.fn.strdisplaywidth(GOES_ON)
  for _, line in ipairs(lines) do
    for i, part in ipairs(text_of.wrap(line.text, line.goes_on and beside or width, beside)) do
      local goes_on = i > 1 or line.goes_on
      drawn[#drawn + 1] = goes_on and { { GOES_ON, HINT }, { part, highlight } } or { { part, highlight } }
    end
  end
  return drawn
end

-- How many of the virtual lines are below the window's lower edge, where they are not drawn.
local function hidden(shown, inline, drawn, width, wraps)
  local line = vim.api.nvim_buf_get_lines(shown.buffer, shown.row, shown.row + 1, false)[1] or ''
  local cells = vim.fn.strdisplaywidth(line) + inline
  local before = vim.fn.strdisplaywidth(line:sub(1, shown.col))
  local rows = wraps and math.floor(math.max(cells - 1, 0) / width) - math.floor(before / width) or 0
  return math.max(#drawn - math.max(vim.fn.winheight(0) - vim.fn.winline() - rows, 0), 0)
end

--- Draw what is shown, in place of what was.
---@param shown fastcoder.Shown
function M.draw(shown)
  M.erase(shown.buffer)
  M.in_this_window(namespace)
  local tabstop = vim.bo[shown.buffer].tabstop
  local replaced = shown.tail:sub(1, shown.replaces)
  local text = shown.candidates[shown.index].text
  local pieces, struck = text_of.pieces(text, replaced)
  local width, wraps = M.text_width(), vim.wo.wrap
  local before = vim.api.nvim_buf_get_text(shown.buffer, shown.row, 0, shown.row, shown.col, {})[1]
  local column = vim.fn.strdisplaywidth(before)
  local inline, below = 0, {}
  for _, piece in ipairs(pieces) do
    piece.text = text_of.expand(piece.text, column + inline + piece.at, tabstop)
    inline = inline + vim.fn.strdisplaywidth(piece.text)
  end
  if not wraps and #pieces == 1 then
    local room = width - column + vim.fn.winsaveview().leftcol
    local parts = text_of.wrap(pieces[1].text, math.max(room, 1), width)
    pieces[1].text = table.remove(parts, 1)
    below = #parts > 0 and { { text = table.concat(parts), goes_on = true } } or {}
  end
  for _, line in ipairs(vim.list_slice(vim.split(text, '\n', { plain = true }), 2)) do
    below[#below + 1] = { text = text_of.expand(line, 0, tabstop) }
  end
  local rest = shown.tail:sub(shown.replaces + 1)
  local moves = text:find('\n', 1, true) and rest:find('%S')
  if moves then
    local last = text:match('[^\n]*$') .. rest
    below[#below] = { text = text_of.expand(last, 0, tabstop) }
  end
  local lines = M.virtual_lines(below, width, GHOST)
  local more = hidden(shown, inline, lines, width, wraps)
  local numbers = count(shown)
  local ends = {}
  if more > 0 then
    ends[#ends + 1] = { (more == 1 and ' +%d line' or ' +%d lines'):format(more), HINT }
  end
  if numbers then
    table.insert(more == 0 and lines[#lines] or ends, { numbers, HINT })
  end
  for i, piece in ipairs(pieces) do
    local goes = i == 1 and struck > 0
    vim.api.nvim_buf_set_extmark(shown.buffer, namespace, shown.row, shown.col + piece.at, {
      virt_text = vim.list_extend({ { piece.text, GHOST } }, i == #pieces and ends or {}),
      virt_text_pos = 'inline',
      virt_lines = i == 1 and #lines > 0 and lines or nil,
      hl_mode = 'replace', -- matchparen's colours of the bracket behind it are not the suggestion's
      -- What the suggestion takes the place of is struck out.
      end_col = goes and shown.col + struck or nil,
      hl_group = goes and REPLACED or nil,
      undo_restore = false,
    })
  end
  if moves then -- accepting takes it behind the last line, where it is drawn
    local from = shown.col + shown.replaces
    local gone = { end_col = shown.col + #shown.tail, hl_group = REPLACED, undo_restore = false }
    vim.api.nvim_buf_set_extmark(shown.buffer, namespace, shown.row, from, gone)
  end
end

--- Draw nothing in a buffer.
---@param buffer integer
---@param space? integer the namespace of what is drawn: by default a suggestion
function M.erase(buffer, space)
  if vim.api.nvim_buf_is_valid(buffer) then
    vim.api.nvim_buf_clear_namespace(buffer, space or namespace, 0, -1)
  end
end

--- Say on the cursor's line that suggestions were asked for.
---@param buffer integer
---@param row integer
function M.draw_asking(buffer, row)
  M.in_this_window(asking)
  vim.api.nvim_buf_set_extmark(buffer, asking, row, 0, { id = 1, virt_text = { { '…', HINT } }, undo_restore = false })
end

--- No longer.
---@param buffer integer
function M.erase_asking(buffer)
  M.erase(buffer, asking)
end

return M
