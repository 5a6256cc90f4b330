/**
 * Next edits: changes that the server proposes for a place further on. The editor's own are closed to published extensions,
 * so decorations show them: what goes is struck out, what comes stands behind it. One key goes there, and again makes it.
 *
 * There is one at a time. Ghost text comes first: while the editor shows some, its keys are its own, and nothing is asked.
 */

import * as path from 'node:path'

import * as vscode from 'vscode'

import { OtherImports } from './otherImports.ts'
import { asDiff, distance, type Edit, hintOf, inOneLine, nearest, type Proposal, readProposal } from './shared/edits.ts'

/** Without a key. */
const IDLE_MS = 200
/** Lines around an edit where the key makes it without going there. */
const NEAR = 2
/** Lines that the cursor may go away from it. */
const FAR = 30
/** For keybindings: whether an edit is shown, or a hint to one. */
const CONTEXT = 'fastcoder.editVisible'

/** What is needed of the server. */
export interface Server {
    readonly proposesEdits: boolean
    request(method: string, params: unknown, token?: vscode.CancellationToken): Promise<unknown>
    notify(method: string, params: unknown): boolean
    uriOf(document: vscode.TextDocument): string
}

interface Shown {
    readonly proposal: Proposal
    /** Of the document that it changes, once that is open. */
    readonly uri: vscode.Uri
    /** How many lines away from it the cursor may go. */
    reach: number
}

export class NextEdits implements vscode.Disposable {
    private readonly subscriptions: vscode.Disposable[]
    private readonly deleted = vscode.window.createTextEditorDecorationType({
        textDecoration: 'line-through',
        backgroundColor: new vscode.ThemeColor('diffEditor.removedTextBackground'),
    })
    private readonly inserted = vscode.window.createTextEditorDecorationType({ rangeBehavior: vscode.DecorationRangeBehavior.ClosedClosed })
    private readonly hint = vscode.window.createTextEditorDecorationType({ rangeBehavior: vscode.DecorationRangeBehavior.ClosedClosed })
    private readonly others = new OtherImports()
    private timer: NodeJS.Timeout | undefined
    private open: vscode.CancellationTokenSource | undefined
    private shown: Shown | undefined
    /** Where ghost text was answered last, by document and version. */
    private ghost = ''
    /** Whether our own key moves the cursor, or changes the text. */
    private acting = false

    constructor(private readonly server: Server) {
        this.subscriptions = [
            vscode.workspace.onDidChangeTextDocument(({ document, contentChanges }) => {
                if (contentChanges.length > 0) {
                    this.changed(document)
                }
            }),
            vscode.window.onDidChangeActiveTextEditor(() => {
                if (!this.acting) {
                    this.clear()
                }
            }),
            vscode.window.onDidChangeTextEditorSelection(({ textEditor }) => {
                this.moved(textEditor)
            }),
            vscode.window.onDidChangeTextEditorVisibleRanges(({ textEditor }) => {
                this.moved(textEditor)
            }),
        ]
    }

    dispose(): void {
        this.clear()
        for (const one of [...this.subscriptions, this.others, this.deleted, this.inserted, this.hint]) {
            one.dispose()
        }
    }

    /** Ghost text was answered at a place: it comes first. */
    suggested(isShown: boolean, document: vscode.TextDocument): void {
        this.ghost = isShown ? keyOf(document) : ''
        if (isShown && vscode.window.activeTextEditor?.document === document) {
            this.clear()
        }
    }

    /** Ask now; whether edits are proposed here. */
    async ask(byKey: boolean): Promise<boolean> {
        const editor = vscode.window.activeTextEditor
        if (editor === undefined || !this.server.proposesEdits || editor.selections.length > 1) {
            return false
        }
        const { document } = editor
        if (!byKey && this.ghost === keyOf(document)) {
            return false
        }
        this.clear()
        const source = new vscode.CancellationTokenSource()
        this.open = source
        const { line, character } = editor.selection.active
        const asked = keyOf(document)
        const params = {
            textDocument: { uri: this.server.uriOf(document), version: document.version },
            position: { line, character },
            context: { triggerKind: byKey ? 1 : 2 },
        }
        let answer: unknown
        try {
            answer = await this.server.request('textDocument/copilotInlineEdit', params, source.token)
        } catch {
            return true // the server ends, or has been asked again
        }
        const proposal = this.open === source ? readProposal(answer) : undefined
        const isOffered = proposal !== undefined && !byKey && (await this.others.offer(document, proposal.imports))
        if (this.open !== source) {
            return true
        }
        this.open = undefined
        const isSame = vscode.window.activeTextEditor === editor && keyOf(document) === asked && this.ghost !== asked
        const fits = proposal?.version === undefined || proposal.uri !== params.textDocument.uri || proposal.version === document.version
        if (proposal !== undefined && !isOffered && isSame && fits) {
            this.show(proposal, proposal.uri === params.textDocument.uri ? document.uri : vscode.Uri.parse(proposal.uri), editor)
        } else if (byKey && isSame) {
            void vscode.window.setStatusBarMessage('fastcoder: no edit here', 4_000)
        }
        return true
    }

    /** Go to the edit; where the cursor is there already, make it. */
    async accept(): Promise<void> {
        const [shown, editor] = [this.shown, vscode.window.activeTextEditor]
        if (shown === undefined || editor === undefined) {
            return
        }
        this.acting = true
        try {
            const { line } = editor.selection.active
            const edit = isOf(editor, shown) ? nearest(shown.proposal, line) : undefined
            if (edit !== undefined && isInView(editor, edit) && distance(edit, line) <= NEAR) {
                await this.make(shown, editor)
            } else {
                await this.goTo(shown)
            }
        } finally {
            this.acting = false
        }
    }

    /** Take it away, and tell the server that it was not wanted. */
    reject(): void {
        this.tell('fastcoder/editRejected')
        this.clear()
    }

    /** Show nothing, and want nothing that is still to come. */
    clear(): void {
        clearTimeout(this.timer)
        this.open?.cancel()
        this.open = undefined
        if (this.shown !== undefined) {
            this.shown = undefined
            this.draw()
            void vscode.commands.executeCommand('setContext', CONTEXT, false)
        }
    }

    private changed(document: vscode.TextDocument): void {
        const isActive = vscode.window.activeTextEditor?.document === document
        if (isActive || this.shown?.uri.toString() === document.uri.toString()) {
            this.clear()
        }
        if (isActive && this.server.proposesEdits) {
            this.timer = setTimeout(() => void this.ask(false), IDLE_MS)
        }
    }

    private moved(editor: vscode.TextEditor): void {
        const shown = this.shown
        if (shown === undefined || this.acting || editor !== vscode.window.activeTextEditor) {
            return
        }
        const { line } = editor.selection.active
        const edit = isOf(editor, shown) ? nearest(shown.proposal, line) : undefined
        if (edit !== undefined && distance(edit, line) > shown.reach) {
            this.clear()
        } else {
            this.draw()
        }
    }

    private show(proposal: Proposal, uri: vscode.Uri, editor: vscode.TextEditor): void {
        const { line } = editor.selection.active
        const edit = uri.toString() === editor.document.uri.toString() ? nearest(proposal, line) : undefined
        this.shown = { proposal, uri, reach: FAR + (edit === undefined ? 0 : distance(edit, line)) }
        this.draw()
        void vscode.commands.executeCommand('setContext', CONTEXT, true)
        this.tell('textDocument/didShowInlineEdit')
    }

    private tell(method: string): void {
        for (const { command } of this.shown?.proposal.edits ?? []) {
            if (command !== undefined) {
                this.server.notify(method, { item: { command } })
            }
        }
    }

    private async goTo(shown: Shown): Promise<void> {
        const editor = await vscode.window.showTextDocument(shown.uri)
        const edit = nearest(shown.proposal, editor.selection.active.line)
        if (edit === undefined || this.shown !== shown) {
            return
        }
        const start = editor.document.validatePosition(new vscode.Position(edit.start.line, edit.start.character))
        editor.selection = new vscode.Selection(start, start)
        editor.revealRange(new vscode.Range(start, start), vscode.TextEditorRevealType.InCenterIfOutsideViewport)
        shown.reach = FAR
        this.draw()
    }

    /** Make it, which one undo takes back; the cursor goes to its end. */
    private async make(shown: Shown, editor: vscode.TextEditor): Promise<void> {
        const { edits } = shown.proposal
        const { document } = editor
        this.clear()
        const eol = document.eol === vscode.EndOfLine.CRLF ? '\r\n' : '\n'
        const changes = edits.map((edit) => ({ range: rangeOf(document, edit), text: edit.text.replaceAll(/\r?\n/g, eol) }))
        const grown = changes.reduce((at, { range, text }) => at + text.length - (document.offsetAt(range.end) - document.offsetAt(range.start)), 0)
        const last = document.offsetAt(changes.at(-1)?.range.end ?? editor.selection.active)
        const isMade = await editor.edit(
            (builder) => {
                for (const { range, text } of changes) {
                    builder.replace(range, text)
                }
            },
            { undoStopBefore: true, undoStopAfter: true },
        )
        if (!isMade) {
            return // the text has changed
        }
        const position = document.positionAt(last + grown)
        editor.selection = new vscode.Selection(position, position)
        editor.revealRange(new vscode.Range(position, position))
        for (const { command } of edits) {
            if (command !== undefined) {
                await this.server.request('workspace/executeCommand', command)
            }
        }
    }

    /** Draw what is shown in the active editor, and nothing in the others. */
    private draw(): void {
        for (const editor of vscode.window.visibleTextEditors) {
            const shown = editor === vscode.window.activeTextEditor ? this.shown : undefined
            const edits = shown !== undefined && isOf(editor, shown) ? shown.proposal.edits : []
            editor.setDecorations(this.deleted, edits.map((edit) => rangeOf(editor.document, edit)))
            editor.setDecorations(this.inserted, edits.map((edit) => comes(editor, edit)))
            editor.setDecorations(this.hint, shown === undefined ? [] : hints(editor, shown))
        }
    }
}

function keyOf(document: vscode.TextDocument): string {
    return `${document.version} ${document.uri.toString()}`
}

function isOf(editor: vscode.TextEditor, shown: Shown): boolean {
    return editor.document.uri.toString() === shown.uri.toString()
}

function rangeOf(document: vscode.TextDocument, { start, end }: Edit): vscode.Range {
    return document.validateRange(new vscode.Range(start.line, start.character, end.line, end.character))
}

function isInView(editor: vscode.TextEditor, { start }: Edit): boolean {
    return editor.visibleRanges.some((range) => start.line >= range.start.line && start.line <= range.end.line)
}

/** What an edit inserts, behind what it deletes. */
function comes(editor: vscode.TextEditor, edit: Edit): vscode.DecorationOptions {
    const range = rangeOf(editor.document, edit)
    const tabSize = typeof editor.options.tabSize === 'number' ? editor.options.tabSize : 4
    const message = new vscode.MarkdownString()
    message.appendCodeblock(asDiff(edit, editor.document.getText(range)), 'diff')
    return {
        range: new vscode.Range(range.end, range.end),
        hoverMessage: message,
        renderOptions:
            edit.text === ''
                ? {}
                : {
                      before: {
                          contentText: inOneLine(edit.text, tabSize),
                          backgroundColor: new vscode.ThemeColor('diffEditor.insertedTextBackground'),
                      },
                  },
    }
}

/** Words behind the cursor's line that say where an edit is which one does not see. */
function hints(editor: vscode.TextEditor, shown: Shown): vscode.DecorationOptions[] {
    const { line } = editor.selection.active
    const isHere = isOf(editor, shown)
    const { edits, more } = shown.proposal
    const hidden = isHere ? edits.find((edit) => !isInView(editor, edit)) : edits[0]
    const near = nearest(shown.proposal, line)
    if (hidden === undefined || near === undefined) {
        return []
    }
    const file = isHere ? undefined : { name: path.posix.basename(shown.uri.path), more }
    const end = editor.document.lineAt(line).range.end
    const contentText = `\u00a0\u00a0${hintOf(hidden, line, file, !isHere || !isInView(editor, near))}`.replaceAll(' ', '\u00a0')
    return [{ range: new vscode.Range(end, end), renderOptions: { after: { contentText, color: new vscode.ThemeColor('editorCodeLens.foreground') } } }]
}
