/** The trace panel: how the latest suggestion was made, anew after each one while it is in view. */

import * as vscode from 'vscode'

import type { Supervisor } from '../server/supervisor.ts'
import type { TraceMessage } from '../shared/messages.ts'
import { readTrace, type Trace } from '../shared/trace.ts'
import { openPage } from './page.ts'

export class TracePanel implements vscode.Disposable {
    private panel: vscode.WebviewPanel | undefined
    private document: vscode.Uri | undefined

    constructor(
        private readonly extension: vscode.Uri,
        private readonly server: Supervisor,
    ) {}

    /** A suggestion was shown in a document. */
    suggested(document: vscode.Uri): void {
        this.document = document
        void this.refresh()
    }

    /** Open it, or bring it to the front. */
    show(): void {
        this.document ??= vscode.window.activeTextEditor?.document.uri
        if (this.panel !== undefined) {
            this.panel.reveal()
            void this.refresh()
            return
        }
        const panel = openPage(this.extension, 'trace', 'How the last suggestion was made')
        this.panel = panel
        panel.webview.onDidReceiveMessage(() => void this.refresh()) // the page is ready
        panel.onDidChangeViewState(() => void this.refresh())
        panel.onDidDispose(() => {
            this.panel = undefined
        })
    }

    dispose(): void {
        this.panel?.dispose()
    }

    private async refresh(): Promise<void> {
        const document = this.document
        if (this.panel?.visible !== true) {
            return
        }
        let trace: Trace | undefined
        try {
            trace = document === undefined ? undefined : readTrace(await this.server.request('fastcoder/trace', { uri: document.toString() }))
        } catch {
            trace = undefined // no server: nothing to show
        }
        const message: TraceMessage = { document: document === undefined ? '' : vscode.workspace.asRelativePath(document), trace }
        await this.panel.webview.postMessage(message)
    }
}
