/** The server's life under the editor: loading, dying, coming back, given up, and never left behind. */

import assert from 'node:assert/strict'
import { after, afterEach, before, test } from 'node:test'

import { until } from './waiting.ts'
import { Workbench } from './workbench.ts'

const SAYS = 'suggested = 1'
const editor = new Workbench({ files: { 'a.py': 'x = 1\n' } })

before(async () => {
    editor.server.scripted('--says', SAYS, '--load-ms', '3000')
    await editor.open()
    await editor.untilStatus('Ready to load the model')
    await editor.openFile('a.py')
})
afterEach(async (test) => {
    await editor.keepFailure(test)
})
after(async () => {
    await editor.close()
    editor.remove()
})

/** A new line, a letter, and what is suggested after it. */
async function untilSuggested(): Promise<void> {
    await editor.page.keyboard.press('Control+End')
    await editor.page.keyboard.press('Enter')
    await editor.type('y')
    await editor.untilGhost((text) => text === SAYS, SAYS)
}

void test('nothing is loaded before it is needed; then the percents are shown, in order', async () => {
    const seen = await editor.watchStatus()
    await untilSuggested()
    await editor.untilStatus('Ready.')
    const percents = (await seen()).flatMap((label) => /Loading the model: (\d+) %/.exec(label)?.[1] ?? [])
    assert.deepEqual([...new Set(percents)], ['0', '50'])
})

void test('a click on the item opens the menu', async () => {
    const entries = await editor.menu()
    assert.deepEqual(entries.slice(0, 2), ['Turn Off', 'Turn Off for python'])
    await editor.closeMenu()
})

void test('a server that is killed comes back by itself', async () => {
    for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
        const [first = 0] = editor.server.processes()
        process.kill(first, signal)
        await until(() => editor.server.processes().some((id) => id !== first), 'another server runs')
        await editor.untilStatus('Ready to load the model')
        await untilSuggested()
    }
    assert.equal(editor.server.processes().length, 1)
    assert.deepEqual(await editor.notifications(), [])
})

void test('one that dies again and again is left alone; the item and one notice say so, and what to do', async () => {
    editor.server.broken()
    process.kill(editor.server.processes()[0] ?? 0, 'SIGKILL')
    await editor.untilStatus('within five minutes')
    assert.match((await editor.menu())[0] ?? '', /Restart the Server/)
    editor.server.scripted('--says', SAYS)
    await editor.page.keyboard.press('Enter')
    await editor.untilStatus('Ready to load the model')
    await editor.page.keyboard.press('Control+1')
    await untilSuggested()
    assert.equal((await editor.notifications()).filter((text) => text.startsWith('fastcoder:')).length, 1)
})

void test('no server outlives a window that is loaded anew, which has one of its own', async () => {
    const [first] = editor.server.processes()
    await editor.command('Developer: Reload Window')
    await until(() => editor.server.processes().length === 1 && editor.server.processes()[0] !== first, 'another server runs alone')
    await editor.untilStatus('Ready to load the model')
})

void test('no server outlives a killed extension host', async () => {
    const hosts = editor.editorProcesses('--type=extensionHost')
    assert.equal(hosts.length, 1)
    process.kill(hosts[0] ?? 0, 'SIGKILL')
    await until(() => !editor.editorProcesses('--type=extensionHost').includes(hosts[0] ?? 0), 'the host is gone')
    await until(() => editor.server.processes().length === 0, 'its server is gone')
})

void test('no server outlives an editor that is killed as a whole', async () => {
    await editor.close()
    await editor.open()
    await until(() => editor.server.processes().length === 1, 'a server runs')
    editor.crash()
    await until(() => editor.server.processes().length === 0, 'the server is gone')
})
