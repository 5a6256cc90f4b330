/** Next edits in the real editor: drawn by decorations, gone to and made by one key, rejected by another. */

import assert from 'node:assert/strict'
import * as fs from 'node:fs'
import * as path from 'node:path'
import { after, afterEach, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'

import { withImporter } from './importer.ts'
import { until } from './waiting.ts'
import { Workbench } from './workbench.ts'

const CODE = 'def area(width, height):\n    return width * height\n'
const FAR = `x = 1\n${'\n'.repeat(120)}print(x)\n`
/** In which an edit is drawn after a key, if it is. */
const REST_MS = 2_000
const STRUCK = '.monaco-editor .view-line [class*="ced-"]'

const IMPORTS = 'wanted()\noffered()\n'

const editor = new Workbench({ files: { 'a.py': CODE, 'b.py': FAR, 'c.py': IMPORTS }, extensions: withImporter })
const proposals = path.join(editor.folder, 'edits.json')

before(async () => {
    propose()
    editor.server.proposing(proposals)
    await editor.open()
    await editor.untilStatus('')
})

after(async () => {
    await editor.close()
    editor.remove()
})

afterEach(async (test) => {
    await editor.keepFailure(test)
})

/** From now on the server proposes these edits: [line, character, line, character, text]. */
function propose(...edits: (readonly [number, number, number, number, string])[]): void {
    fs.writeFileSync(proposals, JSON.stringify({ edits, imports: [] }))
}

/** From now on it proposes to import a name, which a line begins with. */
function proposeImport(name: string, line: number): void {
    const range = { start: { line, character: 0 }, end: { line, character: name.length } }
    fs.writeFileSync(proposals, JSON.stringify({ edits: [[0, 0, 0, 0, `import ${name}\n`]], imports: [{ name, range }] }))
}

/** The client's messages to the server of this method. */
function heard(method: string): Message[] {
    const all = editor.server.logText().split('\n').filter((line) => line !== '').map((line) => JSON.parse(line) as Message)
    return all.filter((message) => message.method === method)
}

/** The ids of what the server was told by a method. */
function told(method: string): unknown[] {
    return heard(method).flatMap(({ params }) => params.item?.command.arguments ?? params.arguments ?? [])
}

interface Message {
    readonly method?: string
    readonly params: { readonly arguments?: unknown[]; readonly item?: { readonly command: { readonly arguments: unknown[] } }; readonly position?: object }
}

/** What decorations add to the lines, in their order: the editor has them as content before and behind elements. */
async function added(): Promise<string[]> {
    return await editor.page.evaluate((selector) => {
        const elements = [...document.querySelectorAll(selector)]
        const contents = elements.flatMap((element) => ['::before', '::after'].map((part) => getComputedStyle(element, part).content))
        return contents.filter((text) => text !== 'none' && text !== 'normal').map((text) => text.slice(1, -1).replaceAll('\u00a0', ' '))
    }, STRUCK)
}

async function struck(): Promise<string[]> {
    return await editor.page.evaluate((selector) => {
        const elements = [...document.querySelectorAll<HTMLElement>(selector)]
        return elements.filter((element) => getComputedStyle(element).textDecorationLine === 'line-through').map((element) => element.innerText)
    }, STRUCK)
}

async function shows(wanted: readonly string[]): Promise<void> {
    let seen: string[] = []
    await until(async () => String(seen = await added()) === String(wanted), () => `${String(wanted)} is drawn, not ${String(seen)}`)
}

void test('after a change the edit is drawn; Tab makes it, and one undo takes it back', async () => {
    await editor.openFile('a.py')
    propose([1, 11, 1, 16, 'breadth'], [1, 19, 1, 25, 'depth'])
    await editor.type('#')
    await shows(['breadth', 'depth'])
    assert.deepEqual(await struck(), ['width', 'height'])
    assert.deepEqual(told('textDocument/didShowInlineEdit'), ['edit-1', 'edit-2'])
    propose()
    await editor.page.keyboard.press('Tab')
    await shows([])
    assert.equal(await editor.saved('a.py'), `${CODE.replace('width *', 'breadth *').replace('* height', '* depth')}#`)
    await until(() => told('workspace/executeCommand').length === 2, 'the server is told that it was made')
    await editor.page.keyboard.press('Control+Z')
    assert.equal(await editor.saved('a.py'), `${CODE}#`)
})

void test('Escape rejects it; Tab is a tab then', async () => {
    propose([1, 11, 1, 16, 'breadth'])
    await editor.type('!')
    await shows(['breadth'])
    await editor.page.keyboard.press('Escape')
    await shows([])
    assert.deepEqual(told('fastcoder/editRejected'), ['edit-1'])
    propose()
    await editor.page.keyboard.press('Tab')
    assert.match(await editor.saved('a.py'), /#!\s+$/)
})

void test('a far edit is hinted at; Tab goes there, Tab again makes it; a change takes it away', async () => {
    await editor.openFile('b.py')
    await editor.page.keyboard.press('Control+Home')
    await editor.page.keyboard.press('End')
    propose([121, 6, 121, 7, 'y'], [121, 8, 122, 0, '\nprint(y)\n'])
    await editor.type('0')
    await shows(['  edit in ↓ line 122 (Tab)'])
    await editor.page.keyboard.press('Tab')
    await shows(['y', '⏎print(y)⏎'])
    propose([121, 6, 121, 7, 'z'])
    await editor.page.keyboard.press('Tab')
    await shows(['z'])
    propose()
    await editor.type('!')
    await shows([])
    const text = await editor.saved('b.py')
    assert.ok(text.startsWith('x = 10\n') && text.includes('print(y)\nprint(y)\n'), text)
})

void test('by the command there is one, or word that there is none', async () => {
    propose([0, 0, 0, 1, 'y'])
    await editor.page.keyboard.press('Control+Home')
    await editor.command('fastcoder: Suggest the Next Edit')
    await shows(['y'])
    propose()
    await editor.command('fastcoder: Suggest the Next Edit')
    await editor.page.locator('.statusbar', { hasText: 'no edit here' }).waitFor()
    await shows([])
})

void test('an import that another extension offers is left to it, unless one asks by key', async () => {
    await editor.openFile('c.py')
    proposeImport('wanted', 0)
    await editor.type('#')
    await shows(['import wanted⏎'])
    proposeImport('offered', 1)
    await until(async () => {
        await editor.type('#') // whoever answers too late in a busy editor is not waited for
        await sleep(REST_MS)
        return (await added()).length === 0
    }, 'it is left to the other extension')
    await editor.command('fastcoder: Suggest the Next Edit')
    await shows(['import offered⏎'])
    propose()
})

void test('a snooze takes it away', async () => {
    propose([0, 0, 0, 1, 'y'])
    await editor.command('fastcoder: Suggest the Next Edit')
    await shows(['y'])
    await editor.command('fastcoder: Snooze Suggestions')
    await editor.page.locator('.quick-input-list .monaco-list-row', { hasText: '30 minutes' }).click()
    await shows([])
})

void test('the server is told where the cursor rests, and not of a selection', async () => {
    await editor.page.keyboard.press('Control+Home')
    await editor.page.keyboard.press('Shift+ArrowRight')
    await editor.page.waitForTimeout(1_000)
    await editor.page.keyboard.press('Control+Home')
    await editor.page.keyboard.press('ArrowDown')
    const places = (): string => JSON.stringify(heard('fastcoder/cursor').map(({ params }) => params.position))
    await until(() => places().includes('{"line":1,"character":0}'), places)
    assert.ok(!places().includes('{"line":0,"character":1}'), places())
})
