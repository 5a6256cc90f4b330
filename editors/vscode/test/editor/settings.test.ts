/** Settings: they arrive when they change, a workspace's reach is limited, and errors say what to do. */

import assert from 'node:assert/strict'
import * as fs from 'node:fs'
import * as path from 'node:path'
import { after, afterEach, before, beforeEach, test } from 'node:test'

import { until } from './waiting.ts'
import { Workbench } from './workbench.ts'

const SAYS = 'suggested = 1'
const editor = new Workbench({ files: { 'a.py': '', '.vscode/settings.json': '{"fastcoder.model": "from/the-repository"}' } })

before(async () => {
    editor.server.scripted('--says', SAYS)
    await editor.open()
    await editor.untilStatus('Ready to load the model')
    await editor.openFile('a.py')
})
beforeEach(async () => {
    await editor.page.keyboard.press('Control+End')
    await editor.page.keyboard.press('Enter')
})
afterEach(async (test) => {
    await editor.keepFailure(test)
})
after(async () => {
    await editor.close()
    editor.remove()
})

/** Type a letter and ask, again and again, until that is suggested; empty: nothing. */
async function untilSuggested(wanted: string): Promise<void> {
    let last = ''
    await until(
        async () => {
            await editor.type('y')
            return (last = await editor.asked()) === wanted
        },
        () => `"${wanted}" is suggested, not "${last}"`,
    )
}

function write(name: string, text: string): void {
    fs.writeFileSync(path.join(editor.workspace, name), text)
}

void test("a repository's settings name no model", async () => {
    await untilSuggested(SAYS) // the scripted server knows no model but its own
    await editor.untilStatus('Ready.')
})

void test("the user's do, at once; the error says what to do, in the bar, the menu and one notice", async () => {
    editor.setMachineSettings({ 'fastcoder.model': 'the/missing' })
    await untilSuggested('')
    await editor.untilStatus('no model the/missing')
    assert.match((await editor.status()).label, /Click to download it/)
    await editor.type('yy')
    assert.deepEqual(await editor.notifications(), ['fastcoder: no model the/missing'])
    assert.match((await editor.menu())[0] ?? '', /Download the Model/)
    await editor.closeMenu()
    editor.setMachineSettings({})
    await untilSuggested(SAYS)
    await editor.untilStatus('Ready.')
})

void test('a language is turned off and on by its command; the item says so', async () => {
    await editor.command('fastcoder: Turn Suggestions On or Off for This Language')
    await editor.untilStatus('off for python')
    assert.deepEqual(editor.userSettings()['fastcoder.languages.exclude'], ['python'])
    await untilSuggested('')
    await editor.command('fastcoder: Turn Suggestions On or Off for This Language')
    await editor.untilStatus('Ready.')
    assert.equal(editor.userSettings()['fastcoder.languages.exclude'], undefined)
    await untilSuggested(SAYS)
})

void test('the workspace is turned off and on by its command, in its settings', async () => {
    const settings = (): Record<string, unknown> =>
        JSON.parse(fs.readFileSync(path.join(editor.workspace, '.vscode', 'settings.json'), 'utf8')) as Record<string, unknown>
    await editor.command('fastcoder: Turn Suggestions On or Off for This Workspace')
    await editor.untilStatus('no model is loaded')
    assert.equal(settings()['fastcoder.enabled'], false)
    await editor.command('fastcoder: Turn Suggestions On or Off for This Workspace')
    await editor.untilStatus('Ready to load the model')
    assert.equal('fastcoder.enabled' in settings(), false)
    await untilSuggested(SAYS)
})

void test("the editor's defaults do not hide a folder's fastcoder.toml", async () => {
    write('fastcoder.toml', 'languages.include = ["rust"]\n')
    await untilSuggested('')
    fs.rmSync(path.join(editor.workspace, 'fastcoder.toml'))
    await untilSuggested(SAYS)
})
