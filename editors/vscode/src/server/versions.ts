/** Whether the server has to be updated with the extension. Pure. */

import { OWN_ORIGIN } from './find.ts'

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
