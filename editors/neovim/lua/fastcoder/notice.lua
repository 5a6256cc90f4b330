-- A few words in the lower right corner of the screen. The message line is no place for them: in insert mode the next
-- key overwrites it, and more than one line there stops the typing.
local config = require('fastcoder.config')

local M = {}

local WIDEST = 60
---@type integer? the window
local window
local timer = assert(vim.uv.new_timer())

--- Take it away.
function M.hide()
  timer:stop()
  if window and vim.api.nvim_win_is_valid(window) then
    pcall(vim.api.nvim_win_close, window, true)
  end
  window = nil
end

--- Whether a text is shown.
---@return boolean
function M.is_shown()
  return window ~= nil and vim.api.nvim_win_is_valid(window)
end

-- The text in lines of so many cells, broken between words.
local function in_lines(text, width)
  local lines = {}
  for _, paragraph in ipairs(vim.split(text, '\n', { plain = true })) do
    local line = ''
    for word in paragraph:gmatch('%S+') do
      local longer = line == '' and word or line .. ' ' .. word
      if line ~= '' and vim.fn.strdisplaywidth(longer) > width then
        lines[#lines + 1], longer = line, word
      end
      line = longer
    end
    lines[#lines + 1] = line
  end
  return lines
end

--- Show a text in place of the one before.
---@param text string
---@param for_ms? integer how long; until something else is shown, or hide()
---@param highlight? string
function M.show(text, for_ms, highlight)
  if not config.options.notices or vim.fn.getcmdwintype() ~= '' then
    return
  end
  M.hide()
  local lines = in_lines('fastcoder: ' .. text, math.min(WIDEST, vim.o.columns - 4))
  local widths = vim.tbl_map(vim.fn.strdisplaywidth, lines)
  local buffer = vim.api.nvim_create_buf(false, true)
  vim.bo[buffer].bufhidden = 'wipe'
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, lines)
  window = vim.api.nvim_open_win(buffer, false, {
    relative = 'editor',
    anchor = 'SE',
    row = vim.o.lines - vim.o.cmdheight - (vim.o.laststatus > 0 and 1 or 0),
    col = vim.o.columns,
    width = math.max(1, unpack(widths)),
    height = math.min(#lines, math.max(vim.o.lines - 4, 1)),
    style = 'minimal',
    border = 'none',
    focusable = false,
    noautocmd = true,
    zindex = 60,
  })
  vim.wo[window].winhighlight = 'Normal:' .. (highlight or 'NormalFloat')
  vim.wo[window].wrap = true
  if for_ms then
    timer:start(for_ms, 0, vim.schedule_wrap(M.hide))
  end
end

return M
