/**
 * Tells the server where the names near the cursor are defined, as the editor's other extensions say
 * (`fastcoder/definitions`): places alone, which the server reads by its own rules. They are asked while nobody types,
 * a few names at a time, and only where the settings let other files' code go along.
 */

import * as vscode from 'vscode'

import { Asking, type Name, namesNear, type Told } from './shared/definitions.ts'
import { switches } from './switches.ts'

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
    private readonly asking = new Asking()
    private timer: NodeJS.Timeout | undefined
    /** Counts rounds; an answer to an older one comes too late. */
    private round = 0
    /** The line and the text that all was asked for last, and what was told. */
    private asked = ''
    private told = ''

    /** `isOfUse`: whether the server runs, and has a use for definitions. */
    constructor(
        private readonly isOfUse: () => boolean,
        private readonly tell: Tell,
    ) {
        const soon = (): void => {
            this.askSoon()
        }
        this.subscriptions = [
            vscode.window.onDidChangeTextEditorSelection(soon),
            vscode.window.onDidChangeActiveTextEditor(soon),
            vscode.workspace.onDidCloseTextDocument((document) => {
                if (this.asked.startsWith(`${document.uri.toString()} `)) {
                    this.forget() // so does the server
                }
            }),
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
        if (editor?.document.uri.scheme !== 'file' || !this.isOfUse() || !isWanted(editor.document)) {
            return
        }
        const { document } = editor
        const row = editor.selection.active.line
        const place = `${document.uri.toString()} ${document.version} ${row}`
        if (place === this.asked) {
            return
        }
        const round = ++this.round
        const found = await this.asking.definitions({
            language: document.languageId,
            own: document.uri.toString(),
            names: namesIn(document, row),
            ask: (name) => definitionsAt(name, document.uri),
            ms: ANSWER_MS,
            wanted: () => this.round === round,
        })
        if (found === undefined) {
            return
        }
        const told = JSON.stringify([document.uri.toString(), found])
        if (told === this.told || this.tell(document, found)) {
            this.asked = place
            this.told = told
        }
    }
}

/** Whether the settings let other files' code go along with suggestions in the active document, as far as the editor knows. */
function isWanted(document: vscode.TextDocument): boolean {
    const { enabled, languageEnabled } = switches()
    return enabled && languageEnabled && vscode.workspace.getConfiguration('fastcoder', document).get('context.enabled') !== false
}

function namesIn(document: vscode.TextDocument, row: number): Name[] {
    const first = Math.max(row - LINES_ABOVE, 0)
    const last = Math.min(row + LINES_BELOW, document.lineCount - 1)
    const lines = Array.from({ length: last - first + 1 }, (_, line) => document.lineAt(first + line).text)
    return namesNear(lines, first, row, NAMES)
}

/** What the editor's other extensions say; our own server offers no definitions. */
async function definitionsAt(name: Name, uri: vscode.Uri): Promise<unknown> {
    return await vscode.commands.executeCommand('vscode.executeDefinitionProvider', uri, new vscode.Position(name.line, name.character))
}
