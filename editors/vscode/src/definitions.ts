/**
 * Tells the server where the names near the cursor are defined, as the editor's other extensions say
 * (`fastcoder/definitions`): places alone, which the server reads by its own rules. They are asked while nobody types,
 * a few names at a time, and only where the settings let other files' code go along.
 */

import * as vscode from 'vscode'

import { definitionsOf, namesNear, type Told } from './shared/definitions.ts'

/** Without a key or a move. */
const IDLE_MS = 400
/** For all answers of a round: what comes later is not waited for. */
const ANSWER_MS = 2_000
const NAMES = 6
const LINES_ABOVE = 6
const LINES_BELOW = 2

/** Tells the server; whether it runs. */
export type Tell = (document: vscode.TextDocument, definitions: readonly Told[]) => boolean

export class Definitions implements vscode.Disposable {
    private readonly subscriptions: vscode.Disposable[]
    private timer: NodeJS.Timeout | undefined
    /** Counts rounds; an answer to an older one comes too late. */
    private round = 0
    /** The line and the text that all was asked for last, and what was told. */
    private asked = ''
    private told = ''

    constructor(private readonly tell: Tell) {
        const soon = (): void => {
            this.askSoon()
        }
        this.subscriptions = [
            vscode.window.onDidChangeTextEditorSelection(soon),
            vscode.window.onDidChangeActiveTextEditor(soon),
        ]
    }

    dispose(): void {
        this.giveUp()
        for (const subscription of this.subscriptions) {
            subscription.dispose()
        }
    }

    /** There is another server, which knows nothing. */
    forget(): void {
        this.asked = this.told = ''
    }

    private giveUp(): void {
        clearTimeout(this.timer)
        this.round += 1
    }

    private askSoon(): void {
        this.giveUp()
        this.timer = setTimeout(() => void this.ask(), IDLE_MS)
    }

    private async ask(): Promise<void> {
        const editor = vscode.window.activeTextEditor
        if (editor?.document.uri.scheme !== 'file' || !isWanted(editor.document)) {
            return
        }
        const { document } = editor
        const row = editor.selection.active.line
        const place = `${document.uri.toString()} ${document.version} ${row}`
        if (place === this.asked) {
            return
        }
        const round = ++this.round
        const end = Date.now() + ANSWER_MS
        const found: Told[] = []
        // One after the other: the editor cannot be told to give a question up, so that only one may be open.
        for (const name of namesIn(document, row)) {
            const answer = await within(end - Date.now(), definitionsAt(document.uri, name.line, name.character))
            if (this.round !== round) {
                return
            }
            found.push(...definitionsOf(name.name, answer, document.uri.toString()))
        }
        const told = JSON.stringify([document.uri.toString(), found])
        if (told === this.told || this.tell(document, found)) {
            this.asked = place
            this.told = told
        }
    }
}

/** Whether the settings let other files' code go along, as far as the editor knows. */
function isWanted(document: vscode.TextDocument): boolean {
    const settings = vscode.workspace.getConfiguration('fastcoder', document)
    return settings.get('enabled') !== false && settings.get('context.enabled') !== false
}

function namesIn(document: vscode.TextDocument, row: number): ReturnType<typeof namesNear> {
    const first = Math.max(row - LINES_ABOVE, 0)
    const last = Math.min(row + LINES_BELOW, document.lineCount - 1)
    const lines = Array.from({ length: last - first + 1 }, (_, line) => document.lineAt(first + line).text)
    return namesNear(lines, first, row, NAMES)
}

/** What the editor's other extensions say; our own server offers no definitions. */
async function definitionsAt(uri: vscode.Uri, line: number, character: number): Promise<unknown> {
    try {
        return await vscode.commands.executeCommand('vscode.executeDefinitionProvider', uri, new vscode.Position(line, character))
    } catch {
        return undefined // of another extension; it is not ours to report
    }
}

async function within(ms: number, answer: Promise<unknown>): Promise<unknown> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<undefined>((resolve) => {
        timer = setTimeout(() => {
            resolve(undefined)
        }, Math.max(ms, 0))
    })
    try {
        return await Promise.race([answer, late])
    } finally {
        clearTimeout(timer)
    }
}
