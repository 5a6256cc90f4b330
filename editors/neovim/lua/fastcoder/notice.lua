-- A few words behind the end of the cursor's line, where they cover no code; where they have no room there, and for
-- errors, a window in a corner of the screen. The message line is no place for them: in insert mode the next key
-- overwrites it, and more than one line there stops the typing.
local config = require('fastcoder.config')

local M = {}

local WIDEST = 60
local namespace = vim.api.nvim_create_namespace('fastcoder-notice')
---@type integer? the window in the corner
local window
---@type integer? the buffer with a text behind the cursor's line
local buffer
local timer = assert(vim.uv.new_timer())

--- Take it away.
function M.hide()
  timer:stop()
  if window and vim.api.nvim_win_is_valid(window) then
    pcall(vim.api.nvim_win_close, window, true)
  end
  if buffer and vim.api.nvim_buf_is_valid(buffer) then
    vim.api.nvim_buf_clear_namespace(buffer, namespace, 0, -1)
  end
  window, buffer = nil, nil
end

--- Whether a text is shown.
---@return boolean
function M.is_shown()
  return buffer ~= nil or (window ~= nil and vim.api.nvim_win_is_valid(window))
end

-- What is shown comes in place of the one before; for so long, or until something else is shown.
local function begin(for_ms)
  M.hide()
  if for_ms then
    timer:start(for_ms, 0, vim.schedule_wrap(M.hide))
  end
end

-- The cells behind the end of the cursor's line, in its last row where it wraps. Neovim leaves one of them blank.
local function room()
  local info = vim.fn.getwininfo(vim.api.nvim_get_current_win())[1]
  local width, cells = info.width - info.textoff, vim.fn.virtcol('$') - 1
  if vim.wo.wrap then
    return width - (cells > 0 and (cells - 1) % math.max(width, 1) + 1 or 0) - 1
  end
  local left = cells - vim.fn.winsaveview().leftcol
  return left < 0 and 0 or width - left - 1
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

-- Show a text in the corner on the right that is not near the cursor.
local function show_in_corner(text, highlight)
  local lines = in_lines(text, math.min(WIDEST, vim.o.columns - 4))
  local widths = vim.tbl_map(vim.fn.strdisplaywidth, lines)
  local scratch = vim.api.nvim_create_buf(false, true)
  vim.bo[scratch].bufhidden = 'wipe'
  vim.api.nvim_buf_set_lines(scratch, 0, -1, false, lines)
  local above = vim.fn.screenrow() > vim.o.lines / 2
  window = vim.api.nvim_open_win(scratch, false, {
    relative = 'editor',
    anchor = above and 'NE' or 'SE',
    row = above and (vim.o.showtabline > 0 and 1 or 0)
      or vim.o.lines - vim.o.cmdheight - (vim.o.laststatus > 0 and 1 or 0),
    col = vim.o.columns,
    width = math.max(1, unpack(widths)),
    height = math.min(#lines, math.max(vim.o.lines - 4, 1)),
    style = 'minimal',
    border = 'none',
    focusable = false,
    noautocmd = true,
    zindex = 60,
  })
  vim.wo[window].winhighlight = 'Normal:' .. highlight
  vim.wo[window].wrap = true
end

--- Show a text behind the end of the cursor's line, or in the corner where it is too long for that.
---@param text string
---@param for_ms? integer how long; until something else is shown, or hide()
---@param always? boolean also where the user wants no notices
function M.show(text, for_ms, always)
  if not (config.options.notices or always) or vim.fn.getcmdwintype() ~= '' then
    return
  end
  begin(for_ms)
  text = 'fastcoder: ' .. text
  if vim.fn.strdisplaywidth(text) + 1 > room() then
    show_in_corner(text, 'FastcoderCount')
    return
  end
  buffer = vim.api.nvim_get_current_buf()
  local shown = { virt_text = { { ' ' .. text, 'FastcoderCount' } }, undo_restore = false }
  vim.api.nvim_buf_set_extmark(buffer, namespace, vim.api.nvim_win_get_cursor(0)[1] - 1, 0, shown)
end

--- Show an error in the corner.
---@param text string
---@param for_ms integer
function M.show_error(text, for_ms)
  if not config.options.notices or vim.fn.getcmdwintype() ~= '' then
    return
  end
  begin(for_ms)
  show_in_corner('fastcoder: ' .. text, 'ErrorMsg')
end

return M
