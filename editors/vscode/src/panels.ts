/** The two panels beside the editor: statistics, and how the latest suggestion was made. */

import { randomBytes } from 'node:crypto'

import * as vscode from 'vscode'

import type { Supervisor } from './server/supervisor.ts'
import { History, type Outcome, type StatisticsMessage } from './shared/history.ts'
import { readStatistics, type ServerStatistics } from './shared/protocol.ts'
import { readTrace, type Trace, type TraceMessage } from './shared/trace.ts'

/** A panel beside the editor that shows one of our pages. `script`: its name in dist/webview. */
function openPage(extension: vscode.Uri, script: string, title: string): vscode.WebviewPanel {
    const roots = [vscode.Uri.joinPath(extension, 'dist', 'webview'), vscode.Uri.joinPath(extension, 'media')]
    const panel = vscode.window.createWebviewPanel(`fastcoder.${script}`, title, vscode.ViewColumn.Beside, {
        enableScripts: true,
        localResourceRoots: roots,
    })
    panel.iconPath = vscode.Uri.joinPath(extension, 'media', 'icon.png')
    panel.webview.html = html(panel.webview, extension, script, title)
    return panel
}

function html(webview: vscode.Webview, extension: vscode.Uri, script: string, title: string): string {
    const nonce = randomBytes(16).toString('base64')
    const source = webview.asWebviewUri(vscode.Uri.joinPath(extension, 'dist', 'webview', `${script}.js`)).toString()
    const style = webview.asWebviewUri(vscode.Uri.joinPath(extension, 'media', 'pages.css')).toString()
    const policy = `default-src 'none'; style-src ${webview.cspSource}; script-src 'nonce-${nonce}'`
    return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="${style}">
<title>${title}</title>
</head>
<body class="${script}"><main></main><script nonce="${nonce}" src="${source}"></script></body>
</html>`
}

const REFRESH_MS = 2_000
const SAMPLE_MS = 10_000

/**
 * Asks the server every two seconds while it is in view, and hands the page what to draw.
 *
 * Owns the history too, which goes on while there is no panel: then the server is asked now and then, after suggestions.
 */
export class StatisticsPanel implements vscode.Disposable {
    private panel: vscode.WebviewPanel | undefined
    private timer: NodeJS.Timeout | undefined
    private readonly history = new History()
    private sampledAt = 0

    constructor(
        private readonly extension: vscode.Uri,
        private readonly server: Supervisor,
    ) {}

    /** A request for a suggestion was answered. */
    suggested(outcome: Outcome, ms: number): void {
        const now = Date.now()
        this.history.add({ at: now, ms, outcome })
        if (outcome === 'shown' && now - this.sampledAt > SAMPLE_MS) {
            void this.ask()
        }
    }

    /** Open it, or bring it to the front. */
    show(): void {
        if (this.panel !== undefined) {
            this.panel.reveal()
            return
        }
        const panel = openPage(this.extension, 'statistics', 'fastcoder statistics')
        this.panel = panel
        panel.webview.onDidReceiveMessage(() => void this.refresh()) // the page is ready
        panel.onDidDispose(() => {
            this.panel = undefined
            clearInterval(this.timer)
        })
        this.timer = setInterval(() => void this.refresh(), REFRESH_MS)
    }

    dispose(): void {
        this.panel?.dispose()
    }

    private async refresh(): Promise<void> {
        if (this.panel?.visible !== true) {
            return
        }
        const statistics = await this.ask()
        const { requests, acceptance } = this.history
        const message: StatisticsMessage = { statistics, requests, acceptance }
        await this.panel.webview.postMessage(message)
    }

    /** The server's counts; undefined while none runs. */
    private async ask(): Promise<ServerStatistics | undefined> {
        this.sampledAt = Date.now()
        try {
            const statistics = readStatistics(await this.server.request('fastcoder/stats', null))
            const { shown, accepted } = statistics.suggestions
            this.history.sample({ at: this.sampledAt, shown, accepted })
            return statistics
        } catch {
            return undefined
        }
    }
}

/** How the latest suggestion was made, anew after each one while it is in view. */
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
