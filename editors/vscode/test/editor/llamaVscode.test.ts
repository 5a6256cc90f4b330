/** llama.vscode, unmodified, against our server by HTTP: ghost text as it is typed, and accepted. */

import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'

import { archive, HttpServer, installed } from './peer.ts'
import { until } from './waiting.ts'
import { Workbench } from './workbench.ts'

const SAYS = 'return sum(items)'
/** After which another key is typed, where nothing is shown. */
const ANSWER_MS = 2000
const from = archive()
const skip = from === undefined ? 'llama.vscode is absent: FASTCODER_PEERS names no folder with its archive' : false

void test('what llama.vscode asks is understood, shown and accepted', { skip }, async (context) => {
    assert.ok(from !== undefined)
    const server = new HttpServer(`${SAYS}\n`)
    try {
        await server.ready()
        await shown(from, server, context)
    } finally {
        server.close()
    }
})

async function shown(from: string, server: HttpServer, context: TestContext): Promise<void> {
    const editor = new Workbench({
        files: { 'total.py': 'import os\nimport sys\n\n\ndef total(items):\n' },
        onPath: false,
        extensions: (folder) => installed(from, folder),
        settings: {
            'llama-vscode.endpoint': `http://127.0.0.1:${server.port}`,
            'llama-vscode.ask_install_llamacpp': false, // the server is ours
            'llama-vscode.env_start_last_used': false,
            'llama-vscode.rag_enabled': false,
        },
    })
    try {
        await editor.open()
        // It begins with the first file, and puts a page of its own before it then.
        await editor.page.locator('.explorer-folders-view .monaco-list-row', { hasText: 'total.py' }).dblclick()
        await editor.page.locator('.tabs-container .tab', { hasText: 'Information' }).waitFor()
        await editor.openFile('total.py')
        await until(async () => {
            await editor.type(' ') // whoever types before it listens is not heard
            await sleep(ANSWER_MS)
            return (await editor.ghostText()).trim() === SAYS
        }, 'ghost text is shown')
        await editor.page.keyboard.press('Tab')
        await until(async () => (await editor.ghostText()) === '', 'it is accepted')
        assert.match(await editor.saved('total.py'), /def total\(items\):\n +return sum\(items\)/)
        assert.ok((await server.metric('requests_total')) > 0)
        assert.equal(await server.metric('failed_total'), 0)
    } catch (error) {
        await editor.keepFailure({ name: context.name, passed: false })
        throw error
    } finally {
        await editor.close()
        editor.remove()
    }
}
