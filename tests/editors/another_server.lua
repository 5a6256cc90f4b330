-- Another language server inside Neovim: it knows where every name is defined (`definitions`), and offers code actions.
-- dofile(…)(encoding) is a `cmd` for vim.lsp.config; what it saw and what it answers are in _G.another.
local ANSWERS = { ['textDocument/definition'] = 'definitions', ['textDocument/codeAction'] = 'actions' }

return function(encoding)
  local script = { asked = {}, cancelled = {}, hold = false, held = {}, definitions = vim.NIL, actions = {} }
  _G.another = script

  return function(dispatchers)
    local closing, ids = false, 0
    script.report = function(uri, diagnostics)
      dispatchers.notification('textDocument/publishDiagnostics', { uri = uri, diagnostics = diagnostics })
    end
    return {
      request = function(method, params, callback, sent)
        ids = ids + 1
        local id, name = ids, ANSWERS[method]
        local function reply()
          if sent then
            sent(id)
          end
          if method == 'initialize' then
            local capabilities = { positionEncoding = encoding, definitionProvider = true, codeActionProvider = true }
            callback(nil, { capabilities = capabilities })
          else
            local answer = name and script[name]
            callback(nil, type(answer) == 'function' and answer(params) or answer or vim.NIL)
          end
        end
        if name then
          table.insert(script.asked, params)
        end
        if name and script.hold then
          table.insert(script.held, reply)
        else
          vim.schedule(reply)
        end
        return true, id
      end,
      notify = function(method, params)
        if method == '$/cancelRequest' then
          table.insert(script.cancelled, params.id)
        elseif method == 'exit' then
          closing = true
          vim.schedule(function()
            dispatchers.on_exit(0, 0)
          end)
        end
        return true
      end,
      is_closing = function()
        return closing
      end,
      terminate = function()
        closing = true
      end,
    }
  end
end
