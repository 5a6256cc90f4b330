/** The statistics page. */

import type { StatisticsMessage } from '../shared/messages.ts'
import { acceptancePlot, latencyPlot, milliseconds, partsPlot, percent, quantile, spansPlot } from '../shared/plots.ts'
import type { ServerStatistics } from '../shared/protocol.ts'
import { groupOf } from '../shared/trace.ts'
import { describeHost } from '../shared/presentation.ts'
import { element, figure, listen, show } from './host.ts'

/** What becomes of requests, in the order of the bar; the server's name, and ours where it differs. */
const OUTCOMES: readonly [string, string][] = [
    ['shown', 'shown'],
    ['typed_through', 'typed along'],
    ['empty', 'nothing to say'],
    ['superseded', 'overtaken'],
    ['cancelled', 'cancelled'],
    ['failed', 'failed'],
]

listen((received) => {
    const message = received as StatisticsMessage
    const { statistics, requests, acceptance } = message
    if (statistics === undefined) {
        show(element('p', 'quiet', 'The server does not run.'))
        return
    }
    const outcomes = OUTCOMES.map(([name, label]) => ({ name: label, amount: statistics.requests[name] ?? 0, style: name }))
    const sources = Object.entries(statistics.acceptedBySource).map(([name, amount]) => ({ name, amount, style: groupOf(name) }))
    const figures = [
        figure(
            'Latency',
            latencyPlot(requests),
            `The editor’s latest ${requests.filter((request) => request.outcome !== 'cancelled').length} requests, from asking to answer.`,
        ),
        figure('Acceptance', acceptancePlot(acceptance), 'Share of suggestions that were accepted, over the suggestions shown.'),
        figure('What became of the requests', partsPlot('Outcomes of requests', outcomes)),
    ]
    if (statistics.spans.length > 0) {
        figures.splice(1, 0, figure('Where the time goes', spansPlot(statistics.spans), 'Median and 95th percentile, inside the server.'))
    }
    if (sources.length > 0) {
        figures.push(figure('Accepted guesses, by where they came from', partsPlot('Accepted guesses by source', sources)))
    }
    show(header(statistics), cards(message, statistics), ...figures)
})

function header(statistics: ServerStatistics): HTMLElement {
    const name = statistics.model === '' ? 'No model is loaded' : `${statistics.model} · ${statistics.engine}`
    const shared = statistics.host === undefined ? '' : `, ${describeHost(statistics.host)}`
    const memory = `${(statistics.residentBytes / 2 ** 30).toFixed(1)} GiB of memory${shared}`
    return element('header', '', element('h1', '', name), element('p', 'quiet', memory))
}

function cards(message: StatisticsMessage, statistics: ServerStatistics): HTMLElement {
    const times = message.requests.filter((request) => request.outcome === 'shown').map((request) => request.ms)
    const { shown, accepted, characters } = statistics.suggestions
    const share = (name: string): string => {
        const value = statistics.rates[name]
        return value === undefined ? '–' : percent(value)
    }
    return element(
        'div',
        'cards',
        card(times.length > 0 ? milliseconds(quantile(times, 0.5)) : '–', 'median, to a suggestion'),
        card(shown > 0 ? percent(accepted / shown) : '–', `accepted (${accepted} of ${shown})`),
        card(characters.toLocaleString(), 'characters accepted'),
        card(share('typed_through'), 'answered while typing along'),
        card(share('prompt_cache'), 'of the prompt reused'),
    )
}

function card(value: string, label: string): HTMLElement {
    return element('div', 'card', element('strong', '', value), element('span', 'quiet', label))
}
