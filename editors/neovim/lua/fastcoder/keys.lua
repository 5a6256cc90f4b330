-- Keys that mean something while ghost text is shown, and what they did before at all other times.
local M = {}

-- Buffer → key → the buffer's own mapping before ours (maparg's dictionary; empty where there was none).
---@type table<integer, table<string, table>>
local before = {}

-- What the key would do without us: the buffer's own mapping from before, else the global one of this moment.
local function mapping_below(buffer, key)
  local own = (before[buffer] or {})[key]
  if own and own.lhs then
    return own
  end
  local wanted = vim.fn.keytrans(vim.keycode(key))
  for _, mapping in ipairs(vim.api.nvim_get_keymap('i')) do
    if vim.fn.keytrans(vim.keycode(mapping.lhs)) == wanted then
      return mapping
    end
  end
  return nil
end

-- The keys that a mapping stands for, as Neovim itself would find them.
local function keys_of(mapping)
  local keys
  if mapping.expr == 1 then
    keys = mapping.callback and mapping.callback()
      or vim.api.nvim_eval((mapping.rhs:gsub('<SID>', ('<SNR>%d_'):format(mapping.sid))))
    keys = keys ~= nil and keys ~= vim.NIL and tostring(keys) or ''
    return mapping.replace_keycodes == 1 and vim.keycode(keys) or keys
  end
  return vim.keycode((mapping.rhs:gsub('<SID>', ('<SNR>%d_'):format(mapping.sid))))
end

-- Run while a mapping is evaluated, when the text is not to be changed.
local function fall_back(buffer, key)
  local mapping = mapping_below(buffer, key)
  if not mapping then
    return vim.keycode(key)
  end
  if mapping.callback and mapping.expr ~= 1 then
    vim.schedule(mapping.callback)
    return ''
  end
  local keys = keys_of(mapping)
  if mapping.noremap == 1 then
    vim.api.nvim_feedkeys(keys, 'in', false)
    return ''
  end
  return keys
end

--- Let a key act in a buffer. An action that finds nothing to do leaves the key what it was.
---@param buffer integer
---@param key string
---@param is_wanted fun(): boolean
---@param action fun()
---@param description string
function M.map(buffer, key, is_wanted, action, description)
  before[buffer] = before[buffer] or {}
  local own = vim.fn.maparg(key, 'i', false, true)
  before[buffer][key] = own.buffer == 1 and own or {}
  vim.keymap.set('i', key, function()
    if is_wanted() then
      vim.schedule(action)
      return ''
    end
    return fall_back(buffer, key)
  end, { buffer = buffer, expr = true, remap = true, replace_keycodes = false, desc = description })
end

--- Give all keys of a buffer back.
---@param buffer integer
function M.unmap(buffer)
  local keys = before[buffer] or {}
  before[buffer] = nil
  if not vim.api.nvim_buf_is_loaded(buffer) then
    return
  end
  for key, own in pairs(keys) do
    pcall(vim.keymap.del, 'i', key, { buffer = buffer })
    if own.lhs then
      vim.api.nvim_buf_call(buffer, function()
        vim.fn.mapset('i', false, own)
      end)
    end
  end
end

return M
