-- Completion menus: whether an entry of one is selected, so that the keys are the menu's.
local M = {}

-- Neovim's own menu, which mini.completion and coq use as well.
local function built_in()
  return vim.fn.pumvisible() == 1 and vim.fn.complete_info({ 'selected' }).selected ~= -1
end

-- cmp.get_selected_entry() first waits for a filter that runs; the view answers at once.
local function nvim_cmp()
  local cmp = package.loaded.cmp
  local view = type(cmp) == 'table' and vim.tbl_get(cmp, 'core', 'view')
  if view then
    return view:visible() and view:get_selected_entry() ~= nil
  end
  return type(cmp) == 'table' and cmp.visible() and cmp.get_selected_entry() ~= nil
end

-- By default blink.cmp selects the first entry of every menu by itself: that alone says nothing of the user.
local function blink()
  local cmp = package.loaded['blink.cmp']
  local list = package.loaded['blink.cmp.completion.list']
  if type(cmp) ~= 'table' or not (cmp.is_menu_visible or cmp.is_visible)() then
    return false
  end
  if type(list) == 'table' and list.is_explicitly_selected ~= nil then
    return list.is_explicitly_selected
  end
  return cmp.get_selected_item() ~= nil
end

--- Whether an entry of a menu is selected.
---@return boolean
function M.has_selection()
  if built_in() then
    return true
  end
  -- Not our code, and not everything of it is promised: a menu that cannot be asked has no say.
  for _, asks in ipairs({ nvim_cmp, blink }) do
    local ok, selected = pcall(asks)
    if ok and selected then
      return true
    end
  end
  return false
end

return M
