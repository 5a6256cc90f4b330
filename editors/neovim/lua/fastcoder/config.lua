-- The plugin's own options: their defaults, and the check of what setup() is given. Knows nothing of the server.
local M = {}

---@class fastcoder.Keys keys in insert mode, the last two in normal mode; false leaves a key alone
---@field accept string|false all of the suggestion
---@field accept_word string|false its next word
---@field accept_line string|false its next line
---@field next string|false another suggestion
---@field previous string|false the one before
---@field dismiss string|false dismiss it
---@field ask string|false ask now, without typing
---@field edit string|false go to the next edit, then make it; in insert mode `accept` does
---@field reject string|false reject the next edit; in insert mode `dismiss` does

---@class fastcoder.Options
---@field auto boolean suggest while one types; false: only when asked
---@field ghost 'auto'|'own'|'native' who draws: Neovim's own inline completion (from 0.13 on), or we
---@field restarts integer how often within three minutes a server that died is started again
---@field notices boolean show that the model loads, or what is wrong
---@field edits boolean propose next edits, where the server does
---@field name string the client's name: other plugins look for theirs
---@field keys fastcoder.Keys

---@type fastcoder.Options
M.options = {
  auto = true,
  ghost = 'auto',
  restarts = 4,
  notices = true,
  edits = true,
  name = 'fastcoder',
  keys = {
    accept = '<Tab>',
    accept_word = '<M-f>',
    accept_line = '<M-e>',
    next = '<M-]>',
    previous = '<M-[>',
    dismiss = '<C-]>',
    ask = '<M-Space>',
    edit = '<Tab>',
    reject = '<Esc>',
  },
}

local function is_count(value)
  return type(value) == 'number' and value >= 0 and value % 1 == 0
end

local function is_key(value)
  return value == false or type(value) == 'string'
end

--- Whether Neovim draws: 0.12 may leave letters behind that are typed just before accepting (neovim#36529).
function M.is_native()
  local ghost = M.options.ghost
  return ghost == 'native' or (ghost == 'auto' and vim.fn.has('nvim-0.13') == 1)
end

--- Take options over; what is not said keeps its default. A wrong one raises, and changes nothing.
---@param given table
function M.set(given)
  local merged = vim.tbl_deep_extend('force', M.options, given)
  for name in pairs(given) do
    assert(M.options[name] ~= nil, ('fastcoder: there is no option %q'):format(name))
  end
  vim.validate('auto', merged.auto, 'boolean')
  vim.validate('notices', merged.notices, 'boolean')
  vim.validate('edits', merged.edits, 'boolean')
  vim.validate('name', merged.name, 'string')
  vim.validate('restarts', merged.restarts, is_count, 'a whole number')
  vim.validate('ghost', merged.ghost, function(value)
    return vim.list_contains({ 'auto', 'own', 'native' }, value)
  end, "'auto', 'own' or 'native'")
  vim.validate('keys', merged.keys, 'table')
  for name, key in pairs(merged.keys) do
    assert(M.options.keys[name] ~= nil, ('fastcoder: there is no key %q'):format(name))
    vim.validate('keys.' .. name, key, is_key, 'a key, or false')
  end
  -- In place: whoever holds the tables sees the change.
  for name, key in pairs(merged.keys) do
    M.options.keys[name] = key
  end
  merged.keys = M.options.keys
  for name, value in pairs(merged) do
    M.options[name] = value
  end
end

return M
