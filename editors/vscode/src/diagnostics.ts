/**
 * Sends the server the diagnostics of the editor's other extensions for the active document (`fastcoder/diagnostics`),
 * the nearest to the cursor first. Waits until they rest, and sends none of an older text.
 */

import * as vscode from 'vscode'

import { diagnosticsNear, type ToldDiagnostic } from './shared/diagnostics.ts'

/** Without a key or another report. */
const IDLE_MS = 300

/** Tells the server; whether it runs. */
export type TellDiagnostics = (document: vscode.TextDocument, diagnostics: readonly ToldDiagnostic[]) => boolean

export class Diagnostics implements vscode.Disposable {
    private readonly subscriptions: vscode.Disposable[]
    private timer: NodeJS.Timeout | undefined
    /** What was told last. */
    private told = ''

    /** `isOfUse`: whether the server runs, and has a use for diagnostics. */
    constructor(
        private readonly isOfUse: () => boolean,
        private readonly tell: TellDiagnostics,
    ) {
        this.subscriptions = [
            vscode.languages.onDidChangeDiagnostics(({ uris }) => {
                const document = vscode.window.activeTextEditor?.document
                if (document !== undefined && uris.some((uri) => uri.toString() === document.uri.toString())) {
                    this.tellSoon(document)
                }
            }),
            vscode.window.onDidChangeActiveTextEditor((editor) => {
                if (editor !== undefined) {
                    this.tellSoon(editor.document)
                }
            }),
            vscode.workspace.onDidCloseTextDocument(() => {
                this.forget() // so does the server
            }),
        ]
    }

    dispose(): void {
        clearTimeout(this.timer)
        for (const subscription of this.subscriptions) {
            subscription.dispose()
        }
    }

    /** There is another server, which knows nothing. */
    forget(): void {
        this.told = ''
    }

    /** After a report, unless the text changes meanwhile: then another report will follow. */
    private tellSoon(document: vscode.TextDocument): void {
        clearTimeout(this.timer)
        const { version } = document
        this.timer = setTimeout(() => {
            const editor = vscode.window.activeTextEditor
            if (editor?.document === document && document.version === version && document.uri.scheme === 'file' && this.isOfUse()) {
                const found = diagnosticsNear(vscode.languages.getDiagnostics(document.uri), editor.selection.active.line)
                const told = JSON.stringify([document.uri.toString(), found])
                if (told !== this.told && this.tell(document, found)) {
                    this.told = told
                }
            }
        }, IDLE_MS)
    }
}
