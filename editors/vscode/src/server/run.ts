/** Child processes that do one piece of work and end: their lines as they come, and their end. */

import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'

/** How a process ended: its exit code (undefined: it could not be started, or was killed), and the last lines it said. */
export interface Ended {
    readonly code: number | undefined
    readonly lines: readonly string[]
}

const KEPT_LINES = 40

/** Run `program` to its end, telling every line of its output; `signal` kills it. Never rejects. */
export async function run(
    program: string,
    args: readonly string[],
    onLine: (line: string) => void,
    signal?: AbortSignal,
): Promise<Ended> {
    const lines: string[] = []
    const said = (line: string): void => {
        lines.push(line)
        lines.splice(0, lines.length - KEPT_LINES)
        onLine(line)
    }
    const child = spawn(program, args, {
        stdio: ['ignore', 'pipe', 'pipe'],
        env: { ...process.env, PYTHONUNBUFFERED: '1', PYTHONIOENCODING: 'utf-8' },
        ...(signal === undefined ? {} : { signal }),
    })
    createInterface(child.stdout).on('line', said)
    createInterface(child.stderr).on('line', said)
    return await new Promise((resolve) => {
        child.on('error', (error) => {
            if (child.pid === undefined) {
                said(error.message)
                resolve({ code: undefined, lines })
            }
        })
        child.on('close', (code) => {
            resolve({ code: code ?? undefined, lines })
        })
    })
}
