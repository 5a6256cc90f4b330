/**
 * Where the server's program may be, in the order in which it is looked for.
 *
 * Pure: what exists is asked of the caller. A workspace that is not trusted names no program.
 */

import * as path from 'node:path'

/** Everything that decides where to look. */
export interface Places {
    /** The setting `fastcoder.server.path`; empty: not set. */
    readonly setting: string
    /** Whether the user trusts the workspace. */
    readonly trusted: boolean
    /** The workspace's folders on this machine. */
    readonly folders: readonly string[]
    /** The interpreter chosen in the Python extension. */
    readonly interpreter: string | undefined
    /** The environment variable PATH. */
    readonly search: string
    /** The environment that this extension makes when it installs the server. */
    readonly ownEnvironment: string
    readonly home: string
    readonly windows: boolean
}

/** A program that may be the server, and where it comes from, in words. */
export interface Candidate {
    readonly program: string
    readonly origin: string
    /** The Python that runs it, where that is known: gone with a newer Python, it leaves a program that starts no more. */
    readonly interpreter?: string
}

/** Where the server comes from that this extension has installed. */
export const OWN_ORIGIN = "this extension's installation"

/** Names of folders in a workspace that commonly hold its environment. */
const ENVIRONMENTS = ['.venv', 'venv']

/** The first candidate that exists; undefined where there is none. A setting is taken at its word: nothing follows it. */
export function findServer(places: Places, exists: (program: string) => boolean): Candidate | undefined {
    return candidates(places).find(
        ({ program, interpreter }) => exists(program) && (interpreter === undefined || exists(interpreter)),
    )
}

/** All programs that may be the server, the strongest first. */
export function candidates(places: Places): Candidate[] {
    const paths = pathsOf(places)
    if (places.setting !== '') {
        const program = places.setting.replace(/^~(?=[\\/])/, places.home)
        return [{ program, origin: 'the setting fastcoder.server.path' }]
    }
    const found: Candidate[] = []
    if (places.trusted) {
        for (const folder of places.folders) {
            for (const name of ENVIRONMENTS) {
                const program = inEnvironment(paths.join(folder, name), places.windows)
                found.push({ program, origin: "the workspace's environment" })
            }
        }
        if (places.interpreter !== undefined) {
            const program = paths.join(paths.dirname(places.interpreter), programName(places.windows))
            found.push({ program, origin: 'the environment chosen in the Python extension' })
        }
    }
    for (const folder of places.search.split(paths.delimiter)) {
        if (paths.isAbsolute(folder)) {
            found.push({ program: paths.join(folder, programName(places.windows)), origin: 'PATH' })
        }
    }
    found.push({
        program: inEnvironment(places.ownEnvironment, places.windows),
        origin: OWN_ORIGIN,
        interpreter: inEnvironment(places.ownEnvironment, places.windows, 'python'),
    })
    return found
}

/** The server's program in a Python environment. */
export function inEnvironment(environment: string, windows: boolean, name = 'fastcoder-lsp'): string {
    const paths = windows ? path.win32 : path.posix
    return paths.join(environment, windows ? 'Scripts' : 'bin', programName(windows, name))
}

function programName(windows: boolean, name = 'fastcoder-lsp'): string {
    return windows ? `${name}.exe` : name
}

function pathsOf(places: Places): path.PlatformPath {
    return places.windows ? path.win32 : path.posix
}

/**
 * @param origin where the running server comes from: only our own installation is ours to update.
 * @param installedBy the extension's version that installed it.
 * @param offeredBy the extension's version that has offered to update it.
 * @param version the extension's, now.
 */
export function isOutdated(
    origin: string,
    installedBy: string | undefined,
    offeredBy: string | undefined,
    version: string,
): boolean {
    return origin === OWN_ORIGIN && installedBy !== version && offeredBy !== version
}
