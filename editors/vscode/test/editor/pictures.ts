/** Takes the pictures of docs/editors/vscode.md: `npm run pictures`, with the variables that scripts/test-vscode sets. */

import * as path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { realModel, ROOT } from './server.ts'
import { Workbench } from './workbench.ts'

const CODE = `from collections import Counter
from pathlib import Path


def count_words(path: Path) -> Counter[str]:
    """How often each word occurs in a file."""
    return Counter(path.read_text().split())


def longest_words(path: Path, most: int = 10) -> list[str]:
    """The longest words of a file, the longest first."""
    words = `
const TYPED = ['count_words(path)\n', 'return sorted(', 'words', ', key=', 'len', ', reverse=True)']

const editor = new Workbench({
    files: { 'words.py': CODE },
    settings: { 'workbench.activityBar.location': 'hidden', 'workbench.sideBar.location': 'right', 'editor.fontSize': 15 },
})

async function picture(name: string): Promise<void> {
    await editor.page.mouse.move(200, 18)
    await sleep(3_000) // what is done ahead of the next key is over, and nothing turns
    await editor.page.screenshot({ path: path.join(ROOT, 'docs/editors', name) })
}

try {
    const name = realModel('auto') === undefined ? 'wheels:smollm2' : 'auto' // by its name, for that is shown
    editor.server.real(name)
    await editor.open()
    await editor.page.setViewportSize({ width: 1000, height: 560 })
    await editor.untilStatus('Ready to load the model')
    await editor.openFile('words.py')
    await editor.page.keyboard.press('Control+B')
    await editor.page.mouse.move(200, 18) // over a suggestion, or below the text, it opens the editor's toolbar
    await editor.type('c')
    await editor.untilGhost()
    await editor.untilStatus('Ready.')
    await picture('vscode.png')
    await editor.page.keyboard.press('Backspace')
    for (const text of TYPED) {
        await editor.type(text, 150)
        await sleep(1_200)
        if ((await editor.ghostText()) !== '') {
            await editor.page.keyboard.press('Control+ArrowRight')
        }
    }
    await editor.page.setViewportSize({ width: 1000, height: 1100 })
    await editor.command('fastcoder: Show How the Last Suggestion Was Made')
    await editor.webview('pre.code')
    await editor.command('View: Toggle Maximize Editor Group')
    await editor.page.setViewportSize({ width: 1000, height: 480 })
    await picture('vscode-trace.png')
    await editor.page.setViewportSize({ width: 1000, height: 1100 })
    await editor.page.keyboard.press('Control+W')
    await editor.command('fastcoder: Show Statistics')
    await editor.webview('figure svg')
    await editor.command('View: Toggle Maximize Editor Group')
    await picture('vscode-statistics.png')
} finally {
    await editor.close()
    editor.remove()
}
