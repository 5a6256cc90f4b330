/** "Why no suggestion?": what the server knows of the silence of the document that the user looks at. */

import * as vscode from 'vscode'

import type { Supervisor } from './server/supervisor.ts'
import { readWhy } from './shared/protocol.ts'
import { present } from './shared/presentation.ts'
import { switches } from './switches.ts'

/** Tell it in a dialog that waits for the user: a notification shows one line. */
export async function why(server: Supervisor): Promise<void> {
    const [question, ...rest] = (await explanation(server)).split('\n')
    await vscode.window.showInformationMessage(`fastcoder: ${question ?? ''}`, { modal: true, detail: rest.join('\n') })
}

/** What the editor itself can tell comes first: no server, no document, or its own suggestions switched off. */
async function explanation(server: Supervisor): Promise<string> {
    if (server.condition.kind !== 'running') {
        return present(server.condition, switches()).lines.join('\n')
    }
    const document = vscode.window.activeTextEditor?.document
    if (document === undefined) {
        return 'No file is open. Open one and type.'
    }
    const uri = server.uriOf(document)
    const told = readWhy(await server.request('fastcoder/why', { textDocument: { uri } })) ?? 'The server gives no reason.'
    const shows = vscode.workspace.getConfiguration('editor.inlineSuggest', document).get<boolean>('enabled', true)
    return shows ? told : `The editor hides all suggestions. Turn on the setting editor.inlineSuggest.enabled.\n${told}`
}
