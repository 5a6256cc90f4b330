/** Asks an editor's other extensions where names are defined, one question at a time. Pure. */

import { definitionsOf, type Name, type Told } from './definitions.ts'

/** What is asked for, and for how long. */
export interface Round {
    /** Of the document: it says who answers. */
    readonly language: string
    /** The document's URI. */
    readonly own: string
    readonly names: readonly Name[]
    readonly ask: (name: Name) => Promise<unknown>
    /** For all answers, and for the one that is open before: what comes later is not waited for. */
    readonly ms: number
    /** Whether anybody still wants to know. */
    readonly wanted: () => boolean
}

/**
 * The editor cannot be told to give a question up. So of a language there is one open at most, however slow who answers
 * is, and whatever was asked meanwhile.
 */
export class Asking {
    /** By language, the question that was asked last. */
    private readonly open = new Map<string, Promise<unknown>>()

    /** The definitions that were told in time; undefined where nobody wants them, or an earlier question is open still. */
    async definitions({ language, own, names, ask, ms, wanted }: Round): Promise<Told[] | undefined> {
        const earlier = this.open.get(language)
        if (earlier !== undefined && !(await isSettled(earlier, ms))) {
            return undefined
        }
        const end = Date.now() + ms
        const found: Told[] = []
        for (const name of names) {
            if (!wanted()) {
                return undefined
            }
            let answer: unknown
            const question = ask(name).then(
                (value) => {
                    answer = value
                },
                () => undefined, // of another extension; it is not ours to report
            )
            this.open.set(language, question)
            if (!(await isSettled(question, end - Date.now()))) {
                break
            }
            found.push(...definitionsOf(name.name, answer, own))
        }
        return wanted() ? found : undefined
    }
}

/** Whether a promise has come to its end within a time. */
async function isSettled(promise: Promise<unknown>, ms: number): Promise<boolean> {
    let timer: ReturnType<typeof setTimeout> | undefined
    const late = new Promise<boolean>((resolve) => {
        timer = setTimeout(resolve, Math.max(ms, 0), false)
    })
    try {
        return await Promise.race([promise.then(() => true), late])
    } finally {
        clearTimeout(timer)
    }
}
