/**
 * What the server says beyond the standard protocol, as values with types.
 *
 * Owns reading: whatever comes over the wire is checked here, once; a newer server may say more, and that is ignored.
 */

export type State = 'starting' | 'loading' | 'ready' | 'thinking' | 'off' | 'error'
const STATES: readonly string[] = ['starting', 'loading', 'ready', 'thinking', 'off', 'error'] satisfies State[]

/** `fastcoder/status`. `message` and `hint`: what is wrong, and what to do about it. */
export interface ServerStatus {
    readonly state: State
    readonly percent: number | undefined
    readonly message: string
    readonly hint: string
    /** The process that has the model, where editors share one. */
    readonly host: Host | undefined
    /** The server that is asked in the model's place, by its name; empty where nothing leaves this machine. */
    readonly asks: string
    /** Whether other files' code goes along with suggestions, so that the server has a use for places in it. */
    readonly context: boolean
    /** Whether next edits are proposed; undefined where the server says it only when it starts. */
    readonly edits: boolean | undefined
    /** The model that takes over from the one which answers, once it is ready; empty where none does. */
    readonly follows: string
    /** What holds suggestions or work back at the moment, in words. */
    readonly notes: readonly string[]
    /** The minutes that suggestions are snoozed for; undefined where they are not. */
    readonly snoozed: number | undefined
}

/** The process that has the model, how many editors share it, and whose turn it is while this one waits. */
export interface Host {
    readonly process: number
    readonly fronts: number
    readonly turn: 'own' | 'other' | undefined
}

/** `fastcoder/late`: where a suggestion is by now; positions as the server counts them, which are the editor's own. */
export interface LatePlace {
    readonly uri: string
    readonly version: number
    readonly line: number
    readonly character: number
}

/** `fastcoder/stats`, as far as it is shown. Shares are 0…1, undefined where there is nothing to take a share of. */
export interface ServerStatistics {
    /** Whether suggestions work well, and what to do if not. */
    readonly summary: string
    readonly model: string
    readonly engine: string
    readonly residentBytes: number
    /** The process that has the model; undefined where this server has it. */
    readonly host: Host | undefined
    readonly spans: readonly Span[]
    readonly requests: Readonly<Record<string, number>>
    readonly suggestions: { readonly shown: number; readonly accepted: number; readonly characters: number }
    readonly rates: Readonly<Record<string, number>>
    readonly acceptedBySource: Readonly<Record<string, number>>
}

/** Milliseconds that a part of a request takes. */
export interface Span {
    readonly name: string
    readonly p50: number
    readonly p95: number
}

export function readStatus(value: unknown): ServerStatus | undefined {
    const state = text(at(value, 'state'))
    if (!STATES.includes(state)) {
        return undefined
    }
    return {
        state: state as State,
        percent: number(at(value, 'percent')),
        message: text(at(value, 'message')),
        hint: text(at(value, 'hint')),
        host: readHost(at(value, 'host')),
        asks: text(at(value, 'asks')),
        context: at(value, 'context') === true,
        edits: boolean(at(value, 'edits')),
        follows: text(at(at(value, 'follows'), 'model')),
        notes: list(at(value, 'notes')).map(text),
        snoozed: number(at(value, 'snoozed')),
    }
}

export function readLate(value: unknown): LatePlace | undefined {
    const document = at(value, 'textDocument')
    const position = at(value, 'position')
    const [version, line, character] = [number(at(document, 'version')), number(at(position, 'line')), number(at(position, 'character'))]
    if (version === undefined || line === undefined || character === undefined) {
        return undefined
    }
    return { uri: text(at(document, 'uri')), version, line, character }
}

function readHost(value: unknown): Host | undefined {
    const [process, fronts, turn] = [number(at(value, 'process_id')), number(at(value, 'fronts')), at(value, 'turn')]
    // Number 0: no process was asked for anything yet.
    if (process === undefined || process === 0 || fronts === undefined || at(value, 'shared') === false) {
        return undefined
    }
    return { process, fronts, turn: turn === 'own' || turn === 'other' ? turn : undefined }
}

/** `fastcoder/why`: what to tell the user; undefined where the server does not know the request. */
export function readWhy(value: unknown): string | undefined {
    const told = text(at(value, 'text'))
    return told === '' ? undefined : told
}

export function readStatistics(value: unknown): ServerStatistics {
    const spans = Object.entries(table(at(value, 'ms'))).flatMap(([name, ms]) => {
        const [p50, p95] = [number(at(ms, 'p50')), number(at(ms, 'p95'))]
        return p50 === undefined || p95 === undefined ? [] : [{ name, p50, p95 }]
    })
    const suggestions = at(value, 'suggestions')
    const requests = numbers(at(value, 'requests'))
    return {
        summary: text(at(value, 'summary')),
        model: text(at(value, 'model')),
        engine: text(at(value, 'engine')),
        residentBytes: number(at(at(value, 'memory'), 'resident_bytes')) ?? 0,
        host: readHost(at(value, 'host')),
        spans,
        requests,
        suggestions: {
            shown: number(at(suggestions, 'shown')) ?? 0,
            accepted: number(at(suggestions, 'accepted')) ?? 0,
            characters: number(at(suggestions, 'accepted_characters')) ?? 0,
        },
        rates: numbers(at(value, 'rates')),
        acceptedBySource: numbers(at(value, 'accepted_by_source') ?? at(at(value, 'requests'), 'accepted_by_source')),
    }
}

/** What stands under a name; undefined where the value is no table, or has no such name. */
export function at(value: unknown, name: string): unknown {
    return table(value)[name]
}

/** The value as a table of names; an empty one where it is none. */
export function table(value: unknown): Readonly<Record<string, unknown>> {
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {}
}

/** The value as a list; an empty one where it is none. */
export function list(value: unknown): readonly unknown[] {
    return Array.isArray(value) ? value : []
}

/** The value as a text; empty where it is none. */
export function text(value: unknown): string {
    return typeof value === 'string' ? value : ''
}

/** The value as a finite number, if it is one. */
export function number(value: unknown): number | undefined {
    return typeof value === 'number' && Number.isFinite(value) ? value : undefined
}

function boolean(value: unknown): boolean | undefined {
    return typeof value === 'boolean' ? value : undefined
}

function numbers(value: unknown): Record<string, number> {
    return Object.fromEntries(
        Object.entries(table(value)).filter((entry): entry is [string, number] => number(entry[1]) !== undefined),
    )
}
