-- Our own ghost text, for Neovim 0.11 and 0.12, and later ones where options.ghost is 'own': the suggestions of the buffer that
-- one is in, for the keys. Never starts or stops the server.
local Completor = require('fastcoder.completor')
local text_of = require('fastcoder.text')

local M = {}

-- Buffer → its suggestions, from attach to detach.
---@type table<integer, fastcoder.Completor>
local completors = {}

---@return fastcoder.Completor?
local function current()
  return completors[vim.api.nvim_get_current_buf()]
end

-- For the keys ------------------------------------------------------------------------------------------------------

--- Whether ghost text is shown.
function M.is_visible()
  local completor = current()
  return completor ~= nil and completor:current() ~= nil
end

--- Put the whole suggestion in.
function M.accept()
  local completor = current()
  return completor ~= nil and completor:accept()
end

--- Put its next word in.
function M.accept_word()
  local completor = current()
  return completor ~= nil and completor:accept_part(text_of.word)
end

--- Put its next line in.
function M.accept_line()
  local completor = current()
  return completor ~= nil and completor:accept_part(text_of.line)
end

--- Show another suggestion. While one types there is one alone: the others are asked for at the first turn.
---@param by integer 1: the next, -1: the one before
function M.turn(by)
  local completor = current()
  return completor ~= nil and completor:turn(by)
end

--- Take it away, and want no answer that is still to come.
function M.dismiss()
  local completor = current()
  return completor ~= nil and completor:dismiss()
end

--- Ask now, with alternatives; false where no suggestions are wanted.
---@param buffer integer
function M.ask(_, buffer)
  local completor = completors[buffer]
  return completor ~= nil and completor:ask_now()
end

--- The server has made what belongs at the cursor, too late for the question: ask again, for it is there at once.
---@param buffer integer the current one
---@param position lsp.Position where it belongs
function M.late(_, buffer, position)
  local completor = completors[buffer]
  if completor then
    completor:late(position)
  end
end

-- Not everything that ends a suggestion has an event, a plugin's menu has none: every drawing of the screen asks.
vim.api.nvim_set_decoration_provider(vim.api.nvim_create_namespace('fastcoder-look'), {
  on_start = function()
    local completor = current()
    if completor and completor.shown and not completor:may_suggest() then
      vim.schedule(function()
        completor:current()
      end)
    end
    return false
  end,
})

-- C-k, C-q, C-r and C-v wait for another key, and draw a sign of their own at the cursor meanwhile: no event comes, and
-- nothing scheduled runs. The ghost text goes at once; the character that is typed then brings a new one.
local WAITING = '^[\11\17\18\22]$'

vim.on_key(function(key)
  local completor = key:find(WAITING) and current()
  if completor and completor.shown then
    completor:erase()
  end
end, vim.api.nvim_create_namespace('fastcoder-keys'))

-- Buffers -----------------------------------------------------------------------------------------------------------

--- Show ghost text in a buffer from now on.
---@param client vim.lsp.Client
---@param buffer integer
function M.attach(client, buffer)
  M.detach(buffer)
  completors[buffer] = Completor.open_in(client, buffer)
end

--- No longer.
---@param buffer integer
function M.detach(buffer)
  local completor = completors[buffer]
  if completor then
    completors[buffer] = nil
    completor:close()
  end
end

return M
