/** The trace page: a completion, every token coloured by where it came from. */

import type { TraceMessage } from '../shared/trace.ts'
import { counted } from '../shared/plots.ts'
import { countGroups, groupOf, GROUP_NAMES, type Step, type Trace } from '../shared/trace.ts'
import { element, listen, show } from './host.ts'

listen((received) => {
    const { document, trace } = received as TraceMessage
    if (trace === undefined || trace.steps.length === 0) {
        show(element('p', 'quiet', 'No suggestion yet. Type in a file.'))
        return
    }
    show(header(document, trace), code(trace), legend(trace), steps(trace))
})

function header(document: string, trace: Trace): HTMLElement {
    const tokens = trace.steps.reduce((sum, step) => sum + step.tokens.length, 0)
    const perStep = (tokens / trace.steps.length).toFixed(1)
    const words = `${counted(tokens, 'token')} in ${counted(trace.steps.length, 'model step')} (${perStep} per step). Drafting changes the speed, not the text.`
    return element('header', '', element('h1', '', document), element('p', 'quiet', words))
}

/** A mark stands where each step begins. */
function code(trace: Trace): HTMLElement {
    const shown = element('pre', 'code')
    for (const step of trace.steps) {
        step.tokens.forEach((token, index) => {
            const span = element('span', `token ${groupOf(token.source)}${index === 0 ? ' first' : ''}`, token.text)
            const match = token.match > 0 ? `, after a match of ${counted(token.match, 'token')}` : ''
            span.title = `${token.source}${match}`
            shown.append(span)
        })
    }
    return shown
}

function legend(trace: Trace): HTMLElement {
    const entries = countGroups(trace).map(([group, count]) =>
        element('li', '', element('span', `swatch ${group}`), `${GROUP_NAMES[group]}: ${count}`),
    )
    return element('ul', 'legend', ...entries, element('li', '', element('span', 'swatch first'), 'start of a step'))
}

function steps(trace: Trace): HTMLElement {
    const head = element('tr', '', ...['step', 'drafted', 'accepted', 'tokens'].map((name) => element('th', '', name)))
    const rows = trace.steps.map((step, index) => row(step, index + 1))
    return element('table', '', element('thead', '', head), element('tbody', '', ...rows))
}

function row(step: Step, index: number): HTMLElement {
    const tokens = element('td', 'code')
    for (const token of step.tokens) {
        tokens.append(element('span', `token ${groupOf(token.source)}`, visible(token.text)))
    }
    const numbers = [index, step.drafted, step.accepted].map((value) => element('td', 'number', String(value)))
    return element('tr', '', ...numbers, tokens)
}

/** Line ends as marks: a row of the table is one line. */
function visible(text: string): string {
    return text.replaceAll('\n', '⏎').replaceAll('\t', '→')
}
