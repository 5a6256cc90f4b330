-- Objects that follow a buffer while our server is attached to it: one for each kind and buffer, each with autocommands
-- and a timer that end with it. `cursor`, `definitions` and `yanks` are such kinds.
local M = {}

---@class fastcoder.Follower
---@field client vim.lsp.Client ours
---@field buffer integer
---@field group integer its autocommands
---@field timer uv.uv_timer_t
local Follower = {}

-- Call a method at these events of the buffer.
function Follower:on(events, method)
  vim.api.nvim_create_autocmd(events, {
    group = self.group,
    buffer = self.buffer,
    callback = function()
      self[method](self)
    end,
  })
end

-- Call a method in some milliseconds, in place of what the timer waits for.
function Follower:soon(milliseconds, method)
  self.timer:start(
    milliseconds,
    0,
    vim.schedule_wrap(function()
      if not self.timer:is_closing() then
        self[method](self)
      end
    end)
  )
end

function Follower:stop()
  self.timer:stop()
end

--- A kind of follower: a module with `attach` and `detach`, and the class of its objects. Its method `begin` starts one.
---@param name string
function M.kind(name)
  local Kind = setmetatable({}, { __index = Follower })
  Kind.__index = Kind
  local following = {} -- by buffer

  --- Follow a buffer from now on.
  ---@param client vim.lsp.Client
  ---@param buffer integer
  function Kind.attach(client, buffer)
    Kind.detach(buffer)
    local one = setmetatable({
      client = client,
      buffer = buffer,
      group = vim.api.nvim_create_augroup(('fastcoder-%s-%d'):format(name, buffer), {}),
      timer = assert(vim.uv.new_timer()),
    }, Kind)
    following[buffer] = one
    one:begin()
  end

  --- No longer.
  ---@param buffer integer
  function Kind.detach(buffer)
    local one = following[buffer]
    if one then
      following[buffer] = nil
      pcall(vim.api.nvim_del_augroup_by_id, one.group)
      one:stop()
      one.timer:close()
    end
  end

  return Kind
end

return M
