-- Draws a suggestion by one extmark. Knows nothing of where it comes from.
local text_of = require('fastcoder.text')

local M = {}

local MARK = 1
local namespace = vim.api.nvim_create_namespace('fastcoder')

-- " 2/3", once the user asked for alternatives.
local function count(shown)
  local all = #shown.candidates
  return all > 1 and shown.invoked and (' %d/%d'):format(shown.index, all) or nil
end

--- Draw what is shown, in place of what was.
---@param shown fastcoder.Shown
function M.draw(shown)
  local tabstop = vim.bo[shown.buffer].tabstop
  local replaced = shown.tail:sub(1, shown.replaces)
  local drawn, keeps_tail = text_of.drawn(shown.candidates[shown.index].text, replaced)
  local before = vim.api.nvim_buf_get_text(shown.buffer, shown.row, 0, shown.row, shown.col, {})[1]
  local column = vim.fn.strdisplaywidth(before)
  local lines = {}
  for i, line in ipairs(vim.split(drawn, '\n', { plain = true })) do
    lines[i] = { { text_of.expand(line, i == 1 and column or 0, tabstop), 'FastcoderGhost' } }
  end
  local hint = count(shown)
  if hint then
    table.insert(lines[#lines], { hint, 'FastcoderCount' })
  end
  vim.api.nvim_buf_set_extmark(shown.buffer, namespace, shown.row, shown.col, {
    id = MARK,
    virt_text = lines[1],
    virt_text_pos = 'inline',
    virt_lines = #lines > 1 and vim.list_slice(lines, 2) or nil,
    hl_mode = 'combine',
    -- What the suggestion takes the place of is struck out.
    end_col = not keeps_tail and shown.col + shown.replaces or nil,
    hl_group = not keeps_tail and 'FastcoderReplaced' or nil,
    undo_restore = false,
  })
end

--- Draw nothing in a buffer.
---@param buffer integer
function M.erase(buffer)
  if vim.api.nvim_buf_is_valid(buffer) then
    vim.api.nvim_buf_clear_namespace(buffer, namespace, 0, -1)
  end
end

return M
