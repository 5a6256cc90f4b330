/**
 * The server's life in this window: found, started, watched, started again, stopped.
 *
 * Owns the one language client there is at a time (each server process gets a client of its own) and tells the
 * condition to whoever listens. Knows nothing of how that is shown.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'

import * as vscode from 'vscode'
import { CloseAction, ErrorAction, InlineCompletionRequest, LanguageClient, type Middleware, RevealOutputChannelOn, State } from 'vscode-languageclient/node'

import { explicitSettings, languageSettings } from '../configuration.ts'
import type { Outcome } from '../shared/history.ts'
import type { Condition } from '../shared/presentation.ts'
import { ticked } from '../shared/preview.ts'
import { at, type LatePlace, readLate, readStatus } from '../shared/protocol.ts'
import { type Candidate, OWN_ORIGIN } from './find.ts'
import { Restarts } from './restarts.ts'

/** Who takes part in the suggestions. */
export interface Watcher {
    /** Told how a request for a suggestion ended, what the server was asked, and after how many milliseconds. */
    suggested(
        outcome: Outcome,
        ms: number,
        document: vscode.TextDocument,
        position: vscode.Position,
        context: vscode.InlineCompletionContext,
    ): void
    /** What the server is to be asked in place of the editor's own question. */
    asking(
        document: vscode.TextDocument,
        position: vscode.Position,
        context: vscode.InlineCompletionContext,
    ): vscode.InlineCompletionContext
    /** Told that a suggestion is there which came too late for its question. */
    late(place: LatePlace): void
}

/** @param settingsOf what the server is told of a folder's settings. */
export function middleware(
    settingsOf: (scope: vscode.Uri | undefined) => Record<string, unknown>,
    watcher: Watcher,
): Middleware {
    return {
        workspace: {
            configuration: (params) =>
                params.items.map((item) =>
                    item.section === 'fastcoder'
                        ? settingsOf(item.scopeUri === undefined ? undefined : vscode.Uri.parse(item.scopeUri))
                        : null,
                ),
            // Without values the server asks for them by the above; the client's own values would hold all defaults.
            didChangeConfiguration: async (_sections, next) => {
                await next(undefined)
            },
            handleApplyEdit: (params, next) => next({ ...params, edit: ticked(params.edit) }, new vscode.CancellationTokenSource().token),
        },
        provideInlineCompletionItems: async (document, position, context, token, next) => {
            const start = performance.now()
            const question = watcher.asking(document, position, context)
            const answer = await next(document, position, question, token)
            const items = answer === null || answer === undefined ? [] : Array.isArray(answer) ? answer : answer.items
            const outcome = token.isCancellationRequested ? 'cancelled' : items.length > 0 ? 'shown' : 'empty'
            watcher.suggested(outcome, performance.now() - start, document, position, question)
            return answer
        },
    }
}

/** Ours in this window are unique by it; the editor registers the server's commands beside the extension's own. */
const COMMAND_SUFFIX = '.server'
/** How long a server may take to end when asked to. */
const STOP_MS = 3_000

export class Supervisor implements vscode.Disposable {
    private readonly restarts = new Restarts()
    private readonly changed = new vscode.EventEmitter<Condition>()
    private client: LanguageClient | undefined
    private process: ChildProcess | undefined
    private found: Candidate | undefined
    private timer: NodeJS.Timeout | undefined
    private queue: Promise<void> = Promise.resolve()
    private current: Condition = { kind: 'starting' }

    /** Told after every change of the condition. */
    readonly onChange = this.changed.event

    /**
     * @param find looks for the server; undefined where there is none.
     * @param log takes what the server says on stderr, and what goes wrong.
     * @param home the folder that the server runs in.
     * @param watcher takes part in every suggestion.
     */
    constructor(
        private readonly find: () => Promise<Candidate | undefined>,
        private readonly log: vscode.LogOutputChannel,
        private readonly home: string,
        private readonly watcher: Watcher,
    ) {}

    get condition(): Condition {
        return this.current
    }

    /** Find and start the server, instead of the one that runs; what went wrong before is forgotten. */
    start(): Promise<void> {
        this.restarts.forget()
        return this.enqueue(async () => {
            await this.end()
            await this.begin()
        })
    }

    /** Stop the server; it is gone when this resolves. */
    stop(): Promise<void> {
        return this.enqueue(async () => {
            await this.end()
            this.tell({ kind: 'stopped' })
        })
    }

    /** Ask the server; rejects where it does not run. */
    async request(method: string, params: unknown, token?: vscode.CancellationToken): Promise<unknown> {
        if (this.client?.isRunning() !== true) {
            throw new Error('The server is not running.')
        }
        // A second parameter, even none, would make a list of the two.
        return await (token === undefined ? this.client.sendRequest<unknown>(method, params) : this.client.sendRequest<unknown>(method, params, token))
    }

    /** Tell the server something; whether it runs. */
    notify(method: string, params: unknown): boolean {
        if (this.client?.isRunning() !== true) {
            return false
        }
        void this.client.sendNotification(method, params)
        return true
    }

    /** Whether the server runs and has a use for `fastcoder/definitions`, as it says with its status. */
    get wantsDefinitions(): boolean {
        return this.client?.isRunning() === true && this.current.kind === 'running' && this.current.status.context
    }

    /** Whether the server runs and proposes next edits, by its status, else as it said when it started. */
    get proposesEdits(): boolean {
        if (this.client?.isRunning() !== true || this.current.kind !== 'running') {
            return false
        }
        return this.current.status.edits ?? at(this.client.initializeResult?.capabilities.experimental, 'fastcoderEdits') === true
    }

    /** What asks the server for suggestions in a document, by way of the middleware; undefined where it does not run. */
    provider(document: vscode.TextDocument): vscode.InlineCompletionItemProvider | undefined {
        return this.client?.isRunning() === true ? this.client.getFeature(InlineCompletionRequest.method)?.getProvider(document) : undefined
    }

    /** How the server knows a document. */
    uriOf(document: vscode.TextDocument): string {
        return this.client?.code2ProtocolConverter.asUri(document.uri) ?? document.uri.toString()
    }

    /** Run one of the server's commands. */
    async command(name: string, ...args: unknown[]): Promise<unknown> {
        return await this.request('workspace/executeCommand', { command: `${name}${COMMAND_SUFFIX}`, arguments: args })
    }

    dispose(): void {
        clearTimeout(this.timer)
        this.changed.dispose()
    }

    /** One thing after the other: starting and stopping must not overlap. */
    private enqueue(work: () => Promise<void>): Promise<void> {
        clearTimeout(this.timer)
        this.queue = this.queue.then(work, work)
        return this.queue
    }

    private async begin(): Promise<void> {
        this.tell({ kind: 'starting' })
        const found = await this.find()
        if (found === undefined) {
            this.tell({ kind: 'missing' })
            return
        }
        this.found = found
        this.log.info(`Starting ${found.program} (from ${found.origin})`)
        const client = this.makeClient(found)
        this.client = client
        client.onNotification('fastcoder/status', (params: unknown) => {
            const status = readStatus(params)
            if (status !== undefined && this.client === client) {
                this.tell({ kind: 'running', status, ...found })
            }
        })
        client.onNotification('fastcoder/late', (params: unknown) => {
            const place = readLate(params)
            if (place !== undefined && this.client === client) {
                this.watcher.late(place)
            }
        })
        try {
            await client.start()
        } catch (error) {
            this.log.error(String(error))
            this.onDeath(client)
        }
    }

    private async end(): Promise<void> {
        const client = this.client
        this.client = undefined
        if (client?.state !== State.Running) {
            this.process?.kill('SIGKILL')
            return
        }
        try {
            await client.stop(STOP_MS)
        } catch (error) {
            this.log.warn(`The server did not shut down cleanly: ${String(error)}`)
            this.process?.kill('SIGKILL')
        }
    }

    /** The server died: start it again after a while, if it has not died too often. */
    private onDeath(client: LanguageClient): void {
        if (this.client !== client) {
            return
        }
        this.client = undefined
        this.process?.kill('SIGKILL') // it may live, and not have answered
        const delayMs = this.restarts.died(Date.now())
        if (delayMs === undefined) {
            const message = `The server stopped ${this.restarts.count} times within five minutes.`
            this.log.error(`${message} It is not restarted.`)
            this.tell({ kind: 'failed', message, repairable: this.found?.origin === OWN_ORIGIN })
            return
        }
        this.log.warn(`The server stopped; restarting it in ${delayMs} ms`)
        this.tell({ kind: 'restarting' })
        clearTimeout(this.timer)
        this.timer = setTimeout(() => void this.enqueue(() => this.begin()), delayMs)
    }

    private tell(condition: Condition): void {
        this.current = condition
        this.changed.fire(condition)
    }

    private makeClient(found: Candidate): LanguageClient {
        const start = async (): Promise<ChildProcess> => {
            // Not in a folder of the workspace: nothing that lies there is to be loaded.
            const child = spawn(found.program, ['serve'], { cwd: this.home })
            this.process = child
            await once(child, 'spawn')
            return child
        }
        const client: LanguageClient = new LanguageClient('fastcoder', 'fastcoder', start, {
            documentSelector: [{ scheme: 'file' }, { scheme: 'untitled' }, { notebook: '*' }],
            outputChannel: this.log,
            revealOutputChannelOn: RevealOutputChannelOn.Never,
            initializationOptions: () => ({
                ...settingsOf(undefined),
                client: { commandSuffix: COMMAND_SUFFIX, protectsMachineSettings: true, showsStatus: true, showsLate: true },
            }),
            initializationFailedHandler: () => false,
            errorHandler: {
                error: () => ({ action: ErrorAction.Continue, handled: true }),
                closed: () => {
                    this.onDeath(client)
                    return { action: CloseAction.DoNotRestart, handled: true }
                },
            },
            middleware: middleware(settingsOf, this.watcher),
        })
        return client
    }
}

/** What the server is told of the settings that hold for a folder, or for none. */
function settingsOf(scope: vscode.Uri | undefined): Record<string, unknown> {
    const configuration = (languageId?: string): vscode.WorkspaceConfiguration =>
        vscode.workspace.getConfiguration(
            'fastcoder',
            languageId === undefined ? scope : { ...(scope && { uri: scope }), languageId },
        )
    return {
        ...explicitSettings((name) => configuration().inspect(name)),
        ...languageSettings((name, language) => configuration(language).inspect(name)),
    }
}
