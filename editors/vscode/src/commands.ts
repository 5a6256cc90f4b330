/** The commands: which function each name of `package.json` runs. */

import * as vscode from 'vscode'

import type { NextEdits } from './edits.ts'
import type { FirstSteps } from './firstSteps.ts'
import type { StatisticsPanel, TracePanel } from './panels.ts'
import { installServer, pullModel } from './server/install.ts'
import { locateServer } from './server/places.ts'
import type { Supervisor } from './server/supervisor.ts'
import { missingModel, present } from './shared/presentation.ts'
import { at, readWhy, text } from './shared/protocol.ts'
import { showMenu } from './statusBar.ts'
import { switches, toggle, toggleLanguage, toggleWorkspace } from './switches.ts'

interface Parts {
    readonly edits: NextEdits
    readonly steps: FirstSteps
    readonly statisticsPanel: StatisticsPanel
    readonly tracePanel: TracePanel
}

/** Register them all. */
export function registerCommands(
    context: vscode.ExtensionContext,
    server: Supervisor,
    log: vscode.LogOutputChannel,
    parts: Parts,
): vscode.Disposable[] {
    const editors = (command: string) => () => vscode.commands.executeCommand(command)
    const commands: Readonly<Record<string, () => unknown>> = {
        menu: () => showMenu(server.condition, switches()),
        toggle,
        toggleLanguage,
        toggleWorkspace,
        snooze: () => snooze(server, parts.edits),
        trigger: () => vscode.commands.executeCommand('editor.action.inlineSuggest.trigger', { showNoResultNotification: true }),
        why: () => why(server, log),
        askEdit: async () => {
            if (!(await parts.edits.ask(true))) {
                void vscode.window.setStatusBarMessage('fastcoder: no next edits here; see docs/next-edit.md', 6_000)
            }
        },
        editEverywhere: () => editEverywhere(server),
        acceptEdit: () => parts.edits.accept(),
        rejectEdit: () => { parts.edits.reject(); },
        nextAlternative: editors('editor.action.inlineSuggest.showNext'),
        previousAlternative: editors('editor.action.inlineSuggest.showPrevious'),
        reload: () => reload(server),
        restart: () => server.start(),
        showStatistics: () => { parts.statisticsPanel.show(); },
        showTrace: () => { parts.tracePanel.show(); },
        showLog: () => {
            log.show()
        },
        openSettings: () => vscode.commands.executeCommand('workbench.action.openSettings', `@ext:${context.extension.id}`),
        installServer: async () => {
            if (await installServer(context, log)) {
                await server.start()
            }
        },
        pullModel: () => pull(context, server, log, parts.steps),
        openWalkthrough: () => parts.steps.open(),
    }
    return Object.entries(commands).map(([name, run]) => vscode.commands.registerCommand(`fastcoder.${name}`, run))
}

/** The last change at all its places in the repository: the editor shows a preview before it makes them. */
async function editEverywhere(server: Supervisor): Promise<void> {
    const editor = vscode.window.activeTextEditor
    if (editor === undefined || !server.proposesEdits) {
        void vscode.window.setStatusBarMessage('fastcoder: no next edits here; see docs/next-edit.md', 6_000)
        return
    }
    const { document, selection } = editor
    const { line, character } = selection.active
    const params = { textDocument: { uri: server.uriOf(document), version: document.version }, position: { line, character } }
    const offer = await server.request('fastcoder/editsElsewhere', params)
    const id = text(at(offer, 'id'))
    if (id === '') {
        void vscode.window.setStatusBarMessage(`fastcoder: ${text(at(offer, 'message'))}`, 6_000)
    } else {
        await server.command('fastcoder.applyEdits', id)
    }
}

/** For some minutes nothing is shown that was not asked for by the key; the server says so. */
async function snooze(server: Supervisor, edits: NextEdits): Promise<void> {
    const minutes = [5, 15, 30, 60, 240]
    const entries = [...minutes.map((many) => ({ label: `${many} minutes`, many })), { label: 'End the snooze', many: 0 }]
    const chosen = await vscode.window.showQuickPick(entries, { title: 'fastcoder', placeHolder: 'Show no suggestions for' })
    if (chosen !== undefined) {
        await server.command('fastcoder.snooze', chosen.many)
        edits.clear()
        await vscode.commands.executeCommand('editor.action.inlineSuggest.hide')
    }
}

/** The server reads settings and model anew; where none runs, one is started, which does the same. */
async function reload(server: Supervisor): Promise<void> {
    await (server.condition.kind === 'running' ? server.command('fastcoder.reload') : server.start())
}

/** Fetch the model that is missing, or the one that is set. */
async function pull(
    context: vscode.ExtensionContext,
    server: Supervisor,
    log: vscode.LogOutputChannel,
    steps: FirstSteps,
): Promise<void> {
    const condition = server.condition
    const program = condition.kind === 'running' ? condition.program : (await locateServer(context))?.program
    if (program === undefined) {
        await vscode.commands.executeCommand('fastcoder.installServer')
        return
    }
    const asked = condition.kind === 'running' ? missingModel(condition.status) : undefined
    const name = asked ?? vscode.workspace.getConfiguration('fastcoder').get('model', '')
    if (await pullModel(program, name, log)) {
        steps.downloaded()
        await reload(server)
    }
}

/** Why there is no suggestion: the reason and what to do in a notification, everything in the log. */
async function why(server: Supervisor, log: vscode.LogOutputChannel): Promise<void> {
    const lines = (await explanation(server)).split('\n')
    log.info(lines.join('\n'))
    const all = 'Show All'
    const buttons = lines.length > 2 ? [all] : []
    if (await vscode.window.showInformationMessage(`fastcoder: ${lines.slice(0, 2).join(' ')}`, ...buttons) === all) {
        log.show(true)
    }
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
