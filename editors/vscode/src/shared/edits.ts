/** The next edit as the server proposes it, and how it is drawn by what an editor lets an extension draw. Pure. */

import { at, list, number, text } from './protocol.ts'

export interface Place {
    readonly line: number
    readonly character: number
}

/** One change of a proposal; positions as the editor counts them. */
export interface Edit {
    readonly start: Place
    readonly end: Place
    readonly text: string
    /** Tells the server that it was made; undefined where the server wants no word. */
    readonly command: { readonly command: string; readonly arguments: readonly unknown[] } | undefined
}

/** The changes of one document that belong together, in the document's order. */
export interface Proposal {
    readonly uri: string
    /** Of the document that they fit; undefined where the server does not say. */
    readonly version: number | undefined
    readonly edits: readonly Edit[]
    /** Whether more files want the same. */
    readonly more: boolean
    /** The names that it imports. */
    readonly imports: readonly ImportedName[]
}

/** A name that an edit imports, where the document uses it. */
export interface ImportedName {
    readonly name: string
    readonly start: Place
    readonly end: Place
}

/** How much of several new lines one line shows. */
const LONGEST = 120

/** The answer to `textDocument/copilotInlineEdit`; undefined where nothing is proposed. */
export function readProposal(value: unknown): Proposal | undefined {
    const all = list(at(value, 'edits'))
    const document = at(all[0], 'textDocument')
    const uri = text(at(document, 'uri'))
    const edits = all.filter((edit) => text(at(at(edit, 'textDocument'), 'uri')) === uri).flatMap(readEdit)
    edits.sort((one, other) => one.start.line - other.start.line || one.start.character - other.start.character)
    const imports = list(at(value, 'imports')).flatMap(readImport)
    const more = at(value, 'elsewhere') === true
    return edits.length === 0 ? undefined : { uri, version: number(at(document, 'version')), edits, more, imports }
}

function readEdit(value: unknown): Edit[] {
    const { start, end } = readRange(value)
    const command = at(value, 'command')
    const name = text(at(command, 'command'))
    if (start === undefined || end === undefined) {
        return []
    }
    return [{ start, end, text: text(at(value, 'text')), command: name === '' ? undefined : { command: name, arguments: list(at(command, 'arguments')) } }]
}

function readImport(value: unknown): ImportedName[] {
    const { start, end } = readRange(value)
    return start === undefined || end === undefined ? [] : [{ name: text(at(value, 'name')), start, end }]
}

function readRange(value: unknown): { readonly start: Place | undefined; readonly end: Place | undefined } {
    const range = at(value, 'range')
    return { start: readPlace(at(range, 'start')), end: readPlace(at(range, 'end')) }
}

function readPlace(value: unknown): Place | undefined {
    const [line, character] = [number(at(value, 'line')), number(at(value, 'character'))]
    return line === undefined || character === undefined ? undefined : { line, character }
}

/** How many lines a line is away from an edit. */
export function distance(edit: Edit, line: number): number {
    return Math.max(edit.start.line - line, line - edit.end.line, 0)
}

/** The edit that is nearest to a line. */
export function nearest(proposal: Proposal, line: number): Edit | undefined {
    return proposal.edits.reduce<Edit | undefined>(
        (found, edit) => (found === undefined || distance(edit, line) < distance(found, line) ? edit : found),
        undefined,
    )
}

/**
 * New text as one line, for an editor's decoration has no more: line breaks as signs, spaces that do not collapse, cut where
 * it is long.
 */
export function inOneLine(inserted: string, tabSize: number): string {
    const line = inserted.replaceAll('\t', ' '.repeat(tabSize)).replaceAll(/\r?\n/g, '⏎').replaceAll(' ', '\u00a0')
    return line.length > LONGEST ? `${line.slice(0, LONGEST - 1)}…` : line
}

/** A proposal as a diff, for who points at it. */
export function asDiff(edit: Edit, old: string): string {
    const lines = (sign: string, part: string): string[] => (part === '' ? [] : part.replace(/\r?\n$/, '').split(/\r?\n/).map((line) => sign + line))
    return [...lines('-', old), ...lines('+', edit.text)].join('\n')
}

/** Where an edit is that is not in view: in which file (and whether in more), or in which direction and line. */
export function hintOf(edit: Edit, line: number, file: { readonly name: string; readonly more: boolean } | undefined, goes: boolean): string {
    const row = edit.start.line + 1
    const place = file === undefined ? `${edit.start.line < line ? '↑' : '↓'} line ${row}` : `${file.name}, line ${row}`
    const all = file?.more === true ? ', “Make the Last Change at All Its Places” for all' : ''
    return (goes ? `edit in ${place} (Tab)` : `also ${place}`) + all
}
