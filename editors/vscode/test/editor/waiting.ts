/** Waiting for what holds sooner or later, and small helpers of the tests in the editor. */

import * as fs from 'node:fs'
import * as net from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/** Long enough for a very busy machine; what is waited for is looked at all the time, so that only failures take it. */
export const WAIT_MS = 240_000
/** After this time something that a busy window may have passed over is tried again. */
export const ATTEMPT_MS = 30_000

/** Look again and again until something holds; an error in looking counts as "not yet". */
export async function until(holds: () => unknown, what: string | (() => string), waitMs = WAIT_MS): Promise<void> {
    const end = performance.now() + waitMs
    let last: unknown
    for (;;) {
        try {
            if ((await holds()) === true) {
                return
            }
        } catch (error) {
            last = error
        }
        if (performance.now() > end) {
            throw new Error(`not within ${waitMs / 1000} s: ${typeof what === 'string' ? what : what()}`, { cause: last })
        }
        await sleep(30)
    }
}

/** A text and nothing else but spaces. */
export function exactly(text: string): RegExp {
    return new RegExp(`^\\s*${text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}\\s*$`)
}

export async function freePort(): Promise<number> {
    return await new Promise((resolve) => {
        const probe = net.createServer()
        probe.listen(0, '127.0.0.1', () => {
            const address = probe.address()
            probe.close(() => {
                resolve(typeof address === 'object' && address !== null ? address.port : 0)
            })
        })
    })
}

/** Whether a process is of a process group. */
export function inGroup(id: number, group: number | undefined): boolean {
    try {
        const fields = fs.readFileSync(`/proc/${id}/stat`, 'utf8').replace(/^.*\) /, '').split(' ')
        return Number(fields[2]) === group // state, parent, group, …
    } catch {
        return false
    }
}
