/** What the extension knows of the server at a moment: one value, from which everything that is shown is made. */

import type { ServerStatus } from './protocol.ts'

export type Condition =
    /** It is being looked for, or started. */
    | { readonly kind: 'starting' }
    /** There is no server on this machine. */
    | { readonly kind: 'missing' }
    /** It runs, and says how it is. */
    | { readonly kind: 'running'; readonly status: ServerStatus; readonly program: string; readonly origin: string }
    /** It died, and is started again soon. */
    | { readonly kind: 'restarting' }
    /** It could not be started, or died too often: nothing happens until the user acts. `repairable`: we installed it. */
    | { readonly kind: 'failed'; readonly message: string; readonly repairable: boolean }
    /** The window closes. */
    | { readonly kind: 'stopped' }

/** The model that a status asks to be fetched ("" for the default); undefined where it asks for none. */
export function missingModel(status: ServerStatus): string | undefined {
    if (status.state !== 'error') {
        return undefined
    }
    const asked = /fastcoder-lsp model pull\b(?: +([^\s.`'"]\S*))?/.exec(status.hint)
    return asked === null ? undefined : (asked[1] ?? '').replace(/[.,;]$/, '')
}
