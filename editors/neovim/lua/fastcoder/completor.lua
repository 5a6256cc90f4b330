-- The suggestions of one buffer: asks for them while one types there, shows them, puts them in.
-- One object holds all that is known of the buffer, as in Neovim's own vim.lsp.inline_completion.
local config = require('fastcoder.config')
local edits = require('fastcoder.edits')
local keys = require('fastcoder.keys')
local menus = require('fastcoder.menus')
local notice = require('fastcoder.notice')
local screen = require('fastcoder.screen')
local Shown = require('fastcoder.shown')

local METHOD = 'textDocument/inlineCompletion'
local INVOKED, AUTOMATIC = 1, 2
-- The server keeps to a budget, says nothing rather than late, goes on in the background, and tells when it is done
-- (Completor:late). One that does not tell, or stood still meanwhile, is asked again after so many milliseconds each.
local AGAIN_MS = { 1000 }
local NO_ANSWER_MS = 4000
-- The events of one key, as of entering insert mode and typing at once, are one question. Longer rests are the server's
-- (quiet.delay_ms).
local SETTLE_MS = 15

---@class fastcoder.Completor
---@field client vim.lsp.Client
---@field buffer integer
---@field group integer its autocommands
---@field timer uv.uv_timer_t will ask
---@field closed boolean
---@field shown? fastcoder.Shown
---@field open? { client: vim.lsp.Client, tick: integer, id?: integer } the request that is open: an answer to any other comes too late
---@field waits_at? [integer, integer] where it will be asked again, if the cursor stays there
---@field unwanted boolean whether the user has taken away what was shown, and nothing was asked since
local Completor = {}
Completor.__index = Completor

local function cursor()
  local row, col = unpack(vim.api.nvim_win_get_cursor(0))
  return row - 1, col
end

function Completor:erase()
  if self.shown then
    self.shown:erase()
    keys.hidden(self.buffer)
  end
  self.shown = nil
end

function Completor:cancel()
  self.timer:stop()
  self.waits_at = nil
  screen.erase_asking(self.buffer)
  if self.open then
    if self.open.id then
      self.open.client:cancel_request(self.open.id)
    end
    self.open = nil
  end
end

-- Answers -----------------------------------------------------------------------------------------------------------

function Completor:show(items, invoked)
  local shown = Shown.at_cursor(self.buffer, items, self.client.offset_encoding, invoked)
  if shown then
    self.shown = shown
    edits.clear()
    shown:draw()
    keys.shown(self.buffer)
  else
    self:erase()
  end
end

-- A macro would record the key that accepts, and replay it where nothing is shown.
local function in_macro()
  return vim.fn.reg_recording() ~= '' or vim.fn.reg_executing() ~= ''
end

--- Whether suggestions are wanted where the cursor is.
function Completor:may_suggest()
  return vim.api.nvim_get_current_buf() == self.buffer
    and vim.api.nvim_get_mode().mode:sub(1, 1) == 'i'
    and vim.b[self.buffer].fastcoder ~= false
    and not in_macro()
    and not menus.has_selection()
end

-- There is nothing at the place that a key asked about: say the server's latest reason, where it is of this line.
function Completor:say_why_not(row, col)
  local params = { textDocument = vim.lsp.util.make_text_document_params(self.buffer) }
  self.client:request('fastcoder/why', params, function(err, answer)
    local here, at = cursor()
    if not self:may_suggest() or self.open or self.shown or here ~= row or at ~= col then
      return
    end
    local reason = not err and type(answer) == 'table' and answer.items[1]
    local text = reason and reason.line == row and reason.text or 'No suggestion here.'
    notice.show(text .. ' See :FastCoder why.', NO_ANSWER_MS)
  end, self.buffer)
end

function Completor:ask_after(wait_ms, tries)
  self.timer:start(
    wait_ms,
    0,
    vim.schedule_wrap(function()
      if not self.closed then
        self:ask(AUTOMATIC, nil, tries)
      end
    end)
  )
end

---@param after? fun() what to do with the answer, once it is shown
---@param tries? integer how often nothing was the answer, at this very place
function Completor:ask(kind, after, tries)
  self:cancel()
  local client, buffer = self.client, self.buffer
  if client:is_stopped() or not self:may_suggest() then
    return
  end
  self.unwanted = false
  local tick, row, col = vim.api.nvim_buf_get_changedtick(buffer), cursor()
  local params = vim.lsp.util.make_position_params(0, client.offset_encoding)
  params.context = { triggerKind = kind }
  local asked = { client = client, tick = tick }
  self.open = asked
  if kind == INVOKED then
    screen.draw_asking(buffer, row)
  end
  local sent, id = client:request(METHOD, params, function(err, result)
    if self.open ~= asked then
      return
    end
    self.open = nil
    screen.erase_asking(buffer)
    local here, at = cursor()
    local same = self:may_suggest() and vim.api.nvim_buf_get_changedtick(buffer) == tick and here == row and at == col
    if not err and result and same then
      self:show(result.items or result, kind == INVOKED)
      local wait_ms = AGAIN_MS[(tries or 0) + 1]
      if not self.shown and kind == AUTOMATIC and wait_ms then
        self:ask_after(wait_ms, (tries or 0) + 1)
        self.waits_at = { row, col }
      elseif after and self.shown then
        after()
      elseif not self.shown and kind == INVOKED then
        self:say_why_not(row, col)
      end
    end
  end, buffer)
  asked.id = id
  if not sent then
    self.open = nil
  end
end

function Completor:ask_soon()
  self:cancel()
  if config.options.auto then
    self:ask_after(SETTLE_MS, 0)
  end
end

-- Typing ------------------------------------------------------------------------------------------------------------

--- What is shown, as the text is now: typing the suggested letters keeps the rest in place until the server's own answer
--- comes. The screen is drawn after this, so nothing flickers. Keys may come before the events of those before them.
---@return fastcoder.Shown?
function Completor:current()
  if self.shown and not (self:may_suggest() and self.shown:keep_what_was_typed()) then
    self:erase()
  end
  return self.shown
end

--- Put the whole suggestion in.
function Completor:accept()
  local taken = self:current()
  if not taken then
    return false
  end
  local command = taken:candidate().command
  self:erase()
  self:cancel()
  taken:insert()
  if command then
    self.client:exec_cmd(command, { bufnr = self.buffer }, function() end)
  end
  return true
end

--- Put the part in that `part_of` takes of the suggestion.
---@param part_of fun(text: string): string
function Completor:accept_part(part_of)
  local shown = self:current()
  if not shown then
    return false
  end
  local text = shown:candidate().text
  local part = part_of(text)
  if part == text then
    return self:accept()
  end
  shown:insert_part(part)
  return true
end

--- Show another suggestion. While one types there is one alone: the others are asked for at the first turn.
---@param by integer 1: the next, -1: the one before
function Completor:turn(by)
  local shown = self:current()
  if not shown then
    return false
  end
  if shown.invoked or #shown.candidates > 1 then
    shown:turn(by)
  else
    self:ask(INVOKED, function()
      self.shown:turn(by)
    end)
  end
  return true
end

--- Take it away, and want no answer that is still to come.
---@return boolean whether something was shown
function Completor:dismiss()
  local was_shown = self:current() ~= nil
  self:cancel()
  self:erase()
  self.unwanted = true
  return was_shown
end

--- The server has more, or something better, for the cursor's place than it answered: ask again, for it is there at once.
---@param position lsp.Position where it belongs
function Completor:late(position)
  if self.open or self.unwanted or (self.shown and self.shown.turned) or not self:may_suggest() then
    return -- an answer is on its way, one has said no, or has chosen among alternatives
  end
  local here = vim.lsp.util.make_position_params(0, self.client.offset_encoding).position
  if here.line == position.line and here.character == position.character then
    self:ask(AUTOMATIC, nil, #AGAIN_MS)
  end
end

--- Ask now, with alternatives.
---@return boolean whether suggestions are wanted here
function Completor:ask_now()
  self:ask(INVOKED)
  return self:may_suggest()
end

-- The buffer --------------------------------------------------------------------------------------------------------

-- Insert mode begins in the buffer, or its window is entered in insert mode.
function Completor:enter()
  if vim.b[self.buffer].fastcoder ~= false and not in_macro() then
    keys.entered(self.buffer)
    self:ask_soon()
  end
end

function Completor:leave()
  self:dismiss()
  keys.left(self.buffer)
end

local function is_insert(mode)
  return mode:sub(1, 1) == 'i'
end

function Completor:follow_typing()
  local function on(events, action)
    vim.api.nvim_create_autocmd(events, { group = self.group, buffer = self.buffer, callback = action })
  end
  on('InsertEnter', function()
    self:enter()
  end)
  -- InsertLeave does not come with Ctrl-C, and InsertEnter not after <C-r>=.
  vim.api.nvim_create_autocmd('ModeChanged', {
    group = self.group,
    callback = function()
      local event = vim.v.event
      if vim.api.nvim_get_current_buf() == self.buffer and is_insert(event.old_mode) ~= is_insert(event.new_mode) then
        if is_insert(event.new_mode) then
          self:enter()
        else
          self:leave()
        end
      end
    end,
  })
  on({ 'BufEnter', 'WinEnter' }, function()
    if is_insert(vim.api.nvim_get_mode().mode) then
      self:enter()
    end
  end)
  on({ 'TextChangedI', 'TextChangedP' }, function()
    self:current()
    -- One who chose among alternatives keeps the choice as long as the typing follows it. While keys wait this event
    -- comes late: the text may have been asked about by a key already.
    local asked = self.open and self.open.tick == vim.api.nvim_buf_get_changedtick(self.buffer)
    if not asked and not (self.shown and self.shown.invoked) then
      self:ask_soon()
    end
  end)
  on({ 'CursorMovedI', 'CompleteChanged' }, function()
    self:current()
    if self.waits_at and not vim.deep_equal(self.waits_at, { cursor() }) then
      self:cancel()
    end
  end)
  on({ 'InsertLeave', 'CursorMoved', 'WinLeave', 'BufLeave', 'BufUnload' }, function()
    self:leave()
  end)
  vim.api.nvim_create_autocmd({ 'VimResized', 'WinResized', 'WinScrolled' }, {
    group = self.group,
    callback = function()
      if self:current() then
        self.shown:draw()
      end
    end,
  })
  if is_insert(vim.api.nvim_get_mode().mode) and vim.api.nvim_get_current_buf() == self.buffer then
    self:enter() -- one did not wait for the server to start
  end
end

--- Show suggestions in a buffer from now on.
---@param client vim.lsp.Client
---@param buffer integer
---@return fastcoder.Completor
function Completor.open_in(client, buffer)
  local completor = setmetatable({
    client = client,
    buffer = buffer,
    group = vim.api.nvim_create_augroup('fastcoder-' .. buffer, {}),
    timer = assert(vim.uv.new_timer()),
    closed = false,
    unwanted = false,
  }, Completor)
  completor:follow_typing()
  return completor
end

--- No longer.
function Completor:close()
  self.closed = true
  self:leave()
  self.timer:close()
  pcall(vim.api.nvim_del_augroup_by_id, self.group)
end

return Completor
