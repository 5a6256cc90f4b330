/** How a completion was made: the answer to `fastcoder/trace`, read, and grouped as the page colours it. Pure. */

import { at, list, number, text } from './protocol.ts'

/** A token of the completion; `source`: who guessed it, "model" where nobody did. `match`: from how long a match. */
export interface Token {
    readonly text: string
    readonly source: string
    readonly match: number
}

/** One forward pass of the model: the tokens that it gave, and the guesses that it was shown. */
export interface Step {
    readonly tokens: readonly Token[]
    readonly drafted: number
    readonly accepted: number
}

export interface Trace {
    readonly text: string
    readonly finish: string
    readonly steps: readonly Step[]
}

/** What the sources of tokens are coloured as. */
export type Group = 'model' | 'datastore' | 'cache' | 'prompt' | 'habit' | 'other'

const GROUPS: Readonly<Record<string, Group>> = {
    model: 'model',
    repository: 'datastore',
    corpus: 'datastore',
    frozen: 'datastore',
    cache: 'cache',
    outdated: 'cache',
    prompt: 'prompt',
    recycling: 'habit',
    'recycling-pairs': 'habit',
}

/** In words, for the legend. */
export const GROUP_NAMES: Readonly<Record<Group, string>> = {
    model: 'computed by the model, one step each',
    datastore: 'drafted from your code and common code',
    cache: 'drafted from earlier suggestions',
    prompt: 'drafted from this file',
    habit: 'drafted from the model’s earlier alternatives',
    other: 'drafted by another source',
}

export function groupOf(source: string): Group {
    return GROUPS[source] ?? 'other'
}

/** Undefined where there is no completion yet. */
export function readTrace(value: unknown): Trace | undefined {
    if (value === null || value === undefined) {
        return undefined
    }
    const steps = list(at(value, 'steps')).map((step) => {
        const draft = at(step, 'draft')
        return {
            tokens: list(at(step, 'tokens')).map((token) => ({
                text: text(at(token, 'text')),
                source: text(at(token, 'source')),
                match: number(at(token, 'match')) ?? 0,
            })),
            drafted: list(at(draft, 'texts')).length,
            accepted: list(at(draft, 'accepted')).length,
        }
    })
    return { text: text(at(value, 'text')), finish: text(at(value, 'finish')), steps }
}

/** How many tokens came from each group, the largest first. */
export function countGroups(trace: Trace): [Group, number][] {
    const counts = new Map<Group, number>()
    for (const token of trace.steps.flatMap((step) => step.tokens)) {
        const group = groupOf(token.source)
        counts.set(group, (counts.get(group) ?? 0) + 1)
    }
    return [...counts].sort(([, a], [, b]) => b - a)
}

/** What the extension sends its page, which says "ready" when it can take it. */
export interface TraceMessage {
    /** The document's name. */
    readonly document: string
    /** Undefined where no suggestion was made in it yet. */
    readonly trace: Trace | undefined
}
