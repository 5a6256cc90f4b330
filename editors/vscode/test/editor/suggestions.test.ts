/** Suggestions as a user meets them: shown, accepted whole and by word, typed along, dismissed, exchanged, explained. */

import assert from 'node:assert/strict'
import * as fs from 'node:fs'
import * as path from 'node:path'
import { after, afterEach, before, test } from 'node:test'

import { colours, DOCS, FILES, LOOKS, NAMES, takePictures } from './pictures.ts'
import { realModel } from './server.ts'
import { until } from './waiting.ts'
import { Workbench } from './workbench.ts'

const SAMPLE = `def add(a, b):
    return a + b


def subtract(a, b):
    return a - b


def multiply(a, b):
`
const model = realModel()
/** However slow the machine and however unsure the model is, answers are whole. */
const PATIENT = { 'fastcoder.budget.automatic_ms': 60_000, 'fastcoder.budget.invoked_ms': 60_000, 'fastcoder.quiet.show': 'eager' }
const samples = Object.fromEntries(['a', 'b', 'c', 'd', 'e'].map((name) => [`${name}.py`, SAMPLE]))
const editor = new Workbench({ files: { ...samples, ...FILES }, settings: { ...PATIENT, ...LOOKS } })

before(async () => {
    if (model === undefined) {
        console.error('the real model is absent: a scripted one stands in')
        editor.server.scripted('--says', 'return a * b')
    } else {
        editor.server.real(model)
    }
    await editor.open()
})
afterEach(async (test) => {
    await editor.keepFailure(test)
})
after(async () => {
    await editor.close()
    editor.remove()
})

/** Type the start of a line, and wait for what is suggested. */
async function suggested(file: string, start = '    re'): Promise<string> {
    await editor.openFile(file)
    await editor.type(start)
    return await editor.untilGhost()
}

void test('the status bar tells the truth while the model loads', async () => {
    await editor.untilStatus('Ready to load the model')
    const seen = await editor.watchStatus()
    await suggested('a.py')
    await editor.untilStatus('Ready.')
    const labels = (await seen()).map((label) => label.replace('fastcoder: ', ''))
    const at = (part: string): number => labels.findIndex((label) => label.includes(part))
    assert.ok(at('Loading the model: ') > at('Ready to load'), String(labels))
    assert.ok(at('Ready.') > at('Loading the model: '), String(labels))
    assert.match(labels[at('Loading')] ?? '', /\d+ %/)
})

void test('Tab accepts what is shown', async () => {
    const shown = await editor.untilGhost()
    await editor.page.keyboard.press('Tab')
    const [first] = shown.split('\n')
    assert.equal(await editor.saved('a.py').then((text) => text.startsWith(`${SAMPLE}    re${first}`)), true)
})

void test('typing along keeps the suggestion, and asks the model for nothing', async () => {
    const shown = await suggested('b.py')
    for (let typed = 1; typed <= 3; typed++) {
        await editor.type(shown[typed - 1] ?? '')
        await editor.untilGhost((text) => text === shown.slice(typed), `what is left after ${typed} letters`)
    }
    if (model !== undefined) {
        await until(() => editor.server.logText().includes('finish=typed-through'), 'the server answers from what it said')
    }
})

void test('Escape dismisses it; asked for by our command, it is there again', async () => {
    const shown = await editor.untilGhost()
    await editor.page.keyboard.press('Escape')
    await editor.untilGhost((text) => text === '', 'no ghost text')
    assert.equal(await editor.asked(), shown)
})

void test("the editor's key accepts the next word alone", async () => {
    const shown = await suggested('c.py')
    await editor.page.keyboard.press('Control+ArrowRight')
    const word = /^\s*\w+|^\s*\S/.exec(shown)?.[0] ?? ''
    await editor.untilGhost((text) => text !== shown && shown.endsWith(text), 'the rest is still shown')
    const text = await editor.saved('c.py')
    assert.ok(text.startsWith(`${SAMPLE}    re${word}`), text)
    assert.ok(text.length < SAMPLE.length + 6 + shown.length, text)
})

void test('the page of a trace colours the tokens of the last suggestion', { skip: model === undefined }, async () => {
    const shown = await suggested('d.py')
    await editor.command('fastcoder: Show How the Last Suggestion Was Made')
    const page = await editor.webview('pre.code')
    assert.ok((await page.locator('pre.code').innerText()).includes(shown.trim().split('\n')[0] ?? '?'))
    assert.ok((await page.locator('pre.code .token').count()) > 0)
    assert.match(await page.locator('header').innerText(), /d\.py[^]*tokens? in \d+ model steps?/)
    await editor.page.keyboard.press('Control+W')
})

void test('the statistics page plots latency and acceptance', async () => {
    await editor.command('fastcoder: Show Statistics')
    const page = await editor.webview('figure svg')
    const headings = await page.locator('h2').allInnerTexts()
    for (const wanted of ['Latency', 'Time by stage', 'Acceptance', 'Outcomes of the requests']) {
        assert.ok(headings.includes(wanted), String(headings))
    }
    assert.ok((await page.locator('circle.dot.shown').count()) > 0)
    assert.match(await page.locator('.cards').innerText(), /accepted \([1-9]\d* of [1-9]\d*\)/)
    await editor.page.keyboard.press('Control+W')
})

void test('turned off, the model is unloaded and nothing is suggested; turned on, it comes back', async () => {
    const id = editor.server.modelProcess() ?? 0
    const before = residentBytes(id)
    await editor.openFile('e.py')
    await editor.command('fastcoder: Turn Suggestions On or Off')
    await editor.untilStatus('no model is loaded')
    assert.equal(editor.userSettings()['fastcoder.enabled'], false)
    if (model !== undefined) {
        await until(() => residentBytes(id) < before - 50e6, () => `memory is given back (${before} → ${residentBytes(id)})`)
    }
    await editor.type('    re')
    assert.equal(await editor.asked(), '')
    await editor.command('fastcoder: Turn Suggestions On or Off')
    await editor.untilStatus('Ready to load the model')
    assert.equal(editor.userSettings()['fastcoder.enabled'], undefined)
    await editor.type('t') // the model is loaded; what was asked for meanwhile is shown then
    await editor.untilGhost()
})

void test('another alternative is shown by the key, the one before by the other key', { skip: model === undefined }, async () => {
    await editor.openFile('e.py')
    await editor.page.keyboard.press('Enter')
    await editor.type('x = ')
    const first = await editor.untilGhost()
    await editor.page.keyboard.press('Alt+]')
    const second = await editor.untilGhost((text) => text !== '' && text !== first, 'another suggestion')
    await editor.page.keyboard.press('Alt+[')
    await editor.untilGhost((text) => text !== '' && text !== second, 'the one before')
    await editor.page.keyboard.press('Alt+]')
    await editor.untilGhost((text) => text === second, 'the other again')
})

void test('the pictures of the documentation are like those taken now', { skip: model === undefined }, async () => {
    const folder = path.join(import.meta.dirname, '../../dist/pictures')
    await editor.page.keyboard.press('Control+B')
    const ghost = await takePictures(editor, folder, [])
    for (const name of NAMES) {
        const [now, stored] = [await colours(editor, path.join(folder, name)), await colours(editor, path.join(DOCS, name))]
        const remake = `${name} is another picture now. If it should be, make it again: scripts/test-vscode --pictures`
        assert.equal(now.size, stored.size, remake)
        // What is written differs by model, and its edges by font; the colours of pages, panels and text do not.
        const missing = Object.keys(stored.shares).filter((one) => (stored.shares[one] ?? 0) > 2e-3 && (now.shares[one] ?? 0) < 5e-4)
        assert.deepEqual(missing, [], remake)
    }
    const { shares } = await colours(editor, path.join(folder, NAMES[0]), ghost)
    assert.ok(Math.max(...Object.values(shares)) < 0.97, 'there is something to see where ghost text is')
})

/** The memory of a process. */
function residentBytes(id: number): number {
    const pages = Number(fs.readFileSync(`/proc/${id}/statm`, 'utf8').split(' ')[1])
    return pages * 4096
}
