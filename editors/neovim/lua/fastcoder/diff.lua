-- Shows what edits would make of a buffer, as a diff in place: text that goes is struck out where it stands, new text is
-- virtual. Knows nothing of where the edits come from.
local screen = require('fastcoder.screen')
local text_of = require('fastcoder.text')

local M = {}

---@class fastcoder.Change characters that become other ones
---@field from [integer, integer] row and byte
---@field to [integer, integer]
---@field text string

---@class fastcoder.Hunk whole lines that become other ones
---@field row integer of the first old line, or where the new ones are put in
---@field old string[]
---@field new string[]

local INSERTED, DELETED = 'FastcoderInserted', 'FastcoderDeleted'
local MOST_PIECES = 4 -- a line that changes in more places is easier to read as a new line
local LEAST_KEPT = 0.4
local namespace = vim.api.nvim_create_namespace('fastcoder-edit')
local line_diff = vim.text and vim.text.diff or vim.diff

local function differences(old, new, options)
  local function joined(lines)
    return #lines == 0 and '' or table.concat(lines, '\n') .. '\n'
  end
  options.result_type, options.ctxlen = 'indices', 0
  return line_diff(joined(old), joined(new), options)
end

--- The edits of an answer by rows and bytes, in their order. A place behind the last line is the end of that line, so
--- that the break goes or comes which stands before it.
---@param buffer integer
---@param edits { range: lsp.Range, text: string }[]
---@param encoding string
---@return fastcoder.Change[]
function M.changes(buffer, edits, encoding)
  local count = vim.api.nvim_buf_line_count(buffer)
  local function line_at(row)
    return vim.api.nvim_buf_get_lines(buffer, row, row + 1, false)[1]
  end
  local function place(position)
    local row = math.min(position.line, count - 1)
    local line = line_at(row)
    return { row, position.line < count and vim.str_byteindex(line, encoding, position.character, false) or #line }
  end
  -- In a file of mixed line ends the carriage returns are parts of the lines.
  local mixed = vim.bo[buffer].fileformat == 'unix'
  local function ends_in_return(row)
    local line = line_at(row)
    return vim.endswith(row == count - 1 and row > 0 and line == '' and line_at(row - 1) or line, '\r')
  end
  local changes = vim.tbl_map(function(edit)
    local from, to = place(edit.range.start), place(edit.range['end'])
    local text = edit.text:gsub('\r\n?', '\n')
    if mixed and ends_in_return(from[1]) then
      text = text:gsub('\n', '\r\n')
    end
    if edit.range['end'].line >= count then
      text = text:gsub('\n$', '')
      if edit.range.start.line >= count then
        text = '\n' .. text
      elseif text == '' and from[2] == 0 and from[1] > 0 then
        from = { from[1] - 1, #line_at(from[1] - 1) }
      end
    end
    return { from = from, to = to, text = text }
  end, edits)
  table.sort(changes, function(one, other)
    return one.from[1] < other.from[1] or (one.from[1] == other.from[1] and one.from[2] < other.from[2])
  end)
  return changes
end

-- The lines from the first to the last, with the changes made.
local function changed(buffer, first, last, changes)
  local parts, row, col = {}, first, 0
  for _, change in ipairs(changes) do
    vim.list_extend(parts, { vim.api.nvim_buf_get_text(buffer, row, col, change.from[1], change.from[2], {}) })
    vim.list_extend(parts, { vim.split(change.text, '\n', { plain = true }) })
    row, col = unpack(change.to)
  end
  local rest = vim.api.nvim_buf_get_lines(buffer, last, last + 1, false)[1]
  parts[#parts + 1] = vim.api.nvim_buf_get_text(buffer, row, col, last, #rest, {})
  local texts = vim.tbl_map(function(lines)
    return table.concat(lines, '\n')
  end, parts)
  return vim.split(table.concat(texts), '\n', { plain = true })
end

--- The lines that differ, in their order. Changes that share a line are one.
---@param buffer integer
---@param changes fastcoder.Change[]
---@return fastcoder.Hunk[]
function M.hunks(buffer, changes)
  local blocks, hunks = {}, {}
  for _, change in ipairs(changes) do
    local block = blocks[#blocks]
    if block and change.from[1] <= block.last then
      table.insert(block.changes, change)
      block.last = math.max(block.last, change.to[1])
    else
      blocks[#blocks + 1] = { first = change.from[1], last = change.to[1], changes = { change } }
    end
  end
  for _, block in ipairs(blocks) do
    local old = vim.api.nvim_buf_get_lines(buffer, block.first, block.last + 1, false)
    local new = changed(buffer, block.first, block.last, block.changes)
    for _, found in ipairs(differences(old, new, { linematch = 60 })) do
      local at, removed, to, added = unpack(found)
      hunks[#hunks + 1] = {
        row = block.first + (removed == 0 and at or at - 1), -- where nothing goes, `at` counts the line above
        old = vim.list_slice(old, at, at + removed - 1),
        new = vim.list_slice(new, to, to + added - 1),
      }
    end
  end
  return hunks
end

-- Words, runs of spaces, and signs.
local function tokens(line)
  local found = {}
  for word, space, sign in line:gmatch('([%w_\128-\255]*)(%s*)([^%w_%s\128-\255]?)') do
    for _, token in ipairs({ word, space, sign }) do
      found[#found + 1] = token ~= '' and token or nil
    end
  end
  return found
end

--- Where a line changes, word by word: `text` takes the place of the bytes from `from` to `to`; nil where little is left
--- as it is.
---@param old string
---@param new string
---@return { from: integer, to: integer, text: string }[]?
function M.pieces(old, new)
  local before, after = tokens(old), tokens(new)
  local pieces, kept = {}, #old
  for _, found in ipairs(differences(before, after, {})) do
    local at, removed, to, added = unpack(found)
    local from = #table.concat(before, '', 1, removed == 0 and at or at - 1)
    local gone = table.concat(before, '', at, at + removed - 1)
    local text = table.concat(after, '', to, to + added - 1)
    local last = pieces[#pieces]
    if last and not old:sub(last.to + 1, from):find('%S') then -- words with spaces between them are one piece
      last.text = last.text .. old:sub(last.to + 1, from) .. text
      last.to = from + #gone
    else
      pieces[#pieces + 1] = { from = from, to = from + #gone, text = text }
    end
    kept = kept - #gone
  end
  local few = #pieces <= MOST_PIECES and kept >= LEAST_KEPT * math.min(#old, #new)
  return few and old:find('%S') and pieces or nil
end

local function mark(buffer, row, col, options)
  options.undo_restore = false
  vim.api.nvim_buf_set_extmark(buffer, namespace, row, col, options)
end

local function strike(buffer, row, from, to)
  if from < to then
    mark(buffer, row, from, { end_col = to, hl_group = DELETED })
  end
end

local function strike_line(buffer, row, line)
  strike(buffer, row, 0, #line)
  if line == '' then
    mark(buffer, row, 0, { virt_text = { { '¶', DELETED } }, virt_text_pos = 'overlay' })
  end
end

local function virtual(buffer, lines)
  local tabstop = vim.bo[buffer].tabstop
  local drawn = vim.tbl_map(function(line)
    return { text = line == '' and ' ' or text_of.expand(line, 0, tabstop) }
  end, lines)
  return screen.virtual_lines(drawn, screen.text_width(), INSERTED)
end

-- A line that changes in a few words is drawn with both; false where there is no room for both.
local function draw_words(buffer, row, old, new)
  local pieces = M.pieces(old, new)
  local tabstop, inserted = vim.bo[buffer].tabstop, 0
  for _, piece in ipairs(pieces or {}) do
    local column = vim.fn.strdisplaywidth(old:sub(1, piece.to)) + inserted
    piece.drawn = text_of.expand(piece.text, column, tabstop)
    inserted = inserted + vim.fn.strdisplaywidth(piece.drawn)
  end
  if not pieces or (not vim.wo.wrap and vim.fn.strdisplaywidth(old) + inserted > screen.text_width()) then
    return false
  end
  for _, piece in ipairs(pieces) do
    strike(buffer, row, piece.from, piece.to)
    if piece.drawn ~= '' then
      mark(buffer, row, piece.to, {
        virt_text = { { piece.drawn, INSERTED } },
        virt_text_pos = 'inline',
        hl_mode = 'replace',
        right_gravity = false,
      })
    end
  end
  return true
end

local function draw_hunk(buffer, hunk)
  if #hunk.old == #hunk.new then
    for i, old in ipairs(hunk.old) do
      local row = hunk.row + i - 1
      if not draw_words(buffer, row, old, hunk.new[i]) then
        strike_line(buffer, row, old)
        mark(buffer, row, 0, { virt_lines = virtual(buffer, { hunk.new[i] }) })
      end
    end
    return
  end
  for i, old in ipairs(hunk.old) do
    strike_line(buffer, hunk.row + i - 1, old)
  end
  if #hunk.new > 0 then
    local lines, row = virtual(buffer, hunk.new), hunk.row + #hunk.old - 1
    mark(buffer, math.max(row, 0), 0, { virt_lines = lines, virt_lines_above = row < 0 })
    if row < 0 and vim.fn.line('w0') == 1 then
      vim.fn.winrestview({ topfill = #lines }) -- lines above the first one have no room by themselves
    end
  end
end

--- Draw hunks in the current window, in place of what was drawn in its buffer.
---@param hunks fastcoder.Hunk[]
function M.draw(hunks)
  local buffer = vim.api.nvim_get_current_buf()
  M.erase(buffer)
  screen.in_this_window(namespace)
  for _, hunk in ipairs(hunks) do
    draw_hunk(buffer, hunk)
  end
end

--- Draw nothing in a buffer.
---@param buffer integer
function M.erase(buffer)
  screen.erase(buffer, namespace)
end

return M
