-- Keys in insert mode, and in normal mode while a next edit is shown. A key is mapped only while it has something to do, and its mapping from before comes back then:
-- a mapping that stayed would have to imitate what the key does without it, which no mapping can for <M-f> (<Esc>f).
local config = require('fastcoder.config')

local M = {}

---@class fastcoder.Action
---@field does string
---@field runs? string the function, where it is not called as the option
---@field option? string where it is not called as the action
---@field mode? 'n'
---@field passes? boolean the key does what it did before, too

---@type table<string, fastcoder.Action>
local GHOST = {
  accept = { does = 'accept the suggestion' },
  accept_word = { does = 'accept its next word' },
  accept_line = { does = 'accept its next line' },
  next = { does = 'show the next suggestion' },
  previous = { does = 'show the previous suggestion' },
  dismiss = { does = 'dismiss the suggestion' },
}
---@type table<string, fastcoder.Action>
local ASK = { ask = { does = 'ask for suggestions' } }
---@type table<string, fastcoder.Action>
local EDIT = {
  accept_edit = { does = 'go to the next edit, then make it', option = 'accept' },
  reject_edit = { does = 'reject the next edit', option = 'dismiss' },
  edit = { does = 'go to the next edit, then make it', runs = 'accept_edit', mode = 'n' },
  reject = { does = 'reject the next edit', runs = 'reject_edit', mode = 'n', passes = true },
}

--- The mode of a key of the options.
---@param option string
---@return 'i'|'n'
function M.mode(option)
  return EDIT[option] and EDIT[option].mode or 'i'
end

---@class fastcoder.Mapped
---@field key string
---@field mode 'i'|'n'
---@field callback fun() what it is mapped to
---@field before? table the buffer's own mapping from before, as maparg() has it

---@type table<integer, table<string, fastcoder.Mapped>> by buffer and action
local mapped = {}

local function within(buffer, action)
  if buffer == vim.api.nvim_get_current_buf() then
    return action()
  end
  return vim.api.nvim_buf_call(buffer, action)
end

-- The buffer's own mapping of a key; nil where it has none.
local function own_mapping(buffer, key, mode)
  local found = within(buffer, function()
    return vim.fn.maparg(key, mode, false, true)
  end)
  return found.buffer == 1 and found or nil
end

local function is_in_place(buffer, one)
  local now = own_mapping(buffer, one.key, one.mode)
  return now ~= nil and now.callback == one.callback
end

-- The key does what it did before. A mapping that somebody has put in the place of ours stays.
local function give_back(buffer, one)
  if not is_in_place(buffer, one) then
    return
  end
  vim.api.nvim_buf_del_keymap(buffer, one.mode, one.key)
  if one.before then
    within(buffer, function()
      vim.fn.mapset(one.mode, false, one.before)
    end)
  end
end

-- Whether a count or a register has been typed.
local function is_pending()
  return vim.v.count > 0 or vim.fn.state('o') ~= ''
end

local function unmap(buffer, names)
  local of_buffer = mapped[buffer] or {}
  for name in pairs(names) do
    local one = of_buffer[name]
    of_buffer[name] = nil
    if one and vim.api.nvim_buf_is_loaded(buffer) then
      give_back(buffer, one)
    end
  end
end

local function map(buffer, actions)
  mapped[buffer] = mapped[buffer] or {}
  for name, action in pairs(actions) do
    local key, mode = config.options.keys[action.option or name], action.mode or 'i'
    if key and not mapped[buffer][name] then
      local one = { key = key, mode = mode, before = own_mapping(buffer, key, mode) }
      function one.callback()
        if action.passes and is_pending() then -- it only cancels these
          vim.api.nvim_feedkeys(vim.keycode(key), 'in', false)
          return
        end
        local in_place = is_in_place(buffer, one)
        if require('fastcoder')[action.runs or name]() == false or action.passes then
          -- The key acts as if it was typed now. A plugin that has wrapped our mapping in its own is not run twice.
          unmap(buffer, { [name] = true })
          vim.api.nvim_feedkeys(vim.keycode(key), in_place and 'it' or 'int', false)
        end
      end
      mapped[buffer][name] = one
      vim.keymap.set(mode, key, one.callback, { buffer = buffer, desc = 'fastcoder: ' .. action.does })
    end
  end
end

--- A suggestion is shown: the keys act on it.
---@param buffer integer
function M.shown(buffer)
  map(buffer, GHOST)
end

--- None is shown: they do what they did before.
---@param buffer integer
function M.hidden(buffer)
  unmap(buffer, GHOST)
end

--- A next edit is shown: the keys act on it.
---@param buffer integer
function M.edit(buffer)
  map(buffer, EDIT)
end

--- None is shown.
---@param buffer integer
function M.no_edit(buffer)
  unmap(buffer, EDIT)
end

--- Insert mode begins where suggestions are wanted: the key that asks for them works.
---@param buffer integer
function M.entered(buffer)
  map(buffer, ASK)
end

--- It ends.
---@param buffer integer
function M.left(buffer)
  unmap(buffer, ASK)
end

return M
