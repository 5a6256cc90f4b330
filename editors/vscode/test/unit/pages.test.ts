import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'

import { History } from '../../src/shared/history.ts'
import { acceptancePlot, escaped, latencyPlot, milliseconds, partsPlot, quantile, spansPlot } from '../../src/shared/plots.ts'
import { readStatistics } from '../../src/shared/protocol.ts'
import { countGroups, groupOf, readTrace } from '../../src/shared/trace.ts'

void test('plots hold a mark for every value, finite numbers only, whatever they are given', () => {
    const requests = [0, 0.05, 3, 250, 90_000].map((ms, at) => ({ at, ms, outcome: 'shown' as const }))
    assert.equal(latencyPlot(requests).match(/<circle/g)?.length, 5)
    const drawn = [
        latencyPlot(requests),
        latencyPlot([]),
        acceptancePlot([]),
        acceptancePlot([{ at: 0, shown: 0, accepted: 0 }, { at: 1, shown: 3, accepted: 1 }]),
        spansPlot([{ name: 'queue', p50: 0, p95: 0 }]),
        partsPlot('', [{ name: 'shown', amount: 0, style: 'shown' }]),
    ]
    for (const svg of drawn) {
        assert.ok(svg.startsWith('<svg ') && svg.endsWith('</svg>'))
        assert.doesNotMatch(svg, /NaN|Infinity|undefined/)
    }
})

void test('names from the server can hold no markup', () => {
    assert.doesNotMatch(partsPlot('x', [{ name: '<script>"', amount: 1, style: 'other' }]), /<script|"""/)
    assert.equal(escaped('a<b>&"\''), 'a&#60;b&#62;&#38;&#34;&#39;')
})

void test('times read as people write them', () => {
    assert.deepEqual([0.31, 4.2, 41.6, 999, 1500, 12_345].map(milliseconds), ['0.3 ms', '4 ms', '42 ms', '999 ms', '1.5 s', '12 s'])
    assert.equal(quantile([5, 1, 3], 0.5), 3)
    assert.equal(quantile([], 0.5), 0)
})

void test('statistics of an older or newer server are read as far as they go', () => {
    const read = readStatistics({ model: 'm', ms: { total: { p50: 1, p95: 2 }, odd: 3 }, requests: { shown: 1, by: {} }, rates: { accepted: null } })
    assert.deepEqual(read.spans, [{ name: 'total', p50: 1, p95: 2 }])
    assert.deepEqual(read.requests, { shown: 1 })
    assert.deepEqual(read.rates, {})
    assert.equal(readStatistics(null).suggestions.shown, 0)
})

void test('a trace is read, and its tokens are counted by where they came from', () => {
    assert.equal(readTrace(null), undefined)
    const token = (source: string): object => ({ text: 'x', source, match: 2 })
    const trace = readTrace({
        text: 'xxx',
        steps: [
            { tokens: [token('prompt'), token('model')], draft: { texts: ['x', 'y'], accepted: [0] } },
            { tokens: [token('model')], draft: {} },
        ],
    })
    assert.ok(trace !== undefined)
    assert.deepEqual(countGroups(trace), [['model', 2], ['prompt', 1]])
    assert.deepEqual(trace.steps.map((step) => [step.drafted, step.accepted]), [[2, 1], [0, 0]])
    assert.equal(groupOf('a guesser of tomorrow'), 'other')
    for (const [name, group] of sourcesOfAuto()) {
        assert.equal(groupOf(name) === 'other', group === 'other', name) // by default there is none of these
    }
})

/** What the default drafter drafts from, and the group of each, as the server has them. */
function sourcesOfAuto(): [name: string, group: string][] {
    const code = ['base', 'auto/evidence'].map((file) =>
        readFileSync(new URL(`../../../../fastcoder_lsp/draft/${file}.py`, import.meta.url), 'utf8'))
    const sources = [...code.join('').matchAll(/\bSource\("([^"]+)", "([^"]+)"\)/g)]
    assert.ok(sources.length >= 9, 'the sources are found')
    return sources.map(([, name = '', group = '']) => [name, group])
}

void test('the history keeps the latest, and begins anew with the server', () => {
    const history = new History()
    for (let at = 0; at < 700; at++) {
        history.add({ at, ms: 1, outcome: 'shown' })
    }
    assert.equal(history.requests.length, 500)
    assert.equal(history.requests[0]?.at, 200)
    history.sample({ at: 1, shown: 5, accepted: 1 })
    history.sample({ at: 2, shown: 5, accepted: 1 })
    history.sample({ at: 3, shown: 6, accepted: 1 })
    assert.equal(history.acceptance.length, 2)
    history.sample({ at: 4, shown: 1, accepted: 0 })
    assert.equal(history.acceptance.length, 1)
})
