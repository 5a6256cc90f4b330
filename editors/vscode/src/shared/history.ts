/** What the statistics page plots: the latest requests, and how acceptance went over time. Kept in memory alone. */

import type { ServerStatistics } from './protocol.ts'

export type Outcome = 'shown' | 'empty' | 'cancelled'

/** One request for a suggestion, as the editor saw it. `at`: milliseconds since the epoch. */
export interface Request {
    readonly at: number
    readonly ms: number
    readonly outcome: Outcome
}

/** Counts since the server's start, at a moment. */
export interface Acceptance {
    readonly at: number
    readonly shown: number
    readonly accepted: number
}

const MOST = 500

export class History {
    private readonly kept: Request[] = []
    private readonly samples: Acceptance[] = []

    get requests(): readonly Request[] {
        return this.kept
    }

    get acceptance(): readonly Acceptance[] {
        return this.samples
    }

    add(request: Request): void {
        this.kept.push(request)
        this.kept.splice(0, this.kept.length - MOST)
    }

    /** Counts that are the same as at the last sample say nothing new; fewer mean that the server was started anew. */
    sample(acceptance: Acceptance): void {
        const last = this.samples.at(-1)
        if (last !== undefined && acceptance.shown < last.shown) {
            this.samples.length = 0
        } else if (last?.shown === acceptance.shown && last.accepted === acceptance.accepted) {
            return
        }
        this.samples.push(acceptance)
        this.samples.splice(0, this.samples.length - MOST)
    }
}

/** What the extension sends its page, which says "ready" when it can take it. */
export interface StatisticsMessage {
    /** Undefined while no server runs. */
    readonly statistics: ServerStatistics | undefined
    readonly requests: readonly Request[]
    readonly acceptance: readonly Acceptance[]
}
