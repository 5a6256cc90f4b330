-- From the items of an answer to what can be shown at the cursor. Pure.
local M = {}

---@class fastcoder.Candidate
---@field text string stands at the cursor
---@field command? lsp.Command run when all of it is in

-- What of an item would stand at the cursor, and how many bytes behind it that replaces; nil where it does not fit.
local function fit(item, encoding, line, row, col)
  local from, to = col, col
  if item.range then
    if item.range.start.line ~= row or item.range['end'].line ~= row then
      return nil
    end
    from = vim.str_byteindex(line, encoding, item.range.start.character, false)
    to = vim.str_byteindex(line, encoding, item.range['end'].character, false)
  end
  local text = type(item.insertText) == 'table' and item.insertText.value or item.insertText
  local typed = line:sub(from + 1, col)
  if from > col or to < col or not vim.startswith(text, typed) or text:sub(#typed + 1) == line:sub(col + 1, to) then
    return nil
  end
  return text:sub(#typed + 1), to - col
end

--- The items that can be shown, each text once. Alternatives that replace something else than the first are left out:
--- they cannot be told apart on the screen.
---@param items lsp.InlineCompletionItem[]
---@param encoding string of the positions
---@param line string the cursor's line
---@param row integer of the cursor, from 0
---@param col integer in bytes
---@return fastcoder.Candidate[]
---@return integer? replaces how many bytes behind the cursor they all stand for
function M.candidates(items, encoding, line, row, col)
  local candidates, replaces, seen = {}, nil, {}
  for _, item in ipairs(items) do
    local text, width = fit(item, encoding, line, row, col)
    if text and not seen[text] and (replaces == nil or replaces == width) then
      seen[text], replaces = true, width
      candidates[#candidates + 1] = { text = text, command = item.command }
    end
  end
  return candidates, replaces
end

return M
