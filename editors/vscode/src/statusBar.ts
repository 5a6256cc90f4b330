/** The item in the status bar: one glance says how the server is, a click says what can be done. */

import * as vscode from 'vscode'

import type { Condition } from './shared/condition.ts'
import { menu, present, type Switches } from './shared/presentation.ts'

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
