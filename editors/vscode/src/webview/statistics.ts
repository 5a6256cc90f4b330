/** The statistics page. */

import type { StatisticsMessage } from '../shared/history.ts'
import { acceptancePlot, counted, latencyPlot, partsPlot, percent, spansPlot } from '../shared/plots.ts'
import type { ServerStatistics } from '../shared/protocol.ts'
import { groupOf } from '../shared/trace.ts'
import { describeHost, describeLatency } from '../shared/presentation.ts'
import { element, figure, listen, show } from './host.ts'

/** What becomes of requests, in the order of the bar: the server's name and the label. */
const OUTCOMES: readonly [string, string][] = [
    ['shown', 'shown'],
    ['typed_through', 'without the model'],
    ['empty', 'no suggestion'],
    ['superseded', 'superseded'],
    ['cancelled', 'cancelled'],
    ['failed', 'failed'],
]

listen((received) => {
    const message = received as StatisticsMessage
    const { statistics, requests, acceptance } = message
    if (statistics === undefined) {
        show(element('p', 'quiet', 'The server is not running.'))
        return
    }
    const outcomes = OUTCOMES.map(([name, label]) => ({ name: label, amount: statistics.requests[name] ?? 0, style: name }))
    const sources = Object.entries(statistics.acceptedBySource).map(([name, amount]) => ({ name, amount, style: groupOf(name) }))
    const figures = [
        figure(
            'Latency',
            latencyPlot(requests),
            `The editor’s latest ${counted(requests.filter((request) => request.outcome !== 'cancelled').length, 'request')}, from question to answer, those answered without the model included.`,
        ),
        figure('Acceptance', acceptancePlot(acceptance), 'Share of the shown suggestions that you accepted.'),
        figure('Outcomes of the requests', partsPlot('Outcomes of requests', outcomes)),
    ]
    if (statistics.spans.length > 0) {
        figures.splice(1, 0, figure('Time by stage', spansPlot(statistics.spans), 'Median and 95th percentile, inside the server.'))
    }
    if (sources.length > 0) {
        figures.push(figure('Accepted draft tokens by source', partsPlot('Accepted draft tokens by source', sources)))
    }
    show(element('p', '', statistics.summary), header(statistics), cards(statistics), ...figures)
})

function header(statistics: ServerStatistics): HTMLElement {
    const name = statistics.model === '' ? 'No model loaded' : `${statistics.model} · ${statistics.engine}`
    const shared = statistics.host === undefined ? '' : `, ${describeHost(statistics.host)}`
    const memory = `${(statistics.residentBytes / 1e9).toFixed(1)} GB memory${shared}`
    return element('header', '', element('h1', '', name), element('p', 'quiet', memory))
}

function cards(statistics: ServerStatistics): HTMLElement {
    const { shown, accepted, characters } = statistics.suggestions
    const share = (name: string): string => {
        const value = statistics.rates[name]
        return value === undefined ? '–' : percent(value)
    }
    return element(
        'div',
        'cards',
        card(describeLatency(statistics), 'median time of the model’s answers'),
        card(shown > 0 ? percent(accepted / shown) : '–', `accepted (${accepted} of ${shown})`),
        card(characters.toLocaleString(), 'characters accepted'),
        card(share('typed_through'), 'of requests answered without the model'),
        card(share('prompt_cache'), 'of prompt tokens reused'),
    )
}

function card(value: string, label: string): HTMLElement {
    return element('div', 'card', element('strong', '', value), element('span', 'quiet', label))
}
