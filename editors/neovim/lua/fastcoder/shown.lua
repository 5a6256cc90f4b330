-- What is shown in a buffer: the candidates of one answer, the one that is drawn, and the place where it stands.
-- Knows no server.
local screen = require('fastcoder.screen')
local text_of = require('fastcoder.text')

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

-- The items that can be shown, each text once. Alternatives that replace something else than the first are left out:
-- they cannot be told apart on the screen.
---@param items lsp.InlineCompletionItem[]
---@param encoding string of the positions
---@param line string the cursor's line
---@param row integer of the cursor, from 0
---@param col integer in bytes
---@return fastcoder.Candidate[]
---@return integer? replaces how many bytes behind the cursor they all stand for
local function candidates_of(items, encoding, line, row, col)
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

---@class fastcoder.Shown
---@field buffer integer
---@field row integer of the cursor, from 0
---@field col integer in bytes
---@field tail string what stands behind the cursor on its line
---@field replaces integer how many bytes of the tail the candidates stand for
---@field candidates fastcoder.Candidate[] never empty
---@field index integer the one that is drawn
---@field invoked boolean whether the user asked, so that all alternatives are here
---@field turned? boolean whether the user chose among them
local Shown = {}
Shown.__index = Shown

local function cursor()
  local row, col = unpack(vim.api.nvim_win_get_cursor(0))
  return row - 1, col
end

local function line_at(buffer, row)
  return vim.api.nvim_buf_get_lines(buffer, row, row + 1, false)[1] or ''
end

--- What of an answer can be shown at the cursor; nil for nothing.
---@param buffer integer the current one
---@param items lsp.InlineCompletionItem[]
---@param encoding string of the positions
---@param invoked boolean whether the user asked
---@return fastcoder.Shown?
function Shown.at_cursor(buffer, items, encoding, invoked)
  local row, col = cursor()
  local line = line_at(buffer, row)
  local candidates, replaces = candidates_of(items, encoding, line, row, col)
  if #candidates == 0 then
    return nil
  end
  return setmetatable({
    buffer = buffer,
    row = row,
    col = col,
    tail = line:sub(col + 1),
    replaces = replaces,
    candidates = candidates,
    index = 1,
    invoked = invoked,
  }, Shown)
end

function Shown:draw()
  screen.draw(self)
end

function Shown:erase()
  screen.erase(self.buffer)
end

--- The one that is drawn.
---@return fastcoder.Candidate
function Shown:candidate()
  return self.candidates[self.index]
end

--- Draw another of the candidates, which the user chooses among from now on.
---@param by integer 1: the next, -1: the one before
function Shown:turn(by)
  self.invoked, self.turned = true, true
  self.index = (self.index - 1 + by) % #self.candidates + 1
  self:draw()
end

-- What was typed since it was drawn; nil where the cursor has left the place.
function Shown:typed_since()
  local row, col = cursor()
  if
    row < self.row
    or (row == self.row and col < self.col)
    or line_at(self.buffer, row):sub(col + 1) ~= self.tail
  then
    return nil
  end
  local ok, lines = pcall(vim.api.nvim_buf_get_text, self.buffer, self.row, self.col, row, col, {})
  return ok and table.concat(lines, '\n') or nil
end

--- Take typed letters off the candidates that go on with them, and draw the rest; false where none does.
---@return boolean
function Shown:keep_what_was_typed()
  local typed = self:typed_since()
  if typed == '' then
    return true
  end
  local kept, index = {}, 1
  local replaced = self.tail:sub(1, self.replaces)
  for i, candidate in ipairs(typed and self.candidates or {}) do
    if vim.startswith(candidate.text, typed) and candidate.text:sub(#typed + 1) ~= replaced then
      kept[#kept + 1] = { text = candidate.text:sub(#typed + 1), command = candidate.command }
      index = i == self.index and #kept or index
    end
  end
  if #kept == 0 then
    return false
  end
  self.candidates, self.index = kept, index
  self.row, self.col = cursor()
  self:draw()
  return true
end

-- The change is an undo step of its own, and `.` repeats it: Neovim repeats what is typed or pasted in insert mode.
local function put_in(buffer, text, deletes)
  local levels = vim.bo[buffer].undolevels
  vim.bo[buffer].undolevels = levels -- setting it, to whatever, ends the undo step
  vim.api.nvim_paste(text, false, -1)
  if deletes == '' then
    vim.bo[buffer].undolevels = levels
  else
    local keys = ('<Del>'):rep(vim.fn.strchars(deletes, true)) .. '<C-g>u'
    vim.api.nvim_feedkeys(vim.keycode(keys), 'in', false)
  end
end

--- Put all of it in.
function Shown:insert()
  put_in(self.buffer, self:candidate().text, self.tail:sub(1, self.replaces))
end

--- Put the beginning of it in; what is left is shown from then on.
---@param part string
function Shown:insert_part(part)
  local passed = text_of.passed(self:candidate().text, self.tail:sub(1, self.replaces), part)
  put_in(self.buffer, part, self.tail:sub(1, passed))
  self.tail, self.replaces = self.tail:sub(passed + 1), self.replaces - passed
end

return Shown
