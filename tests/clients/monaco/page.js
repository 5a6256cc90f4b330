// An editor and its client in a page. The address has the document's text, the server's settings, and `ghost` for a
// client of ghost text, which vscode-languageclient 9 has among its proposed features.
import * as monaco from '@codingame/monaco-vscode-editor-api'
import { MonacoLanguageClient } from 'monaco-languageclient'
import { initServices } from 'monaco-languageclient/vscode/services'
import { ProposedFeatures } from 'vscode-languageclient/lib/common/client.js'
import { toSocket, WebSocketMessageReader, WebSocketMessageWriter } from 'vscode-ws-jsonrpc'

const asked = new URLSearchParams(location.search)

async function connect() {
  const socket = new WebSocket(`ws://${location.host}`)
  await new Promise((opened) => (socket.onopen = opened))
  const wire = toSocket(socket)
  return { reader: new WebSocketMessageReader(wire), writer: new WebSocketMessageWriter(wire) }
}

const monacoWorkerFactory = () => {
  self.MonacoEnvironment.getWorker = () => new Worker('worker.js', { type: 'module' })
}
await initServices({}, { monacoWorkerFactory })
monaco.languages.register({ id: 'python', extensions: ['.py'] })
const model = monaco.editor.createModel(asked.get('text'), 'python', monaco.Uri.file('/workspace/a.py'))
const editor = monaco.editor.create(document.getElementById('editor'), { model, wordBasedSuggestions: 'off' })
const client = new MonacoLanguageClient({
  name: 'Monaco',
  clientOptions: { documentSelector: ['python'], initializationOptions: JSON.parse(asked.get('settings')) },
  messageTransports: await connect(),
})
if (asked.has('ghost')) client.registerFeatures(ProposedFeatures.createAll(client))
await client.start()
editor.setPosition(model.getFullModelRange().getEndPosition())
editor.focus()
globalThis.page = { text: () => model.getValue(), run: (command) => editor.trigger('test', command) }
