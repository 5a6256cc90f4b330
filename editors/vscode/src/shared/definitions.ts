/** Names near a cursor, and what an editor answers of where they are defined. Pure. */

import { KEYWORDS } from './keywords.ts'
import { at, list, number, text } from './protocol.ts'

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
