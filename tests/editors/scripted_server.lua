-- A language server inside Neovim that says what a test tells it to: no process, no model.
-- dofile(…)(encoding) is a `cmd` for vim.lsp.config; what it saw and what it answers are in _G.scripted.
return function(encoding)
  local script = { requests = {}, cancelled = {}, notified = {}, items = {}, edits = {}, hold = false, held = {} }
  _G.scripted = script

  return function(dispatchers)
    local closing, ids = false, 0
    script.tell = function(method, params)
      dispatchers.notification(method, params)
    end

    local function answer(method, params)
      if method == 'initialize' then
        script.capabilities = params.capabilities
        local capabilities = {
          positionEncoding = encoding,
          textDocumentSync = 1,
          inlineCompletionProvider = {},
          executeCommandProvider = { commands = { 'fastcoder.accepted', 'github.copilot.didAcceptCompletionItem' } },
          experimental = {
            fastcoderDefinitions = _G.wants_definitions,
            fastcoderEdits = _G.proposes_edits,
          },
        }
        return { capabilities = capabilities }
      elseif method == 'textDocument/inlineCompletion' then
        return { items = type(script.items) == 'function' and script.items(params) or script.items }
      elseif method == 'textDocument/copilotInlineEdit' then
        local edits = type(script.edits) == 'function' and script.edits(params) or script.edits
        return { edits = edits, imports = script.imports }
      end
      return method == 'fastcoder/why' and script.why or vim.NIL
    end

    return {
      request = function(method, params, callback, sent)
        ids = ids + 1
        local id = ids
        local inline = method == 'textDocument/inlineCompletion' or method == 'textDocument/copilotInlineEdit'
        if inline or method == 'workspace/executeCommand' or method == 'fastcoder/why' then
          table.insert(script.requests, { id = id, method = method, params = params })
        end
        local function reply()
          if sent then
            sent(id)
          end
          callback(nil, answer(method, params))
        end
        if inline and script.hold then
          table.insert(script.held, reply)
        else
          vim.schedule(reply)
        end
        return true, id
      end,
      notify = function(method, params)
        if method == '$/cancelRequest' then
          table.insert(script.cancelled, params.id)
        end
        table.insert(script.notified, { method = method, params = params })
        if method == 'exit' then
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
