/** When a server that died is started again: soon at first, then later and later, and not for ever. */

const DELAYS_MS = [200, 1_000, 5_000, 20_000] as const
/** Deaths that lie further back are forgotten. */
const MEMORY_MS = 5 * 60_000

export class Restarts {
    private deaths: number[] = []

    /** The server died at `nowMs`; after how many milliseconds to start it again, undefined: not any more. */
    died(nowMs: number): number | undefined {
        this.deaths = this.deaths.filter((death) => nowMs - death < MEMORY_MS)
        this.deaths.push(nowMs)
        return DELAYS_MS[this.deaths.length - 1]
    }

    /** The user starts it: everything is forgotten. */
    forget(): void {
        this.deaths = []
    }

    /** How often it died lately. */
    get count(): number {
        return this.deaths.length
    }
}
