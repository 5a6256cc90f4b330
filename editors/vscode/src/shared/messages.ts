/** What the extension sends its pages. A page sends one message, "ready", when it can take them. */

import type { Acceptance, Request } from './history.ts'
import type { ServerStatistics } from './protocol.ts'
import type { Trace } from './trace.ts'

export interface StatisticsMessage {
    /** Undefined while no server runs. */
    readonly statistics: ServerStatistics | undefined
    readonly requests: readonly Request[]
    readonly acceptance: readonly Acceptance[]
}

export interface TraceMessage {
    /** The document's name. */
    readonly document: string
    /** Undefined where no suggestion was made in it yet. */
    readonly trace: Trace | undefined
}
