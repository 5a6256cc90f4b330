/** llama.vscode as its authors publish it: built from the archive that lies beside the repository, and a server for it. */

import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import * as fs from 'node:fs'
import * as path from 'node:path'

import { needed, python, ROOT } from './server.ts'
import { until } from './waiting.ts'

/** Where archives of other people's programs lie. Asked for by name: to build this one, its hundreds of packages are fetched. */
const PEERS = process.env.FASTCODER_PEERS

/** The archive; undefined where there is none. */
export function archive(): string | undefined {
    const found = PEERS !== undefined && fs.existsSync(PEERS) ? fs.readdirSync(PEERS).filter((name) => /^llama\.vscode-\w+\.tar\.gz$/.test(name)) : []
    return found.map((name) => path.join(PEERS ?? '', name)).sort().at(-1)
}

/** Build it in a folder as its own scripts do, and install it; the folder of the extensions. */
export function installed(from: string, folder: string): string {
    const source = path.join(folder, 'llama.vscode')
    const extensions = path.join(folder, 'extensions')
    const vsix = path.join(folder, 'llama-vscode.vsix')
    execFileSync('tar', ['-xzf', from, '-C', folder])
    const run = (program: string, ...words: string[]): void => {
        execFileSync(program, words, { cwd: source, stdio: ['ignore', 'ignore', 'inherit'] })
    }
    run('npm', 'ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error', '--prefer-offline')
    run(path.join(ROOT, 'editors/vscode/node_modules/.bin/vsce'), 'package', '--no-dependencies', '--out', vsix)
    run(needed('FASTCODER_CODE_SERVER'), '--user-data-dir', path.join(folder, 'installing'), '--extensions-dir', extensions, '--install-extension', vsix)
    return extensions
}

/** The real server by HTTP, over a model that says one thing everywhere. */
export class HttpServer {
    port = 0
    private readonly process: ChildProcess

    constructor(says: string) {
        this.process = spawn(python, ['-P', '-m', 'tests.http.toy_process', says], {
            cwd: ROOT,
            env: { ...process.env, PYTHONPATH: ROOT },
            stdio: ['pipe', 'pipe', 'inherit'],
        })
        this.process.stdout?.on('data', (said: Buffer) => (this.port = Number(said.toString().trim())))
    }

    /** Wait until it answers. */
    async ready(): Promise<void> {
        await until(async () => this.port > 0 && (await fetch(`http://127.0.0.1:${this.port}/health`)).ok, 'the server answers')
    }

    /** A number of its page for Prometheus. */
    async metric(name: string): Promise<number> {
        const page = await (await fetch(`http://127.0.0.1:${this.port}/metrics`)).text()
        return Number(new RegExp(`^fastcoder_${name} (\\d+)$`, 'm').exec(page)?.[1])
    }

    close(): void {
        this.process.stdin?.end()
    }
}
