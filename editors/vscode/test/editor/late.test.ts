/** What is made too late for its own question, in the real editor: shown without another key. */

import assert from 'node:assert/strict'
import { after, afterEach, before, test } from 'node:test'

import { realModel } from './server.ts'
import { until } from './waiting.ts'
import { Workbench } from './workbench.ts'

const SAYS = 'suggested = 1'
const LATE = ['--says', SAYS, '--step-ms', '100', '--budget-ms', '100'] // a tenth of a second for one that takes more than one
const CODE = 'def add(a, b):\n    return a + b\n\n\ndef multiply(a, b):\n'
const model = realModel()

const editor = new Workbench({
    files: { 'a.py': 'x = 1\n', 'b.py': 'y = 1\n', 'c.py': CODE, 'd.py': CODE },
    settings: {
        'fastcoder.budget.automatic_ms': 1, // the scripted server's own is stronger
        'fastcoder.quiet.show': 'eager', // a small model is unsure of an empty function
        'fastcoder.power': 'saver', // else a suggestion is ready where the cursor rests before the first key
    },
})

before(async () => {
    editor.server.scripted(...LATE)
    await editor.open()
    await editor.openFile('a.py')
    await editor.untilStatus('Ready to load the model')
})

after(async () => {
    await editor.close()
    editor.remove()
})

afterEach(async (test) => {
    await editor.keepFailure(test)
})

void test('the first suggestion comes without another key, once the model is loaded and the text is made', async () => {
    await editor.type('v = ')
    await editor.untilGhost((text) => text === SAYS, 'the whole suggestion')
})

void test('at a new place, the text comes without another key once it is made', async () => {
    await editor.page.keyboard.press('Control+Enter')
    assert.equal(await editor.ghostText(), '')
    await editor.untilGhost((text) => text === SAYS, 'the whole suggestion')
})

void test('asked for by the key where even that was too early, it comes, too', async () => {
    await editor.page.keyboard.press('Control+Enter')
    await editor.page.keyboard.press('Alt+\\')
    assert.equal(await editor.ghostText(), '')
    await editor.untilGhost((text) => text === SAYS, 'the whole suggestion')
})

void test('the command says why there was nothing, and what to do', async () => {
    await editor.openFile('b.py')
    await editor.type('v = ')
    await editor.untilGhost()
    await editor.command('fastcoder: Why No Suggestion?')
    await until(async () => (await editor.notifications()).some((text) => text.includes('b.py')), 'a notification about the file')
    await editor.page.locator('.notifications-toasts .monaco-button', { hasText: 'Show All' }).click()
    const log = editor.page.locator('.part.panel .view-lines')
    await until(async () => /not\sready\swithin\s100\sms/.test(await log.innerText()), 'the reason in the log')
})

void test('the menu has the command', async () => {
    assert.ok((await editor.menu()).some((entry) => entry.endsWith('Why No Suggestion?')))
    await editor.closeMenu()
})

void test('a beginning that is shown goes on to the whole, once that is made', async () => {
    editor.server.scripted('--says', 'if x:\n    a = 1\n    b = 2\n', '--step-ms', '40', '--budget-ms', '600')
    await editor.command('fastcoder: Restart the Server')
    await editor.untilStatus('Ready to load the model')
    await editor.page.keyboard.press('Control+End')
    await editor.page.keyboard.press('Control+Enter')
    await editor.untilGhost((text) => text.startsWith('if x:') && !text.includes('b = 2'), 'a beginning')
    await editor.untilGhost((text) => text.endsWith('b = 2'), 'the whole')
})

void test('who types on while a late text is asked for gets the one for the last key', async () => {
    // A text is late by about the pause between two keys, so that many a key comes while the editor asks again for the one before.
    editor.server.scripted('--says', SAYS, '--step-ms', '5', '--budget-ms', '20')
    await editor.command('fastcoder: Restart the Server')
    await editor.untilStatus('Ready to load the model')
    await editor.openFile('b.py')
    for (const delayMs of [60, 70, 80, 90, 100, 120, 140, 160]) {
        await editor.page.keyboard.press('Control+Enter')
        await editor.type('v = w.', delayMs)
        await editor.untilGhost((text) => text === SAYS, `the whole suggestion after keys every ${delayMs} ms`)
    }
})

void test('the key for another alternative shows one where the text came late, too', { skip: model === undefined }, async () => {
    editor.server.real(model ?? '')
    await editor.command('fastcoder: Restart the Server')
    await editor.untilStatus('Ready to load the model')
    await editor.openFile('c.py')
    await editor.type('    re')
    await editor.untilGhost()
    await editor.openFile('d.py')
    await editor.type('    re')
    const first = await editor.untilGhost()
    await until(() => editor.server.logText().includes('finish=budget'), 'it came late')
    await editor.page.keyboard.press('Alt+]')
    const second = await editor.untilGhost((text) => text !== '' && text !== first, 'another suggestion')
    await editor.page.keyboard.press('Alt+[')
    await editor.untilGhost((text) => text !== second && text === first, 'the one before')
})
