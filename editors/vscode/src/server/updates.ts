/** The server that this extension has installed follows the extension: a newer one offers to update it, once. */

import * as vscode from 'vscode'

import type { Condition } from '../shared/condition.ts'
import { isOutdated } from './versions.ts'

const INSTALLED_BY = 'serverInstalledBy'
const OFFERED_BY = 'serverUpdateOfferedBy'

/** The server was installed, by this version of the extension. */
export async function installed(context: vscode.ExtensionContext): Promise<void> {
    await context.globalState.update(INSTALLED_BY, versionOf(context))
}

/** Offers the update. Nothing is downloaded unasked: the offer is a question, and later is an answer. */
export class Updates {
    /** @param context keeps which version installed the server, and which has offered to update it. */
    constructor(private readonly context: vscode.ExtensionContext) {}

    /** The condition changed: a server may run that another version has installed. */
    follow(condition: Condition): void {
        if (condition.kind !== 'running') {
            return
        }
        const { globalState } = this.context
        const version = versionOf(this.context)
        if (isOutdated(condition.origin, globalState.get(INSTALLED_BY), globalState.get(OFFERED_BY), version)) {
            void this.offer(version)
        }
    }

    private async offer(version: string): Promise<void> {
        await this.context.globalState.update(OFFERED_BY, version)
        const text = `fastcoder: The installed server belongs to another version of this extension (now ${version}).`
        if ((await vscode.window.showInformationMessage(text, 'Update the Server', 'Later')) === 'Update the Server') {
            await vscode.commands.executeCommand('fastcoder.installServer')
        }
    }
}

function versionOf(context: vscode.ExtensionContext): string {
    return String((context.extension.packageJSON as { version?: unknown }).version)
}
