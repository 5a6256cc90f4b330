-- The user's last change at all its places in the repository: the quickfix list and a diff, and one key that makes them.
local server = require('fastcoder.server')

local M = {}

---@type { buffer: integer, tick: integer }[] the buffers of what was made last, as they were then
local made = {}

local function say(text, level)
  vim.notify('fastcoder: ' .. text, level or vim.log.levels.INFO)
end

-- The edits of each file, by its URI, in the order of the server.
local function files_of(edit)
  local files = {}
  for _, change in ipairs(edit.documentChanges or {}) do
    files[#files + 1] = { uri = change.textDocument.uri, edits = change.edits }
  end
  for uri, edits in vim.spairs(edit.changes or {}) do
    files[#files + 1] = { uri = uri, edits = edits }
  end
  return files
end

-- The lines of a file as they are now, in its buffer or on the disk.
local function lines_of(uri)
  local name = vim.uri_to_fname(uri)
  local buffer = vim.fn.bufnr('^' .. vim.fn.fnameescape(name) .. '$')
  if buffer >= 0 and vim.api.nvim_buf_is_loaded(buffer) then
    return vim.api.nvim_buf_get_lines(buffer, 0, -1, true)
  end
  return vim.tbl_map(function(line)
    return (line:gsub('\r$', ''))
  end, vim.fn.filereadable(name) == 1 and vim.fn.readfile(name) or {})
end

-- The lines with the edits made.
local function after(lines, edits, encoding)
  local scratch = vim.api.nvim_create_buf(false, true)
  vim.api.nvim_buf_set_lines(scratch, 0, -1, true, lines)
  vim.lsp.util.apply_text_edits(vim.deepcopy(edits), scratch, encoding)
  local changed = vim.api.nvim_buf_get_lines(scratch, 0, -1, true)
  vim.api.nvim_buf_delete(scratch, { force = true })
  return changed
end

local function joined(lines)
  return table.concat(lines, '\n') .. '\n'
end

-- A file's name as it is shown: below the folder that the server works in.
local function shown_name(uri, root)
  local name = vim.uri_to_fname(uri)
  local below = root and root .. '/' or ''
  return vim.startswith(name, below) and name:sub(#below + 1) or name
end

-- The diff of all files, and an entry of the quickfix list for each place.
local function preview(files, client)
  local encoding = client.offset_encoding
  local unified = vim.text and vim.text.diff or vim.diff
  local diff, places = {}, {}
  for _, file in ipairs(files) do
    local name = shown_name(file.uri, client.root_dir)
    local old = lines_of(file.uri)
    local new = after(old, file.edits, encoding)
    vim.list_extend(diff, { '--- ' .. name, '+++ ' .. name })
    vim.list_extend(diff, vim.split(unified(joined(old), joined(new), {}), '\n', { plain = true, trimempty = true }))
    for _, edit in ipairs(file.edits) do
      local row = edit.range.start.line
      local col = vim.str_byteindex(old[row + 1] or '', encoding, edit.range.start.character, false)
      places[#places + 1] = { filename = vim.uri_to_fname(file.uri), lnum = row + 1, col = col + 1, text = new[row + 1] }
    end
  end
  return diff, places
end

-- Make the edits: the server leaves out the files that have changed, and asks Neovim to change the others.
local function make(client, id, files)
  client:exec_cmd({ title = '', command = 'fastcoder.applyEdits', arguments = { id } }, {}, function(err, answer)
    if err or not (answer and answer.applied) then
      say(err and err.message or 'nothing was changed.', vim.log.levels.WARN)
      return
    end
    made = {}
    for _, file in ipairs(files) do
      local buffer = vim.uri_to_bufnr(file.uri)
      if vim.api.nvim_buf_is_loaded(buffer) and vim.bo[buffer].modified then
        made[#made + 1] = { buffer = buffer, tick = vim.api.nvim_buf_get_changedtick(buffer) }
      end
    end
    say(('changed %d files, not written yet: :wa writes them, :FastCoder undo takes it back.'):format(#made))
  end)
end

local function open(client, answer)
  local files = files_of(answer.edit)
  local diff, places = preview(files, client)
  vim.fn.setqflist({}, ' ', { title = answer.title, items = places })
  vim.cmd.new()
  local buffer, window = vim.api.nvim_get_current_buf(), vim.api.nvim_get_current_win()
  vim.api.nvim_buf_set_lines(buffer, 0, -1, true, diff)
  vim.bo[buffer].buftype, vim.bo[buffer].bufhidden, vim.bo[buffer].modifiable = 'nofile', 'wipe', false
  vim.bo[buffer].filetype = 'diff'
  vim.wo[window].winbar = '%#Title#' .. answer.title:gsub('%%', '%%%%') .. '%*  <CR> makes them all, q none; see also :copen'
  local function close()
    if vim.api.nvim_win_is_valid(window) then
      vim.api.nvim_win_close(window, true)
    end
  end
  vim.keymap.set('n', '<CR>', function()
    close()
    make(client, answer.id, files)
  end, { buffer = buffer, nowait = true })
  vim.keymap.set('n', 'q', function()
    close()
    client:notify('fastcoder/editRejected', { item = { command = { arguments = { answer.id } } } })
  end, { buffer = buffer, nowait = true })
end

--- Show the user's last change at all its places in the repository.
function M.show()
  local client = server.clients(0)[1]
  if not client then
    say(server.why_absent(0), vim.log.levels.WARN)
    return
  end
  local params = vim.lsp.util.make_position_params(0, client.offset_encoding)
  params.textDocument.version = vim.lsp.util.buf_versions[vim.api.nvim_get_current_buf()]
  client:request('fastcoder/editsElsewhere', params, function(err, answer)
    if err then
      say(err.message, vim.log.levels.ERROR)
    elseif answer.edit then
      open(client, answer)
    else
      say(answer.message)
    end
  end)
end

--- Take back what was made last, in all files that have not changed since.
function M.undo()
  local undone = 0
  for _, one in ipairs(made) do
    if vim.api.nvim_buf_is_loaded(one.buffer) and vim.api.nvim_buf_get_changedtick(one.buffer) == one.tick then
      vim.api.nvim_buf_call(one.buffer, function()
        vim.cmd('silent undo')
      end)
      undone = undone + 1
    end
  end
  say(('undone in %d of %d files.'):format(undone, #made))
  made = {}
end

return M
