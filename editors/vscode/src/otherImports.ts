/**
 * Asks the editor's other extensions whether they offer to import what a next edit would: a code action of theirs says it
 * already, and comes first. Ours is no code action, so that nobody asks us.
 */

import * as path from 'node:path'

import * as vscode from 'vscode'

import { type ImportedName } from './shared/edits.ts'
import { areOffered, type OfferedAction } from './shared/imports.ts'

/** For all answers: what comes later is not waited for. */
const ANSWER_MS = 300
/** Code actions of one name whose edits are asked for. */
const RESOLVED = 8

export class OtherImports implements vscode.Disposable {
    /** The endings of files that somebody reports problems of, or that there are none. */
    private readonly endings = new Set<string>()
    private readonly subscription = vscode.languages.onDidChangeDiagnostics(({ uris }) => {
        for (const uri of uris) {
            this.endings.add(endingOf(uri))
        }
    })

    dispose(): void {
        this.subscription.dispose()
    }

    /** Whether somebody offers to import one of the names, which a document uses. */
    async offer({ uri }: vscode.TextDocument, names: readonly ImportedName[]): Promise<boolean> {
        const actions = async (name: ImportedName, kind: string): Promise<OfferedAction[]> => await actionsAt(uri, name, kind)
        const onReport = this.endings.has(endingOf(uri)) ? (listener: () => void) => reportsOf(uri, listener) : undefined
        return names.length > 0 && (await areOffered(names, { actions, onReport }, ANSWER_MS))
    }
}

function endingOf(uri: vscode.Uri): string {
    return path.posix.extname(uri.path)
}

/** Listen to reports of a document's problems; the function returned ends it. */
function reportsOf(document: vscode.Uri, listener: () => void): () => void {
    const subscription = vscode.languages.onDidChangeDiagnostics(({ uris }) => {
        if (uris.some((uri) => uri.toString() === document.toString())) {
            listener()
        }
    })
    return () => {
        subscription.dispose()
    }
}

async function actionsAt(uri: vscode.Uri, { start, end }: ImportedName, kind: string): Promise<OfferedAction[]> {
    const range = new vscode.Range(start.line, start.character, end.line, end.character)
    const command = 'vscode.executeCodeActionProvider'
    const found = await vscode.commands.executeCommand<(vscode.CodeAction | vscode.Command)[] | undefined>(command, uri, range, kind, RESOLVED)
    return (found ?? []).map(asOffered)
}

function asOffered(action: vscode.CodeAction | vscode.Command): OfferedAction {
    const { title } = action
    if (typeof action.command === 'string') {
        return { title, kind: '', texts: undefined, hasCommand: true }
    }
    const { edit, kind, command } = action as vscode.CodeAction
    const texts = edit?.entries().flatMap(([, edits]) => edits.map(({ newText }) => newText))
    return { title, kind: kind?.value ?? '', texts, hasCommand: command !== undefined }
}
