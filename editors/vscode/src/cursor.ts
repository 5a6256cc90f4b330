/** Tells the server where the cursor rests (`fastcoder/cursor`), so that it prepares a suggestion for that place. */

import * as vscode from 'vscode'

/** Without a key or a move. */
const REST_MS = 400

/** Tells the server; whether it runs. */
export type TellCursor = (document: vscode.TextDocument, position: vscode.Position) => boolean

export class Cursor implements vscode.Disposable {
    private readonly subscription: vscode.Disposable
    private timer: NodeJS.Timeout | undefined

    constructor(private readonly tell: TellCursor) {
        this.subscription = vscode.window.onDidChangeTextEditorSelection(({ textEditor }) => {
            clearTimeout(this.timer)
            const { version } = textEditor.document
            this.timer = setTimeout(() => {
                this.tellOf(textEditor, version)
            }, REST_MS)
        })
    }

    dispose(): void {
        clearTimeout(this.timer)
        this.subscription.dispose()
    }

    /** Nothing after a change of the text: it brings a request for a suggestion, or another move. */
    private tellOf(editor: vscode.TextEditor, version: number): void {
        const { document, selections } = editor
        if (editor !== vscode.window.activeTextEditor || document.version !== version || selections.length !== 1 || !editor.selection.isEmpty) {
            return
        }
        if (document.uri.scheme === 'file' || document.uri.scheme === 'untitled') {
            this.tell(document, editor.selection.active)
        }
    }
}
