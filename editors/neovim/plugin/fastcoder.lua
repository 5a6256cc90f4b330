-- What is there before the first use; the rest is loaded when the server starts, or at the first :FastCoder.
if vim.g.loaded_fastcoder then
  return
end
vim.g.loaded_fastcoder = true

vim.api.nvim_create_user_command('FastCoder', function(arguments)
  require('fastcoder.commands').run(arguments.fargs)
end, {
  nargs = '*',
  desc = 'fastcoder: ghost text from a code model on this machine',
  complete = function(lead, line)
    return require('fastcoder.commands').complete(lead, line)
  end,
})

vim.keymap.set({ 'n', 'i' }, '<Plug>(fastcoder-edit)', function()
  require('fastcoder').accept_edit()
end, { desc = 'fastcoder: go to the next edit, then make it' })
