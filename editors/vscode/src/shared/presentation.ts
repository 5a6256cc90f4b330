/** How a condition reads in the status bar and in its menu. Pure. */

import { milliseconds } from './plots.ts'
import type { Host, ServerStatistics, ServerStatus } from './protocol.ts'

/** What the extension knows of the server at a moment: one value, from which everything that is shown is made. */
export type Condition =
    /** It is being looked for, or started. */
    | { readonly kind: 'starting' }
    /** There is no server on this machine. */
    | { readonly kind: 'missing' }
    /** It runs, and says how it is. */
    | { readonly kind: 'running'; readonly status: ServerStatus; readonly program: string; readonly origin: string }
    /** It died, and is started again soon. */
    | { readonly kind: 'restarting' }
    /** It could not be started, or died too often: nothing happens until the user acts. `repairable`: we installed it. */
    | { readonly kind: 'failed'; readonly message: string; readonly repairable: boolean }
    /** The window closes. */
    | { readonly kind: 'stopped' }

/** The model that a status asks to be fetched ("" for the default); undefined where it asks for none. */
export function missingModel(status: ServerStatus): string | undefined {
    if (status.state !== 'error') {
        return undefined
    }
    const asked = /fastcoder-lsp model pull\b(?: +([^\s.`'"]\S*))?/.exec(status.hint)
    return asked === null ? undefined : (asked[1] ?? '').replace(/[.,;]$/, '')
}

/** What the status bar item shows. */
export interface Presentation {
    /** Text with theme icons, `$(name)`. */
    readonly text: string
    /** Sentences for the tooltip, and for a screen reader. */
    readonly lines: readonly string[]
    readonly severity: 'normal' | 'warning' | 'error'
}

/** Whether suggestions are on for what the user looks at; the names are the settings that say so. */
export interface Switches {
    readonly enabled: boolean
    /** The language of the active editor; undefined where there is none. */
    readonly language: string | undefined
    readonly languageEnabled: boolean
}

export type Action =
    | 'installServer'
    | 'pullModel'
    | 'restart'
    | 'toggle'
    | 'toggleLanguage'
    | 'toggleWorkspace'
    | 'snooze'
    | 'trigger'
    | 'why'
    | 'reload'
    | 'showStatistics'
    | 'showTrace'
    | 'showLog'
    | 'openSettings'
    | 'openWalkthrough'

/** An entry of the menu; it runs the command `fastcoder.ACTION`. */
export interface Entry {
    readonly action: Action
    readonly label: string
    readonly detail?: string
}

const NAME = 'fastcoder'
const LONGEST_IN_BAR = 32

export function present(condition: Condition, switches: Switches): Presentation {
    switch (condition.kind) {
        case 'starting':
            return show('$(loading~spin)', 'Starting the server.')
        case 'restarting':
            return show('$(loading~spin)', 'The server stopped unexpectedly. Restarting it.')
        case 'stopped':
            return show('$(circle-slash)', 'The server is stopped.')
        case 'missing':
            return show('$(warning)', 'The server is not installed.', 'warning', 'Click to install it.')
        case 'failed':
            return show('$(error)', condition.message, 'error', 'Click to see what to do.')
        case 'running':
            return presentRunning(condition, switches)
    }
}

/** The median time of the answers that the model made: those from an earlier suggestion, which take no time, are left out. */
export function describeLatency(statistics: ServerStatistics): string {
    const total = statistics.spans.find((span) => span.name === 'total')
    return total === undefined ? '–' : milliseconds(total.p50)
}

/** Which process has the model, how many editors share it, and whose turn it is. */
export function describeHost(host: Host): string {
    const turn = { own: ', this one’s turn', other: ', another one’s turn', none: '' }[host.turn ?? 'none']
    return `process ${host.process}, shared by ${host.fronts} ${host.fronts === 1 ? 'editor' : 'editors'}${turn}`
}

function presentRunning(condition: Condition & { kind: 'running' }, switches: Switches): Presentation {
    const presented = presentState(condition, switches)
    const { asks, follows, host, message, notes, state } = condition.status
    const more = [
        ...notes.map((note) => `${note.charAt(0).toUpperCase()}${note.slice(1)}.`),
        ...(follows === '' || state === 'error' ? [] : [`${message}.`]),
        ...(host === undefined ? [] : [`The model: ${describeHost(host)}.`]),
        // Of an error, which may be that nobody has allowed it, the server's own words say what is sent.
        ...(asks === '' || state === 'error' ? [] : [`Code around the cursor is sent to ${asks}.`]),
    ]
    return { ...presented, lines: [...presented.lines, ...more] }
}

function presentState(condition: Condition & { kind: 'running' }, switches: Switches): Presentation {
    const { state, percent, message, hint, snoozed } = condition.status
    if (state === 'error') {
        const act = missingModel(condition.status) === undefined ? hint : 'Click to download it.'
        return show('$(error)', message, 'error', act)
    }
    if (state === 'off') {
        return show('$(circle-slash)', 'Suggestions are off, and no model is loaded.')
    }
    if (switches.language !== undefined && !switches.languageEnabled) {
        return show('$(circle-slash)', `Suggestions are off for ${switches.language}.`)
    }
    if (!switches.enabled) {
        return show('$(circle-slash)', 'Suggestions are off here.')
    }
    if (snoozed !== undefined && (state === 'ready' || state === 'thinking')) {
        return { ...show('$(bell-slash)', 'Ready.'), text: `$(bell-slash) ${NAME} ${snoozed} min` }
    }
    switch (state) {
        case 'starting':
            return show('$(circle-outline)', 'Ready to load the model at the first suggestion.')
        case 'loading': {
            const share = percent === undefined ? '' : ` ${percent} %`
            const what = message === '' ? '' : ` (${message})`
            const brief = message === '' ? '' : ` · ${shortened(message)}`
            return { ...show('$(loading~spin)', `Loading the model:${share}${what}`), text: `$(loading~spin) ${NAME}${share}${brief}` }
        }
        case 'thinking':
            return show('$(sync~spin)', 'Computing a suggestion.')
        case 'ready':
            return show('$(sparkle)', 'Ready.')
    }
}

function show(icon: string, line: string, severity: Presentation['severity'] = 'normal', more = ''): Presentation {
    return { text: `${icon} ${NAME}`, lines: more === '' ? [line] : [line, more], severity }
}

/** The menu's entries: first what cures what is wrong. */
export function menu(condition: Condition, switches: Switches): Entry[] {
    const remedies = remediesOf(condition)
    const running = condition.kind === 'running'
    const entries: Entry[] = [...remedies]
    if (running) {
        entries.push({ action: 'toggle', label: switches.enabled ? '$(circle-slash) Turn Off' : '$(check) Turn On' })
        if (switches.enabled && switches.language !== undefined) {
            const icon = switches.languageEnabled ? '$(circle-slash) Turn Off' : '$(check) Turn On'
            entries.push({ action: 'toggleLanguage', label: `${icon} for ${switches.language}` })
        }
        entries.push(
            { action: 'snooze', label: '$(bell-slash) Snooze' },
            { action: 'why', label: '$(question) Why No Suggestion?' },
            { action: 'showStatistics', label: '$(graph) Statistics' },
            { action: 'showTrace', label: '$(symbol-color) How the Last Suggestion Was Made' },
            { action: 'reload', label: '$(refresh) Reload the Model and Settings' },
        )
    }
    entries.push({ action: 'openSettings', label: '$(gear) Settings' }, { action: 'showLog', label: '$(output) Log' })
    if (!remedies.some((entry) => entry.action === 'restart')) {
        entries.push({ action: 'restart', label: '$(debug-restart) Restart the Server' })
    }
    entries.push({ action: 'openWalkthrough', label: '$(book) Get Started' })
    return entries
}

function remediesOf(condition: Condition): Entry[] {
    switch (condition.kind) {
        case 'missing':
            return [
                { action: 'installServer', label: '$(cloud-download) Install the Server', detail: 'With pip, into a separate environment.' },
                { action: 'restart', label: '$(search) Look Again', detail: 'In the workspace, the Python environment and PATH.' },
            ]
        case 'failed':
            return [
                { action: 'restart', label: '$(debug-restart) Restart the Server', detail: condition.message },
                ...(condition.repairable ? [REPAIR] : []),
            ]
        case 'running':
            if (condition.status.state !== 'error') {
                return []
            }
            return missingModel(condition.status) === undefined
                ? [{ action: 'reload', label: '$(refresh) Try Again', detail: sentence(condition.status.message, condition.status.hint) }]
                : [{ action: 'pullModel', label: '$(cloud-download) Download the Model', detail: condition.status.message }]
        case 'starting':
        case 'restarting':
        case 'stopped':
            return []
    }
}

const REPAIR: Entry = {
    action: 'installServer',
    label: '$(tools) Repair the Server',
    detail: 'Reinstalls it with pip. Models and settings stay.',
}

/** What fits into the status bar. */
function shortened(message: string): string {
    return message.length > LONGEST_IN_BAR ? `${message.slice(0, LONGEST_IN_BAR - 1).trimEnd()}…` : message
}

function sentence(...parts: string[]): string {
    return parts.filter((part) => part !== '').join(' ')
}
