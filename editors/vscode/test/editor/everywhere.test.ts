/** A renamed definition in other files, by the real server: previewed by the editor, made when the user says so, undone. */

import assert from 'node:assert/strict'
import * as fs from 'node:fs'
import * as path from 'node:path'
import { after, afterEach, before, test } from 'node:test'

import type { Locator } from 'playwright-core'

import { ATTEMPT_MS, until } from './waiting.ts'
import { Workbench } from './workbench.ts'

const NET = 'def load(url):\n    return url\n'
const USES = 'from net import load\n\n\ndef run():\n    return load(1)\n'
const RENAMED = USES.replaceAll('load', 'fetch')
const USERS = ['cart.py', 'wind.py']

const editor = new Workbench({ files: { 'net.py': NET, 'cart.py': USES, 'wind.py': USES } })

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

/** Open a file, and wait until the screen has this text of it. */
async function shows(name: string, wanted: string): Promise<void> {
    await editor.openFile(name)
    let seen = ''
    await until(async () => (seen = await onScreen()) === wanted.trimEnd(), () => `${name} has ${wanted}, not ${seen}`)
}

/** The text of the active editor: its lines, which lie in the page in any order, without the blanks at the end. */
async function onScreen(): Promise<string> {
    return await editor.page.evaluate((selector) => {
        const rows = [...document.querySelectorAll<HTMLElement>(selector)].sort((one, other) => one.offsetTop - other.offsetTop)
        return rows.map(({ innerText }) => innerText.replaceAll('\u00a0', ' ')).join('\n').trimEnd()
    }, '.editor-instance .view-line')
}

/** Words that decorations add. */
async function hints(): Promise<string> {
    return await editor.page.locator('.view-line [class*="ced-"]').evaluateAll((all) =>
        all.map((one) => getComputedStyle(one, '::after').content.replaceAll('\u00a0', ' ')).join(' '),
    )
}

function onDisk(): string[] {
    return USERS.map((name) => fs.readFileSync(path.join(editor.workspace, name), 'utf8'))
}

async function press(key: string, times: number): Promise<void> {
    for (let left = times; left > 0; left -= 1) {
        await editor.page.keyboard.press(key)
    }
}

/** The editor's preview of an edit. */
function preview(): Locator {
    return editor.page.locator('.bulk-edit-panel')
}

/** Ask for all places, and see them. */
async function asksForAll(): Promise<void> {
    await until(async () => {
        await editor.command('fastcoder: Make the Last Change at All Its Places')
        await preview().waitFor({ timeout: ATTEMPT_MS })
        return true
    }, 'the preview')
    let seen = ''
    await until(async () => {
        seen = await preview().innerText()
        return USERS.every((name) => seen.includes(name))
    }, () => `the preview names all files (${seen})`)
}

void test('the hint at an edit of another file tells of more files', async () => {
    await editor.openFile('net.py')
    await editor.asked() // the server runs, and has the text
    await editor.page.keyboard.press('Control+Home')
    await press('ArrowRight', 'def '.length)
    await press('Delete', 'load'.length)
    await editor.type('fetch')
    let seen = ''
    await until(async () => {
        await editor.command('fastcoder: Suggest the Next Edit')
        await editor.page.waitForTimeout(500)
        return (seen = await hints()).includes('edit in cart.py, line 1 (Tab), “Make the Last Change at All Its Places” for all')
    }, () => `the hint is there (${seen} is)`)
})

void test('discarded, the change is made nowhere', async () => {
    await asksForAll()
    await preview().locator('.monaco-button', { hasText: 'Discard' }).click()
    await preview().waitFor({ state: 'hidden' })
    await shows('cart.py', USES)
    await shows('net.py', NET.replace('load', 'fetch'))
})

void test('applied, it is made in all files and saved in none; one undo takes it back', async () => {
    await asksForAll()
    assert.deepEqual(onDisk(), [USES, USES], 'a preview changes nothing')
    await preview().locator('.monaco-button', { hasText: 'Apply' }).click()
    await preview().waitFor({ state: 'hidden' })
    await shows('cart.py', RENAMED)
    await shows('wind.py', RENAMED)
    assert.deepEqual(onDisk(), [USES, USES], 'nothing is saved')
    await editor.page.keyboard.press('Control+Z')
    await shows('wind.py', USES)
    await shows('cart.py', USES)
    await shows('net.py', NET.replace('load', 'fetch'))
})
