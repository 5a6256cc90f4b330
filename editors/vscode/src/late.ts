/**
 * A suggestion that came to nothing because the model was still being loaded is asked for again once it is.
 *
 * The editor itself asks only when something is typed.
 */

import * as vscode from 'vscode'

import type { Condition } from './shared/condition.ts'
import type { Outcome } from './shared/history.ts'

export class LateSuggestions {
    private missed: { readonly uri: string; readonly version: number } | undefined

    /** A request for a document was answered. */
    answered(outcome: Outcome, uri: vscode.Uri, condition: Condition): void {
        const document = vscode.window.activeTextEditor?.document
        if (outcome === 'shown') {
            this.missed = undefined
        } else if (isLoading(condition) && document?.uri.toString() === uri.toString()) {
            this.missed = { uri: uri.toString(), version: document.version }
        }
    }

    /** The condition changed; when the model is there, and nothing was typed since, ask. */
    follow(condition: Condition): void {
        if (this.missed === undefined || isLoading(condition)) {
            return
        }
        const { uri, version } = this.missed
        this.missed = undefined
        const document = vscode.window.activeTextEditor?.document
        const ready = condition.kind === 'running' && condition.status.state === 'ready'
        if (ready && document?.uri.toString() === uri && document.version === version) {
            // As if typed: an explicit question makes the server look for alternatives, too.
            void vscode.commands.executeCommand('editor.action.inlineSuggest.trigger', { explicit: false })
        }
    }
}

function isLoading(condition: Condition): boolean {
    return condition.kind === 'running' && condition.status.state === 'loading'
}
