/** An editor's diagnostics as `fastcoder/diagnostics` tells them. Pure. */

import { at, list, number, text } from './protocol.ts'

const MOST = 16
const LONGEST_MESSAGE = 500
const UNNECESSARY = 1

/** A diagnostic as the protocol has it. */
export interface ToldDiagnostic {
    readonly range: { readonly start: Place; readonly end: Place }
    /** 1 for an error … 4 for a hint. */
    readonly severity: number
    readonly message: string
    readonly tags?: readonly number[]
}

interface Place {
    readonly line: number
    readonly character: number
}

/** The diagnostics nearest to a row, the nearest first. The editor counts severities from 0, the protocol from 1. */
export function diagnosticsNear(given: unknown, row: number): ToldDiagnostic[] {
    const told = list(given).flatMap((one): ToldDiagnostic[] => {
        const [start, end] = [placeOf(at(at(one, 'range'), 'start')), placeOf(at(at(one, 'range'), 'end'))]
        const message = text(at(one, 'message'))
        if (start === undefined || end === undefined || message === '') {
            return []
        }
        const unused = list(at(one, 'tags')).includes(UNNECESSARY)
        const severity = (number(at(one, 'severity')) ?? 1) + 1
        return [{ range: { start, end }, severity, message: message.slice(0, LONGEST_MESSAGE), ...(unused ? { tags: [UNNECESSARY] } : {}) }]
    })
    const distance = (one: ToldDiagnostic): number => Math.abs(one.range.start.line - row)
    return told.sort((a, b) => distance(a) - distance(b) || a.range.start.line - b.range.start.line).slice(0, MOST)
}

function placeOf(value: unknown): Place | undefined {
    const [line, character] = [number(at(value, 'line')), number(at(value, 'character'))]
    return line === undefined || character === undefined ? undefined : { line, character }
}
