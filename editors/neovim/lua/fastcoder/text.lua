-- Pure functions on suggested text: its next word, its next line, how it looks on the screen.
local M = {}

-- White space, then letters of one kind: of words, as 'iskeyword' has them in the buffer, or of signs.
local WORD = [[^\_s*\%(\k\+\|\%(\k\@!\S\)\+\)]]

--- The next word of a text, with the white space before it; all of a text without words.
---@param text string
---@return string
function M.word(text)
  local word = vim.fn.matchstr(text, WORD)
  return word ~= '' and word or text
end

--- A text up to the end of its first line; where it begins with line breaks, they and the line behind them.
---@param text string
---@return string
function M.line(text)
  return text:match('^\n*[^\n]*')
end

--- A line with its tabs as spaces, for virtual text shows a tab as one cell.
---@param line string
---@param column integer display column where the line begins
---@param tabstop integer
---@return string
function M.expand(line, column, tabstop)
  if not line:find('\t', 1, true) then
    return line
  end
  local parts = {}
  for part, tab in line:gmatch('([^\t]*)(\t?)') do
    parts[#parts + 1] = part
    column = column + vim.fn.strdisplaywidth(part, column)
    if tab ~= '' then
      local width = tabstop - column % tabstop
      parts[#parts + 1] = (' '):rep(width)
      column = column + width
    end
  end
  return table.concat(parts)
end

--- What is drawn of a suggestion that replaces `tail`: where the text keeps the tail as its end, only what is new.
---@param text string
---@param tail string what stands behind the cursor and would be replaced
---@return string drawn
---@return boolean whole whether the tail stays on the screen as a part of the suggestion
function M.drawn(text, tail)
  if tail ~= '' and not text:find('\n', 1, true) and vim.endswith(text, tail) then
    return text:sub(1, #text - #tail), true
  end
  return text, tail == ''
end

return M
