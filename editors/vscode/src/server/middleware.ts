/** What stands between the editor and the server: our reading of the settings, and the watch on every suggestion. */

import * as vscode from 'vscode'
import type { Middleware } from 'vscode-languageclient/node'

import type { Outcome } from '../shared/history.ts'

/** Told how a request for a suggestion ended, and after how many milliseconds. */
export type OnSuggested = (outcome: Outcome, ms: number, uri: vscode.Uri) => void

/** @param settingsOf what the server is told of a folder's settings. */
export function middleware(
    settingsOf: (scope: vscode.Uri | undefined) => Record<string, unknown>,
    onSuggested: OnSuggested,
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
            const answer = await next(document, position, context, token)
            const items = answer === null || answer === undefined ? [] : Array.isArray(answer) ? answer : answer.items
            const outcome = token.isCancellationRequested ? 'cancelled' : items.length > 0 ? 'shown' : 'empty'
            onSuggested(outcome, performance.now() - start, document.uri)
            return answer
        },
    }
}
