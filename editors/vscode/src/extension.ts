/** The extension's start and end: makes the parts and wires them. */

import * as os from 'node:os'

import * as vscode from 'vscode'

import { registerCommands } from './commands.ts'
import { Cursor } from './cursor.ts'
import { Definitions } from './definitions.ts'
import { NextEdits } from './edits.ts'
import { firstSteps } from './firstSteps.ts'
import { LateSuggestions } from './late.ts'
import { Notices, StatusBar } from './statusBar.ts'
import { StatisticsPanel, TracePanel } from './panels.ts'
import { locateServer } from './server/places.ts'
import { Supervisor } from './server/supervisor.ts'
import { Updates } from './server/install.ts'
import { switches } from './switches.ts'

/** What `deactivate` has to stop: VS Code hands it nothing. */
let supervisor: Supervisor | undefined

export async function activate(context: vscode.ExtensionContext): Promise<void> {
    const log = vscode.window.createOutputChannel('fastcoder', { log: true })
    const steps = firstSteps(context)
    const late = new LateSuggestions(context.extension.id, (document) => server.provider(document))
    const server: Supervisor = new Supervisor(
        () => locateServer(context),
        log,
        os.homedir(),
        {
            suggested: (outcome, ms, document, position, question) => {
                statisticsPanel.suggested(outcome, ms)
                late.answered(outcome, document, position, question, server.condition)
                if (outcome !== 'cancelled') {
                    edits.suggested(outcome === 'shown', document)
                }
                if (outcome === 'shown') {
                    steps.suggested()
                    tracePanel.suggested(document.uri)
                }
            },
            asking: (document, position, question) => late.asIfTyped(document, position, question),
            late: (place) => void late.told(place),
        },
    )
    supervisor = server
    const statusBar = new StatusBar()
    const notices = new Notices()
    const updates = new Updates(context)
    const tracePanel = new TracePanel(context.extensionUri, server)
    const definitions = new Definitions(
        () => server.wantsDefinitions,
        (document, found) => {
            const textDocument = { uri: server.uriOf(document), version: document.version }
            return server.notify('fastcoder/definitions', { textDocument, definitions: found })
        },
    )
    const cursor = new Cursor((document, { line, character }) => {
        const textDocument = { uri: server.uriOf(document), version: document.version }
        return server.notify('fastcoder/cursor', { textDocument, position: { line, character } })
    })
    const edits = new NextEdits(server)
    const statisticsPanel = new StatisticsPanel(context.extensionUri, server)
    const show = (): void => {
        statusBar.show(server.condition, switches())
    }
    context.subscriptions.push(
        log,
        server,
        late,
        edits,
        cursor,
        definitions,
        statusBar,
        statisticsPanel,
        tracePanel,
        server.onChange((condition) => {
            show()
            steps.follow(condition)
            late.follow(condition)
            if (condition.kind === 'starting' || condition.kind === 'restarting') {
                definitions.forget()
            }
            if (condition.kind !== 'running' || condition.status.state === 'off') {
                edits.clear()
            }
            notices.tell(condition)
            updates.follow(condition)
            if (condition.kind === 'running' && (condition.status.state === 'ready' || condition.status.state === 'off')) {
                notices.forget()
            }
        }),
        vscode.window.onDidChangeActiveTextEditor(show),
        vscode.workspace.onDidOpenTextDocument(show), // a document's language changes by closing and opening it
        vscode.workspace.onDidChangeConfiguration((event) => {
            show()
            if (event.affectsConfiguration('fastcoder')) {
                edits.clear() // they may be off now, here or everywhere
            }
            if (event.affectsConfiguration('fastcoder.server.path')) {
                void server.start()
            }
        }),
        vscode.workspace.onDidGrantWorkspaceTrust(() => {
            if (server.condition.kind === 'missing') {
                void server.start()
            }
        }),
        ...registerCommands(context, server, log, { steps, statisticsPanel, tracePanel, edits }),
    )
    show()
    await server.start()
}

export async function deactivate(): Promise<void> {
    await supervisor?.stop()
}
