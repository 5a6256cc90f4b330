/** The program `fastcoder-lsp` of one test, and the processes that an editor started with it (Linux: by /proc). */

import { execFileSync } from 'node:child_process'
import * as fs from 'node:fs'
import * as path from 'node:path'

export const ROOT = path.resolve(import.meta.dirname, '../../../..')
const MARK = 'FASTCODER_TEST_SERVER'

export const python = needed('FASTCODER_PYTHON')

/** A value that scripts/test-vscode sets. */
export function needed(name: string): string {
    const value = process.env[name]
    if (value === undefined || value === '') {
        throw new Error(`${name} is not set: run scripts/test-vscode`)
    }
    return value
}

/** A model's folder, by default that of the smallest one supported; undefined where it is not on this machine. */
export function realModel(name = 'wheels:smollm2'): string | undefined {
    try {
        const found = execFileSync(python, ['-m', 'fastcoder_lsp.cli.main', 'model', 'path', name], { cwd: ROOT, stdio: ['ignore', 'pipe', 'ignore'] })
        return found.toString().trim()
    } catch {
        return undefined
    }
}

export class ServerProgram {
    readonly program: string
    readonly log: string
    private readonly folder: string

    /** @param folder holds the program and its log. */
    constructor(folder: string) {
        this.folder = folder
        this.program = path.join(folder, 'bin', 'fastcoder-lsp')
        this.log = path.join(folder, 'server.log')
        fs.mkdirSync(path.dirname(this.program), { recursive: true })
    }

    /** Make it the real server with a real model, by its folder or its name. */
    real(model: string): this {
        return this.write(['-m', 'fastcoder_lsp.cli.main'], ['--model', model, '--log-file', this.log, '--log-level', 'info'])
    }

    /** Make it the real server around a model that says the same everywhere. */
    scripted(...args: string[]): this {
        return this.write([path.join(ROOT, 'tests/lsp/scripted_server.py')], args, false)
    }

    /** Make it a server that proposes the edits of a file, and logs what it hears. */
    proposing(edits: string): this {
        return this.write([path.join(ROOT, 'tests/editors/scripted_edits.py')], ['--edits', edits, '--log', this.log], false)
    }

    /** Make it a program that ends at once. */
    broken(): this {
        return this.write(['-c', 'raise SystemExit("broken")'], [], false)
    }

    /** The servers that run now. */
    processes(): number[] {
        return this.started().filter((id) => !isHost(id))
    }

    /** The process that has the model: the one that all servers share, or else the server. */
    modelProcess(): number | undefined {
        const started = this.started()
        return started.find(isHost) ?? started[0]
    }

    private started(): number[] {
        const ids = fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name)).map(Number)
        return ids.filter((id) => {
            try {
                const environment = fs.readFileSync(`/proc/${id}/environ`, 'utf8').split('\0')
                const state = fs.readFileSync(`/proc/${id}/stat`, 'utf8').replace(/^.*\) /, '')[0]
                return environment.includes(`${MARK}=${this.folder}`) && state !== 'Z'
            } catch {
                return false // it ended, or is not ours to look at
            }
        })
    }

    /** What it logged. */
    logText(): string {
        return fs.existsSync(this.log) ? fs.readFileSync(this.log, 'utf8') : ''
    }

    private write(run: string[], args: string[], passed = true): this {
        const quoted = [...run.map(quote), ...(passed ? ['"$@"'] : []), ...args.map(quote)].join(' ')
        const lines = ['#!/bin/sh', `export ${MARK}=${quote(this.folder)} PYTHONPATH=${quote(ROOT)} OMP_NUM_THREADS=1`, `exec ${quote(python)} ${quoted}`]
        fs.writeFileSync(this.program, `${lines.join('\n')}\n`, { mode: 0o755 })
        return this
    }
}

/** Whether it is the process that servers share, which is started by `fastcoder-lsp host run`. */
function isHost(id: number): boolean {
    try {
        return fs.readFileSync(`/proc/${id}/cmdline`, 'utf8').includes('\0host\0run\0')
    } catch {
        return false // it ended
    }
}

function quote(word: string): string {
    return `'${word.replaceAll("'", "'\\''")}'`
}
