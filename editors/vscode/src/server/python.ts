/** A Python to install the server with, how pip is called, and programs that do one piece of work. */

import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'

/** What may be called to get a Python, in the order in which it is tried: a program and its first arguments. */
export function pythons(setting: string, windows: boolean): string[][] {
    if (setting !== '') {
        return [[setting]]
    }
    const versions = ['3.14', '3.13', '3.12', '3.11']
    return windows
        ? [['py', '-3'], ['python']]
        : [['python3'], ...versions.map((version) => [`python${version}`]), ['python']]
}

/** Prints "yes" in a Python that will do. */
export const CHECK_PYTHON =
    'import sys, venv, ensurepip; print("yes" if sys.version_info[:2] >= (3, 11) else "too old")'

const PIP_INSTALL = ['-m', 'pip', 'install', '--disable-pip-version-check']

/** Installs the server; `torch`: with the extra that NVIDIA GPUs need, PyTorch, several GB. */
export function pip(wanted: string, torch: boolean): string[] {
    return [...PIP_INSTALL, '--upgrade', '--no-compile', torch ? `${wanted}[torch]` : wanted]
}

/** How far a program is, from a line such as "  40 %  weights (400 MB of 1.0 GB)". */
export function percentOf(line: string): number | undefined {
    const percent = /^\s*(\d{1,3}) %/.exec(line)?.[1]
    return percent === undefined ? undefined : Math.min(100, Number(percent))
}

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
