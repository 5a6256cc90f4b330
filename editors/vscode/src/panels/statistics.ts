/**
 * The statistics panel: asks the server every two seconds while it is in view, and hands the page what to draw.
 *
 * Owns the history too, which goes on while there is no panel: then the server is asked now and then, after suggestions.
 */

import * as vscode from 'vscode'

import type { Supervisor } from '../server/supervisor.ts'
import { History, type Outcome } from '../shared/history.ts'
import type { StatisticsMessage } from '../shared/messages.ts'
import { readStatistics, type ServerStatistics } from '../shared/protocol.ts'
import { openPage } from './page.ts'

const REFRESH_MS = 2_000
const SAMPLE_MS = 10_000

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
