/** Takes the pictures of docs/editors/vscode.md; `scripts/test-vscode --pictures` puts them there, the tests compare them. */

import { readFileSync } from 'node:fs'
import * as path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { realModel, ROOT } from './server.ts'
import { Workbench } from './workbench.ts'

export const DOCS = path.join(ROOT, 'docs/editors')
export const NAMES = ['vscode.png', 'vscode-trace.png', 'vscode-statistics.png'] as const
export const LOOKS = {
    'workbench.activityBar.location': 'hidden',
    'workbench.sideBar.location': 'right',
    'editor.fontSize': 15,
    'editor.scrollbar.vertical': 'hidden', // it is shown for a while after each movement
}
export const FILES = {
    'words.py': `from collections import Counter
from pathlib import Path


def count_words(path: Path) -> Counter[str]:
    """How often each word occurs in a file."""
    return Counter(path.read_text().split())


def longest_words(path: Path, most: int = 10) -> list[str]:
    """The longest words of a file, the longest first."""
    words = `,
}
/** What is typed between the first picture and the others, for their sake. */
const TYPED = ['count_words(path)\n', 'return sorted(', 'words', ', key=', 'len', ', reverse=True)']

type Box = Readonly<Record<'x' | 'y' | 'width' | 'height', number>>

/**
 * Take all pictures, with the file `words.py` before the editor.
 *
 * @param folder has them then.
 * @param typed see `TYPED`.
 * @returns where ghost text begins in the first one.
 */
export async function takePictures(editor: Workbench, folder: string, typed: readonly string[]): Promise<Box> {
    const picture = async (name: (typeof NAMES)[number]): Promise<void> => {
        await editor.page.mouse.move(200, 18) // over a suggestion, or below the text, it opens the editor's toolbar
        await editor.untilStatus('Ready.')
        if (typed.length > 0) {
            await sleep(3_000) // what is done ahead of the next key is over, and nothing turns
        }
        await editor.page.screenshot({ path: path.join(folder, name) })
    }
    await editor.page.setViewportSize({ width: 1000, height: 560 })
    await editor.openFile('words.py')
    await editor.page.mouse.move(200, 18)
    await editor.type('c')
    await editor.untilGhost()
    const ghost = await editor.page.locator('.monaco-editor [class*="ghost-text-decoration"]').first().boundingBox()
    await picture('vscode.png')
    await editor.page.keyboard.press('Backspace')
    for (const text of typed) {
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
    return ghost ?? { x: 0, y: 0, width: 0, height: 0 }
}

/** The size of a picture, and of each colour the share of its area, or of a box within it. */
export async function colours(editor: Workbench, file: string, within?: Box): Promise<{ size: string; shares: Record<string, number> }> {
    const page = await editor.blankPage()
    const address = `data:image/png;base64,${readFileSync(file).toString('base64')}`
    const found = await page.evaluate(
        async ({ address, within }) => {
            const image = new Image()
            image.src = address
            await image.decode()
            const context = new OffscreenCanvas(image.width, image.height).getContext('2d')
            context?.drawImage(image, 0, 0)
            const { x, y, width, height } = within ?? { x: 0, y: 0, width: image.width, height: image.height }
            const data = context?.getImageData(x, y, width, height).data ?? []
            const shares: Record<string, number> = {}
            for (let at = 0; at < data.length; at += 4) {
                const colour = `${data[at]},${data[at + 1]},${data[at + 2]}`
                shares[colour] = (shares[colour] ?? 0) + 4 / data.length
            }
            return { size: `${image.width}×${image.height}`, shares }
        },
        { address, within },
    )
    await page.close()
    return found
}

if (import.meta.main) {
    const editor = new Workbench({ files: FILES, settings: LOOKS })
    try {
        editor.server.real(realModel('auto') === undefined ? 'wheels:smollm2' : 'auto') // by its name, for that is shown
        await editor.open()
        await editor.untilStatus('Ready to load the model')
        await editor.page.keyboard.press('Control+B')
        await takePictures(editor, DOCS, TYPED)
        console.log(NAMES.map((name) => path.join('docs/editors', name)).join('\n'))
    } finally {
        await editor.close()
        editor.remove()
    }
}
