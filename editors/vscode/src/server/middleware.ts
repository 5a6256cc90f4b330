/** What stands between the editor and the server: our reading of the settings, and the watch on every suggestion. */

import * as vscode from 'vscode'
import type { Middleware } from 'vscode-languageclient/node'

import type { Outcome } from '../shared/history.ts'
import type { LatePlace } from '../shared/protocol.ts'

/** Who takes part in the suggestions. */
export interface Watcher {
    /** Told how a request for a suggestion ended, what the server was asked, and after how many milliseconds. */
    suggested(
        outcome: Outcome,
        ms: number,
        document: vscode.TextDocument,
        position: vscode.Position,
        context: vscode.InlineCompletionContext,
    ): void
    /** What the server is to be asked in place of the editor's own question. */
    asking(
        document: vscode.TextDocument,
        position: vscode.Position,
        context: vscode.InlineCompletionContext,
    ): vscode.InlineCompletionContext
    /** Told that a suggestion is there which came too late for its question. */
    late(place: LatePlace): void
}

/** @param settingsOf what the server is told of a folder's settings. */
export function middleware(
    settingsOf: (scope: vscode.Uri | undefined) => Record<string, unknown>,
    watcher: Watcher,
): Middleware {
    return {
        workspace: {
            configuration: (params) =>
                params.items.map((item) =>
                    item.section === 'fastcoder'
                        ? settingsOf(item.scopeUri === undefined ? undefined : vscode.Uri.parse(item.scopeUri))
                        : null,
                ),
            // Without values the server asks for them by the above; the client's own values would hold all defaults.
            didChangeConfiguration: async (_sections, next) => {
                await next(undefined)
            },
        },
        provideInlineCompletionItems: async (document, position, context, token, next) => {
            const start = performance.now()
            const question = watcher.asking(document, position, context)
            const answer = await next(document, position, question, token)
            const items = answer === null || answer === undefined ? [] : Array.isArray(answer) ? answer : answer.items
            const outcome = token.isCancellationRequested ? 'cancelled' : items.length > 0 ? 'shown' : 'empty'
            watcher.suggested(outcome, performance.now() - start, document, position, question)
            return answer
        },
    }
}
