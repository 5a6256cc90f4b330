-- Keys in insert mode. A key is mapped only while it has something to do, and its mapping from before comes back then:
-- a mapping that stayed would have to imitate what the key does without it, which no mapping can for <M-f> (<Esc>f).
local config = require('fastcoder.config')

local M = {}

local ACTIONS = {
  accept = 'accept the suggestion',
  accept_word = 'accept its next word',
  accept_line = 'accept its next line',
  next = 'show the next suggestion',
  previous = 'show the previous suggestion',
  dismiss = 'dismiss the suggestion',
}
local ASK = { ask = 'ask for suggestions' }

---@class fastcoder.Mapped
---@field key string
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
local function own_mapping(buffer, key)
  local found = within(buffer, function()
    return vim.fn.maparg(key, 'i', false, true)
  end)
  return found.buffer == 1 and found or nil
end

local function is_in_place(buffer, one)
  local now = own_mapping(buffer, one.key)
  return now ~= nil and now.callback == one.callback
end

-- The key does what it did before. A mapping that somebody has put in the place of ours stays.
local function give_back(buffer, one)
  if not is_in_place(buffer, one) then
    return
  end
  vim.api.nvim_buf_del_keymap(buffer, 'i', one.key)
  if one.before then
    within(buffer, function()
      vim.fn.mapset('i', false, one.before)
    end)
  end
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

local function map(buffer, names)
  mapped[buffer] = mapped[buffer] or {}
  for name, description in pairs(names) do
    local key = config.options.keys[name]
    if key and not mapped[buffer][name] then
      local one = { key = key, before = own_mapping(buffer, key) }
      function one.callback()
        local in_place = is_in_place(buffer, one)
        if require('fastcoder')[name]() == false then
          -- The key acts as if it was typed now. A plugin that has wrapped our mapping in its own is not run twice.
          unmap(buffer, { [name] = true })
          vim.api.nvim_feedkeys(vim.keycode(key), in_place and 'it' or 'int', false)
        end
      end
      mapped[buffer][name] = one
      vim.keymap.set('i', key, one.callback, { buffer = buffer, desc = 'fastcoder: ' .. description })
    end
  end
end

--- A suggestion is shown: the keys act on it.
---@param buffer integer
function M.shown(buffer)
  map(buffer, ACTIONS)
end

--- None is shown: they do what they did before.
---@param buffer integer
function M.hidden(buffer)
  unmap(buffer, ACTIONS)
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
