// Types into Monaco in a browser, with a page and a server for each scenario; prints what was seen as JSON.
//
//     node drive.mjs FOLDER CHROMIUM SCENARIOS
//
// FOLDER has the packages and, in `out`, the bundle. SCENARIOS is a list, in JSON:
// {ghost, settings, text, keys, run}. A command to `run` follows when the keys have their answers.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const [folder, executablePath, scenarios] = process.argv.slice(2)
const require = createRequire(join(folder, 'package.json'))
const { chromium } = require('playwright-core')
const { WebSocketServer } = require('ws')
const { StreamMessageReader, StreamMessageWriter } = require('vscode-jsonrpc/node')

const PAGE = `<!doctype html><link rel="stylesheet" href="page.css"><link rel="icon" href="data:,">
  <div id="editor" style="width: 900px; height: 500px"></div><script type="module" src="page.js"></script>`
const TYPES = { js: 'text/javascript', css: 'text/css' }
const SHOWN = { ghost: '.ghost-text, .ghost-text-decoration', menu: '.suggest-widget.visible .monaco-list-row' }

const http = createServer(async (request, response) => {
  const name = new URL(request.url, 'http://localhost').pathname.slice(1)
  const body = name === '' ? PAGE : await readFile(join(folder, 'out', name)).catch(() => undefined)
  response.writeHead(body === undefined ? 404 : 200, { 'Content-Type': TYPES[name.split('.').pop()] ?? 'text/html' })
  response.end(body)
})

let wire = []
new WebSocketServer({ server: http }).on('connection', (socket) => {
  const server = spawn('fastcoder-lsp', ['serve'], { stdio: ['pipe', 'pipe', 'ignore'] })
  const writer = new StreamMessageWriter(server.stdin)
  socket.on('message', (data) => {
    const message = JSON.parse(String(data))
    wire.push(message)
    void writer.write(message)
  })
  socket.on('close', () => server.stdin.end())
  new StreamMessageReader(server.stdout).listen((message) => {
    wire.push(message)
    socket.send(JSON.stringify(message))
  })
})

async function answered() {
  const open = () => {
    const ids = new Set(wire.filter((one) => one.method === undefined).map((one) => one.id))
    const questions = wire.filter((one) => one.method === 'textDocument/inlineCompletion')
    return questions.length === 0 || questions.some((one) => !ids.has(one.id))
  }
  while (open()) await sleep(20)
}

// A menu that got its answer after the last key asks no more by itself.
async function openMenu(view, shown) {
  for (let tries = 0; tries < 10 && !(await shown.isVisible()); tries++) {
    await view.keyboard.press('Control+Space')
    await sleep(1000)
  }
}

async function play(browser, { ghost, settings, text, keys, run }) {
  wire = []
  const view = await browser.newPage()
  view.setDefaultTimeout(60_000)
  const errors = []
  view.on('pageerror', (error) => errors.push(String(error)))
  const query = new URLSearchParams({ text, settings: JSON.stringify(settings), ...(ghost && { ghost }) })
  await view.goto(`http://127.0.0.1:${http.address().port}/?${query}`)
  await view.waitForFunction(() => globalThis.page)
  await view.keyboard.type(keys, { delay: 30 })
  if (run) {
    await answered()
    await view.evaluate((command) => globalThis.page.run(command), run)
  }
  const shown = view.locator(ghost ? SHOWN.ghost : SHOWN.menu).first()
  if (!ghost) await openMenu(view, shown)
  await shown.waitFor()
  await view.keyboard.press('Tab')
  await view.waitForFunction((before) => globalThis.page.text() !== before, text + keys)
  const seen = { text: await view.evaluate(() => globalThis.page.text()), wire, errors }
  await view.close()
  return seen
}

http.listen(0, '127.0.0.1')
await once(http, 'listening')
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] })
const seen = []
for (const scenario of JSON.parse(scenarios)) seen.push(await play(browser, scenario))
await browser.close()
process.stdout.write(JSON.stringify(seen), () => process.exit())
