/**
 * Records the moving picture of docs/editors/vscode.md: `scripts/test-vscode --movie`.
 *
 * A real session: the editor with the extension, the server with the default model. What the browser draws is kept with
 * its times; scripts/moving_picture.py makes a file of it.
 */

import { execFileSync } from 'node:child_process'
import * as fs from 'node:fs'
import * as path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { python, realModel, ROOT } from './server.ts'
import { Workbench } from './workbench.ts'

const SAMPLE = path.join(ROOT, 'fastcoder_lsp/cli/play/sample/expenses')
const SIZE = { width: 860, height: 440 }
/** Of the screen's pixels: sharp where a page shows the picture at its size. */
const SCALE = 2
const SETTINGS = {
    'workbench.activityBar.location': 'hidden',
    'workbench.sideBar.location': 'right',
    'window.commandCenter': false,
    'workbench.layoutControl.enabled': false,
    'breadcrumbs.enabled': false,
    'editor.fontSize': 14,
    'editor.cursorBlinking': 'solid',
    'editor.occurrencesHighlight': 'off',
    'editor.matchBrackets': 'never',
    'editor.stickyScroll.enabled': false,
    'editor.overviewRulerBorder': false,
    'editor.scrollbar.vertical': 'hidden',
    'editor.scrollbar.horizontal': 'hidden',
    'fastcoder.engine': 'cpu-int8', // what `auto` chooses on two idle cores of a server
    'fastcoder.context.enabled': true,
    'fastcoder.budget.automatic_ms': 30_000,
}

const editor = new Workbench({
    files: Object.fromEntries(fs.readdirSync(SAMPLE).filter((name) => name.endsWith('.py')).map((name) => [`expenses/${name}`, fs.readFileSync(path.join(SAMPLE, name), 'utf8')])),
    settings: SETTINGS,
})

/** Go to a line's end. */
async function goTo(line: number): Promise<void> {
    await editor.page.keyboard.press('Control+G')
    await editor.page.locator('.quick-input-widget input').fill(`:${line}`)
    await editor.page.keyboard.press('Enter')
    await editor.page.locator('.quick-input-widget').waitFor({ state: 'hidden' })
    await editor.page.keyboard.press('End')
}

/** Say beside the tabs which key is pressed. */
async function caption(text: string): Promise<void> {
    await editor.page.evaluate((said) => {
        const found = document.getElementById('pressed')
        const shown = found ?? document.body.appendChild(Object.assign(document.createElement('div'), { id: 'pressed' }))
        shown.style.cssText =
            'position:fixed;right:84px;top:9px;padding:3px 12px;border-radius:6px;z-index:9999;' +
            `background:#3b3b3b;color:#fff;font:14px sans-serif;display:${said === '' ? 'none' : 'block'}`
        shown.textContent = said
    }, text)
}

/** Type as a person does. */
async function keys(text: string): Promise<void> {
    let pressed = 0
    for (const key of text) {
        await editor.page.keyboard.type(key)
        await sleep(60 + ((pressed++ * 37) % 90))
    }
}

async function typeAlong(letters: number): Promise<void> {
    const shown = await editor.untilGhost()
    await sleep(1_000)
    await caption('typing along')
    await keys(shown.slice(0, letters))
    await sleep(600)
}

async function accept(): Promise<void> {
    await editor.untilGhost()
    await sleep(800)
    await caption('Tab: accept')
    await editor.page.keyboard.press('Tab')
    await editor.untilGhost((text) => text === '', 'it is accepted')
    await sleep(1_000)
    await caption('')
}

/** What is drawn from now on: PNG files in a folder, by their times in milliseconds. */
async function record(folder: string): Promise<() => Promise<void>> {
    const session = await editor.page.context().newCDPSession(editor.page)
    session.on('Page.screencastFrame', ({ data, metadata, sessionId }) => {
        const ms = Math.round(1e3 * (metadata.timestamp ?? 0))
        fs.writeFileSync(path.join(folder, `${ms}.png`), Buffer.from(data, 'base64'))
        session.send('Page.screencastFrameAck', { sessionId }).catch(() => undefined) // the last one comes after the end
    })
    await session.send('Page.startScreencast', { format: 'png' })
    return async () => {
        await session.send('Page.stopScreencast')
    }
}

try {
    editor.server.real(realModel('auto') === undefined ? 'wheels:smollm2' : 'auto')
    await editor.open(SCALE)
    await editor.page.setViewportSize(SIZE)
    await editor.untilStatus('Ready to load the model')
    await editor.openFile('reports.py')
    await editor.page.keyboard.press('Control+B')
    await editor.page.mouse.move(200, 18)
    await editor.type(' ') // loads the model
    await editor.untilStatus('Ready.')
    await editor.page.keyboard.press('Backspace')
    await goTo(30)
    const frames = fs.mkdtempSync(path.join(editor.folder, 'frames-'))
    const stop = await record(frames)
    await sleep(1_000)
    await editor.page.keyboard.press('Enter')
    await keys('days: dict[date, Decimal] = defaultdict(Decimal)\n')
    await typeAlong(7)
    await accept()
    for (let line = 0; line < 6; line++) {
        await editor.page.keyboard.press('ArrowDown')
        await sleep(120)
    }
    await keys('    return ')
    await typeAlong(10)
    await accept()
    await sleep(1_000)
    await stop()
    execFileSync(python, ['scripts/moving_picture.py', frames, process.argv[2] ?? 'docs/editors/vscode-movie.gif'], { cwd: ROOT, stdio: 'inherit' })
} finally {
    await editor.close()
    editor.remove()
}
