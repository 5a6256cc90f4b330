-- The highlight groups' colours, where the user and the colour scheme give none.
local M = {}

-- What a group looked like when we set it last: a group that looks otherwise is the user's.
---@type table<string, table>
local ours = {}

-- A grey that differs from text on a dark and on a light background; with 8 colours there is none.
local function grey()
  local colours = tonumber(vim.api.nvim_eval('&t_Co')) or 0
  if colours >= 256 then
    return 245
  end
  return colours >= 16 and 8 or (vim.o.background == 'dark' and 6 or 4)
end

-- As another group looks. Neovim's default scheme gives Comment and NonText no colour for terminals without true colour:
-- there a suggestion would look like code.
local function like(group)
  local look = vim.api.nvim_get_hl(0, { name = group, link = false })
  if not look.ctermfg then
    look.ctermfg = grey()
    look.cterm = vim.tbl_extend('keep', look.cterm or {}, { italic = look.italic })
  end
  return look
end

-- As a group of diffs looks, with a line that tells new text from old where a scheme or a terminal has no colour for it.
local function like_diff(group, colour, line)
  local look = vim.api.nvim_get_hl(0, { name = group, link = false })
  if not look.ctermfg and not look.ctermbg and (tonumber(vim.api.nvim_eval('&t_Co')) or 0) >= 8 then
    look.ctermfg = colour
  end
  local strikes = line == 'strikethrough'
  look.cterm = vim.tbl_extend('keep', look.cterm or {}, { [line] = strikes or not look.ctermbg or nil })
  look[line] = strikes or not look.bg or nil
  return look
end

local function set(name, look)
  local now = vim.api.nvim_get_hl(0, { name = name })
  if next(now) and not vim.deep_equal(now, ours[name]) then
    return
  end
  vim.api.nvim_set_hl(0, name, look)
  ours[name] = vim.api.nvim_get_hl(0, { name = name })
end

local function set_all()
  set('FastcoderGhost', like('Comment'))
  set('FastcoderCount', like('NonText'))
  set('FastcoderReplaced', { link = '@markup.strikethrough' })
  set('FastcoderInserted', like_diff('DiffAdd', 2, 'underline'))
  set('FastcoderDeleted', like_diff('DiffDelete', 1, 'strikethrough'))
end

--- Set the groups that have no colours, now and after every change of the colour scheme or the background.
function M.set()
  set_all()
  local group = vim.api.nvim_create_augroup('fastcoder-colours', {})
  vim.api.nvim_create_autocmd('ColorScheme', { group = group, callback = set_all })
  vim.api.nvim_create_autocmd('OptionSet', {
    group = group,
    pattern = { 'background', 'termguicolors' },
    callback = set_all,
  })
end

return M
