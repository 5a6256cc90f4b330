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

-- Where the bytes of `tail` stand in the first line of a text, in their order; nil where that has not all of them.
local function places(text, tail)
  local line = text:match('^[^\n]*')
  local found, to = {}, #line
  if tail:find('[\128-\255]') then
    return nil -- parts of letters would be found
  end
  for at = #tail, 1, -1 do
    while to > 0 and line:byte(to) ~= tail:byte(at) do
      to = to - 1
    end
    if to == 0 then
      return nil
    end
    found[at], to = to, to - 1
  end
  return found
end

--- How much of what a suggestion would replace is in it already where the suggestion is put in up to `part`.
---@param text string
---@param tail string what stands behind the cursor and would be replaced
---@param part string the beginning of the text
---@return integer bytes of the tail
function M.passed(text, tail, part)
  local passed = 0
  for _, place in ipairs(places(text, tail) or {}) do
    passed = passed + (place <= #part and 1 or 0)
  end
  return passed
end

--- How a suggestion stands on the cursor's line: where that keeps what stands there, only what is new is drawn.
---@param text string
---@param tail string what stands behind the cursor and would be replaced
---@return { at: integer, text: string }[] pieces each behind so many bytes of the tail; the first behind none
---@return integer struck how many bytes of the tail go
function M.pieces(text, tail)
  local first, kept = text:match('^[^\n]*'), places(text, tail)
  if kept then
    local pieces = {}
    for at = 0, #tail do
      local piece = first:sub((kept[at] or 0) + 1, (kept[at + 1] or #first + 1) - 1)
      if at == 0 or piece ~= '' then
        pieces[#pieces + 1] = { at = at, text = piece }
      end
    end
    return pieces, 0
  end
  local same = 0
  while #first == #text and same < math.min(#text, #tail) and text:byte(-same - 1) == tail:byte(-same - 1) do
    same = same + 1
  end
  same = vim.str_utf_start(text .. ' ', #text - same + 1) == 0 and same or 0
  return { { at = 0, text = first:sub(1, #first - same) } }, #tail - same
end

--- A line in parts that are as wide as there is room; one part where it fits.
---@param line string without tabs
---@param room integer for the first part
---@param width integer for the others
---@return string[]
function M.wrap(line, room, width)
  if vim.fn.strdisplaywidth(line) <= room then
    return { line }
  end
  local parts, part, left = {}, {}, room
  for _, letter in ipairs(vim.fn.split(line, [[\zs]])) do
    local cells = vim.fn.strdisplaywidth(letter)
    if cells > left then
      parts[#parts + 1], part, left = table.concat(part), {}, math.max(width, cells)
    end
    part[#part + 1] = letter
    left = left - cells
  end
  parts[#parts + 1] = table.concat(part)
  return parts
end

return M
