/** Turning suggestions on and off, by the settings: for all, for a workspace, for a language. */

import * as vscode from 'vscode'

import { explicitValue } from './configuration.ts'
import { SERVER_SETTINGS } from './generated/settings.ts'
import type { Switches } from './shared/presentation.ts'

/** Whether suggestions are on for what the user looks at. */
export function switches(): Switches {
    const document = activeDocument()
    const language = document?.languageId
    const include = setting(document, 'languages.include') as string[]
    const exclude = setting(document, 'languages.exclude') as string[]
    const languageEnabled =
        language === undefined || ((include.length === 0 || include.includes(language)) && !exclude.includes(language))
    return { enabled: setting(document, 'enabled') as boolean, language, languageEnabled }
}

/** Everywhere, in the user's settings. Where the workspace keeps them off, say so. */
export async function toggle(): Promise<void> {
    const configuration = vscode.workspace.getConfiguration('fastcoder', activeDocument())
    const on = !switches().enabled
    await configuration.update('enabled', on ? undefined : false, vscode.ConfigurationTarget.Global)
    if (on && !switches().enabled) {
        const button = 'Turn On Here'
        const text = "fastcoder: suggestions stay off here, because the workspace's settings turn them off."
        if ((await vscode.window.showInformationMessage(text, button)) === button) {
            await toggleWorkspace()
        }
    }
}

/** In this workspace alone, in its settings. They can turn off what the user has on, not on what the user has off. */
export async function toggleWorkspace(): Promise<void> {
    const configuration = vscode.workspace.getConfiguration('fastcoder', activeDocument())
    const set = configuration.inspect<boolean>('enabled')
    if (set?.workspaceFolderValue === false) {
        await configuration.update('enabled', undefined, vscode.ConfigurationTarget.WorkspaceFolder)
    }
    if (set?.workspaceValue === false) {
        await configuration.update('enabled', undefined, vscode.ConfigurationTarget.Workspace)
    }
    if (set?.workspaceFolderValue !== false && set?.workspaceValue !== false) {
        if (set?.globalValue === false) {
            const button = 'Turn On Everywhere'
            const text = 'fastcoder: your user settings turn suggestions off everywhere.'
            if ((await vscode.window.showInformationMessage(text, button)) === button) {
                await toggle()
            }
            return
        }
        await configuration.update('enabled', false, vscode.ConfigurationTarget.Workspace)
    }
}

/** For the language of the active editor, in the user's settings. */
export async function toggleLanguage(): Promise<void> {
    const { language, languageEnabled } = switches()
    if (language === undefined) {
        return
    }
    const configuration = vscode.workspace.getConfiguration('fastcoder')
    const own = (name: string): string[] => configuration.inspect<string[]>(name)?.globalValue ?? []
    const without = (names: string[]): string[] => names.filter((name) => name !== language)
    const write = async (name: string, names: string[]): Promise<void> => {
        await configuration.update(name, names.length > 0 ? names : undefined, vscode.ConfigurationTarget.Global)
    }
    if (languageEnabled) {
        await write('languages.exclude', [...own('languages.exclude'), language])
        return
    }
    await write('languages.exclude', without(own('languages.exclude')))
    if (own('languages.include').length > 0 && !own('languages.include').includes(language)) {
        await write('languages.include', [...own('languages.include'), language])
    }
    if (!switches().languageEnabled) {
        void vscode.window.showInformationMessage(
            `fastcoder: suggestions stay off for ${language}, because the workspace's settings turn them off.`,
        )
    }
}

function activeDocument(): vscode.TextDocument | undefined {
    return vscode.window.activeTextEditor?.document
}

/** The value that the server is told, or else the default. */
function setting(scope: vscode.TextDocument | undefined, name: string): unknown {
    const spec = SERVER_SETTINGS.find((candidate) => candidate.name === name)
    if (spec === undefined) {
        throw new Error(`no setting ${name}`)
    }
    const inspected = vscode.workspace.getConfiguration('fastcoder', scope).inspect(name)
    return explicitValue(spec, inspected ?? {}) ?? spec.default
}
