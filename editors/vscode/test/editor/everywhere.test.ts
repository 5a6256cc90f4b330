/** A renamed definition in the other files, by the real server: the editor's own preview first, then one undo. */

import assert from 'node:assert/strict'
import * as fs from 'node:fs'
import * as path from 'node:path'
import { after, afterEach, before, test } from 'node:test'

import { until } from './waiting.ts'
import { Workbench } from './workbench.ts'

const NET = 'def load(url):\n    return url\n'
const USES = 'from net import load\n\n\ndef run():\n    return load(1)\n'

const editor = new Workbench({ files: { 'net.py': NET, 'cart.py': USES } })

before(async () => {
    editor.server.scripted('--says', '')
    await editor.open()
})

after(async () => {
    await editor.close()
    editor.remove()
})

afterEach(async (test) => {
    await editor.keepFailure(test)
})

/** The text of a file in the active editor. */
async function lines(): Promise<string> {
    const shown = await editor.page.locator('.editor-instance .view-lines').first().innerText()
    return shown.replaceAll('\u00a0', ' ')
}

async function pressed(key: string, times: number): Promise<void> {
    for (let left = times; left > 0; left -= 1) {
        await editor.page.keyboard.press(key)
    }
}

void test('the change is previewed at all its places, made when the user says so, and undone', async () => {
    await editor.openFile('net.py')
    await editor.page.keyboard.press('Control+Home')
    await pressed('ArrowRight', 'def '.length)
    await pressed('Delete', 'load'.length)
    await editor.type('fetch')
    const preview = editor.page.locator('.bulk-edit-panel')
    await until(async () => {
        await editor.command('fastcoder: Make the Last Change at All Its Places')
        await editor.page.waitForTimeout(500)
        return await preview.isVisible()
    }, 'the preview')
    assert.match(await preview.innerText(), /cart\.py/)
    assert.equal(fs.readFileSync(path.join(editor.workspace, 'cart.py'), 'utf8'), USES)
    await preview.locator('.monaco-button', { hasText: 'Apply' }).click()
    await preview.waitFor({ state: 'hidden' })
    await editor.openFile('cart.py')
    await until(async () => (await lines()).includes('return fetch(1)'), 'the new name')
    assert.equal(fs.readFileSync(path.join(editor.workspace, 'cart.py'), 'utf8'), USES, 'nothing is written')
    await editor.page.keyboard.press('Control+Z')
    await until(async () => (await lines()).includes('return load(1)'), 'the old name')
    assert.ok(!(await lines()).includes('fetch'), await lines())
})
