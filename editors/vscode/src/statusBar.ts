/** What the user is told: the item in the status bar, the menu behind it, and notifications. */

import * as vscode from 'vscode'

import { type Condition, menu, missingModel, present, type Switches } from './shared/presentation.ts'

const COLOURS = {
    normal: undefined,
    warning: new vscode.ThemeColor('statusBarItem.warningBackground'),
    error: new vscode.ThemeColor('statusBarItem.errorBackground'),
}

export class StatusBar implements vscode.Disposable {
    private readonly item = vscode.window.createStatusBarItem('fastcoder.status', vscode.StatusBarAlignment.Right, 100)

    constructor() {
        this.item.name = 'fastcoder'
        this.item.command = 'fastcoder.menu'
    }

    show(condition: Condition, switches: Switches): void {
        const { text, lines, severity } = present(condition, switches)
        this.item.text = text
        this.item.tooltip = `fastcoder\n${lines.join('\n')}`
        this.item.backgroundColor = COLOURS[severity]
        this.item.accessibilityInformation = { label: `fastcoder: ${lines.join(' ')}` }
        this.item.show()
    }

    dispose(): void {
        this.item.dispose()
    }
}

/** The menu behind the item. */
export async function showMenu(condition: Condition, switches: Switches): Promise<void> {
    const { lines } = present(condition, switches)
    const entries = menu(condition, switches)
    const chosen = await vscode.window.showQuickPick(entries, { title: 'fastcoder', placeHolder: lines.join(' ') })
    if (chosen !== undefined) {
        await vscode.commands.executeCommand(`fastcoder.${chosen.action}`)
    }
}

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
