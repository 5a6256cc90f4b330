/** What the user is told in a notification, each thing once: the status bar goes on saying it. */

import * as vscode from 'vscode'

import { missingModel, type Condition } from './shared/condition.ts'

interface Notice {
    readonly text: string
    readonly buttons: Readonly<Record<string, string>>
}

export class Notices {
    private readonly told = new Set<string>()

    /** Tell what is wrong, with what to do about it, unless it was told already. */
    tell(condition: Condition): void {
        const notice = noticeOf(condition)
        if (notice === undefined || this.told.has(notice.text)) {
            return
        }
        this.told.add(notice.text)
        void show(notice)
    }

    /** It is well again: the same trouble, should it come back, is news. */
    forget(): void {
        this.told.clear()
    }
}

async function show(notice: Notice): Promise<void> {
    const chosen = await vscode.window.showWarningMessage(`fastcoder: ${notice.text}`, ...Object.keys(notice.buttons))
    const command = chosen === undefined ? undefined : notice.buttons[chosen]
    if (command !== undefined) {
        await vscode.commands.executeCommand(command)
    }
}

function noticeOf(condition: Condition): Notice | undefined {
    if (condition.kind === 'missing') {
        const buttons = { Install: 'fastcoder.installServer', 'Get Started': 'fastcoder.openWalkthrough' }
        return { text: 'The server fastcoder-lsp is not installed.', buttons }
    }
    if (condition.kind === 'failed') {
        const repair = condition.repairable ? { Repair: 'fastcoder.installServer' } : {}
        const buttons = { Restart: 'fastcoder.restart', ...repair, 'Show Log': 'fastcoder.showLog' }
        return { text: condition.message, buttons }
    }
    if (condition.kind === 'running' && condition.status.state === 'error') {
        const { message, hint } = condition.status
        return missingModel(condition.status) === undefined
            ? { text: `${message} ${hint}`.trim(), buttons: { 'Show Log': 'fastcoder.showLog' } }
            : { text: message, buttons: { 'Download the Model': 'fastcoder.pullModel', 'Get Started': 'fastcoder.openWalkthrough' } }
    }
    return undefined
}
