/**
 * A suggestion that came too late for its own question is asked for again once it is there: the server says so
 * (`fastcoder/late`), or the model has been loaded meanwhile. The editor itself asks only when something is typed.
 *
 * The editor takes a question "as if typed" at a place where it has asked already for answered, whatever the answer was.
 * So it is made to ask our provider explicitly, which it does at once; the server is told that it is as if typed, for an
 * explicit question makes it look for alternatives, too. What is shown stays before what such a question brings: where it
 * was a beginning, the editor is made to go on to the next one, which is the same and longer.
 */

import * as vscode from 'vscode'

import type { Condition } from './shared/condition.ts'
import type { Outcome } from './shared/history.ts'
import type { LatePlace } from './shared/protocol.ts'

export class LateSuggestions {
    private missed: { readonly uri: string; readonly version: number } | undefined
    /** Where we make the editor ask, and whether it did. */
    private asking: { readonly place: Place; asked: boolean } | undefined
    /** Where something is shown, as far as we know: the editor does not tell. */
    private shown: Place | undefined
    private readonly provider: string

    /** @param extensionId by which the editor knows our provider among others. */
    constructor(extensionId: string) {
        this.provider = `${extensionId}:*`
    }

    /** A request was answered. */
    answered(outcome: Outcome, document: vscode.TextDocument, position: vscode.Position, condition: Condition): void {
        if (outcome === 'shown') {
            this.missed = undefined
            this.shown = placeOf(document, position)
        } else if (outcome === 'empty') {
            this.shown = undefined
        }
        if (outcome !== 'shown' && isLoading(condition) && vscode.window.activeTextEditor?.document === document) {
            this.missed = { uri: document.uri.toString(), version: document.version }
        }
    }

    /** The condition changed; when the model is there, and nothing was typed since, ask. */
    follow(condition: Condition): void {
        if (this.missed === undefined || isLoading(condition)) {
            return
        }
        const { uri, version } = this.missed
        this.missed = undefined
        const place = presentPlace()
        if (condition.kind === 'running' && condition.status.state === 'ready' && place?.uri === uri && place.version === version) {
            void this.ask(place)
        }
    }

    /** The server has made what belongs at a place; if the cursor is there still, ask. */
    async told(late: LatePlace): Promise<void> {
        const place = presentPlace()
        if (place === undefined || !same(place, { ...late, uri: vscode.Uri.parse(late.uri).toString() })) {
            return
        }
        const isBeginning = this.shown !== undefined && same(this.shown, place)
        await this.ask(place)
        if (isBeginning) {
            await this.runAsIfTyped(place, 'showNext')
        }
    }

    /** The question that goes to the server in place of the editor's. */
    asIfTyped(
        document: vscode.TextDocument,
        position: vscode.Position,
        context: vscode.InlineCompletionContext,
    ): vscode.InlineCompletionContext {
        if (this.asking === undefined || !same(this.asking.place, placeOf(document, position))) {
            return context
        }
        this.asking.asked = true
        return { ...context, triggerKind: vscode.InlineCompletionTriggerKind.Automatic }
    }

    /** Where the editor takes even that for answered (the user has asked by the key before), it has to forget first. */
    private async ask(place: Place): Promise<void> {
        const trigger = async (): Promise<boolean> =>
            await this.runAsIfTyped(place, 'trigger', { explicit: true, providerId: this.provider })
        if (!(await trigger())) {
            await vscode.commands.executeCommand('editor.action.inlineSuggest.hide')
            await trigger()
        }
    }

    /** Let the editor do something with its suggestions; whether it asked us for that, which is then as if typed. */
    private async runAsIfTyped(place: Place, action: string, ...args: unknown[]): Promise<boolean> {
        const asking = { place, asked: false }
        this.asking = asking
        await vscode.commands.executeCommand(`editor.action.inlineSuggest.${action}`, ...args)
        this.asking = undefined
        return asking.asked
    }
}

interface Place {
    readonly uri: string
    readonly version: number
    readonly line: number
    readonly character: number
}

function placeOf(document: vscode.TextDocument, position: vscode.Position): Place {
    return { uri: document.uri.toString(), version: document.version, line: position.line, character: position.character }
}

/** Where the cursor is; undefined where nothing can be suggested: no editor, or a selection. */
function presentPlace(): Place | undefined {
    const editor = vscode.window.activeTextEditor
    return editor?.selection.isEmpty === true ? placeOf(editor.document, editor.selection.active) : undefined
}

function same(first: Place, second: Place): boolean {
    return (
        first.uri === second.uri &&
        first.version === second.version &&
        first.line === second.line &&
        first.character === second.character
    )
}

function isLoading(condition: Condition): boolean {
    return condition.kind === 'running' && condition.status.state === 'loading'
}
