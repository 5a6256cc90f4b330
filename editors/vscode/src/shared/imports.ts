/** Whether an editor's other extensions offer to import what a next edit would: their code actions, one question at a time. Pure. */

import { type ImportedName } from './edits.ts'

/** What a code action of another extension says. */
export interface OfferedAction {
    readonly title: string
    /** Empty where it says none. */
    readonly kind: string
    /** The texts that its edit puts in; undefined where it has no edit. */
    readonly texts: readonly string[] | undefined
    readonly hasCommand: boolean
}

/** The other extensions of the editor. */
export interface Others {
    /** The code actions of a kind at a name. */
    readonly actions: (name: ImportedName, kind: string) => Promise<readonly OfferedAction[]>
    /** Listens to reports of the document's problems, and returns what ends it; undefined where nobody reports any. */
    readonly onReport: ((listener: () => void) => () => void) | undefined
}

/** A code action of this kind imports all that a document lacks. */
export const ADD_IMPORTS = 'source.addMissingImports'
/** The kinds of code actions that import a name. */
export const KINDS: readonly string[] = ['quickfix', ADD_IMPORTS]
const WORDS = ['import', 'include', 'require', 'use']

/** Whether a code action imports a name: by its edit, or by its title where it has none. */
export function imports({ title, kind, texts, hasCommand }: OfferedAction, name: string): boolean {
    const words = new Set([title, ...(texts ?? [])].join(' ').match(/[\p{L}\p{N}_$]+/gu))
    const addsAll = `${kind}.`.startsWith(`${ADD_IMPORTS}.`)
    const isNamed = words.has(name) || (addsAll && texts === undefined && hasCommand)
    return isNamed && (addsAll || [...words].some((word) => WORDS.includes(word.toLowerCase())))
}

/**
 * Whether others offer to import one of the names within a time. Many offer it only once they have reported the name, and
 * answer late if they are asked before: so all are asked again at each report, whatever is still open.
 */
export async function areOffered(names: readonly ImportedName[], others: Others, ms: number): Promise<boolean> {
    return await new Promise((resolve) => {
        let isOver = false
        const end = (areThey: boolean): void => {
            isOver = true
            clearTimeout(timer)
            forget?.()
            resolve(areThey)
        }
        // One name after the other: many a server works on one request at a time, and the user's own wait behind ours.
        const ask = async (kind: string): Promise<void> => {
            for (const name of names) {
                const actions = isOver ? [] : await others.actions(name, kind)
                if (actions.some((action) => imports(action, name.name))) {
                    end(true)
                }
            }
        }
        const askAll = async (): Promise<unknown> => await Promise.allSettled(KINDS.map(ask)) // what fails there is not ours to report
        const timer = setTimeout(end, ms, false)
        const forget = others.onReport?.(() => void askAll())
        void askAll().then(() => {
            if (forget === undefined) {
                end(false)
            }
        })
    })
}
