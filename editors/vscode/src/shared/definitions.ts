/** Names near a cursor: where an editor's other extensions say that they are defined, one question at a time. Pure. */

import { at, list, number, text } from './protocol.ts'

/**
 * Words of languages, which are defined nowhere. editors/neovim/lua/fastcoder/definitions.lua has the same. A word that is
 * a keyword in one language and a name in another may be missing of the names that are asked for.
 */
const WORDS = `
and as assert async await bool boolean break case catch char class const continue crate def default defer del delete do
double elif else elsif end enum except export extends extern False false final finally float fn for foreach from func
function global goto if impl implements import in include instanceof int interface is lambda let local long loop match
mod move mut namespace new nil None nonlocal not null nullptr number or override package pass private protected pub
public raise readonly ref repeat require return Self self short signed sizeof static string struct super switch template
then this throw throws trait True true try type typedef typename typeof undefined union unless unsafe unsigned until use
using var virtual void volatile when where while with yield
`

const KEYWORDS: ReadonlySet<string> = new Set(WORDS.trim().split(/\s+/))

const SHORTEST_NAME = 3
const LONGEST_LINE = 500
/** Of one name. */
const LOCATIONS = 2

/** A name in a document; line and character as the editor counts them. */
export interface Name {
    readonly name: string
    readonly line: number
    readonly character: number
}

/** A definition as `fastcoder/definitions` tells it. */
export interface Told {
    readonly name: string
    readonly uri: string
    readonly range: { readonly start: Place; readonly end: Place }
}

interface Place {
    readonly line: number
    readonly character: number
}

/**
 * The names near a row, its own and those above first, the last of a line first; each once, and no keywords.
 *
 * @param lines the lines from `first` on.
 * @param row of the cursor.
 */
export function namesNear(lines: readonly string[], first: number, row: number, most: number): Name[] {
    const above = lines.slice(0, row - first + 1).map((line, index) => [line, first + index] as const)
    const below = lines.slice(row - first + 1).map((line, index) => [line, row + 1 + index] as const)
    const found = new Map<string, Name>()
    for (const [line, at] of [...above.reverse(), ...below]) {
        const names = line.length <= LONGEST_LINE ? [...line.matchAll(/[\p{L}_$][\p{L}\p{N}_$]*/gu)] : []
        for (const match of names.reverse()) {
            const [name] = match
            if (name.length >= SHORTEST_NAME && !KEYWORDS.has(name) && !found.has(name) && found.size < most) {
                found.set(name, { name, line: at, character: match.index })
            }
        }
    }
    return [...found.values()]
}

/** What `vscode.executeDefinitionProvider` answered, locations or links; nothing of the document itself, or of no file. */
export function definitionsOf(name: string, answer: unknown, own: string): Told[] {
    const found: Told[] = []
    for (const one of list(answer)) {
        const target = at(one, 'targetUri') ?? at(one, 'uri')
        const range = at(one, 'targetSelectionRange') ?? at(one, 'targetRange') ?? at(one, 'range')
        const [start, end] = [placeOf(at(range, 'start')), placeOf(at(range, 'end'))]
        const uri = text(typeof target === 'string' ? target : uriText(target))
        if (start !== undefined && end !== undefined && uri.startsWith('file:') && uri !== own && found.length < LOCATIONS) {
            found.push({ name, uri, range: { start, end } })
        }
    }
    return found
}

function placeOf(value: unknown): Place | undefined {
    const [line, character] = [number(at(value, 'line')), number(at(value, 'character'))]
    return line === undefined || character === undefined ? undefined : { line, character }
}

/** An editor's URI as text. */
function uriText(value: unknown): string {
    return at(value, 'scheme') === 'file' ? (value as { toString: () => string }).toString() : ''
}

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
