/** Plots as SVG texts, coloured by classes that the page's style sheet knows. Pure. */

import type { Acceptance, Request } from './history.ts'
import type { Span } from './protocol.ts'

const WIDTH = 640
const LEFT = 64
const RIGHT = 76
const BAR = 22

/** A labelled amount. */
export interface Part {
    readonly name: string
    readonly amount: number
    /** The class that colours it. */
    readonly style: string
}

/** Each request as a dot, the latest on the right; milliseconds upward, on a logarithmic scale. */
export function latencyPlot(requests: readonly Request[]): string {
    const height = 220
    const answered = requests.filter((request) => request.outcome !== 'cancelled')
    const [low, high] = decades(answered.map((request) => request.ms))
    const y = (ms: number): number => {
        const share = (Math.log10(Math.max(ms, low)) - Math.log10(low)) / (Math.log10(high) - Math.log10(low))
        return height - 20 - share * (height - 36)
    }
    const x = (index: number): number => LEFT + ((index + 0.5) / Math.max(answered.length, 1)) * (WIDTH - LEFT - RIGHT)
    const grid: string[] = []
    for (let ms = low; ms <= high; ms *= 10) {
        grid.push(line(LEFT, y(ms), WIDTH - RIGHT, y(ms), 'grid'), label(LEFT - 8, y(ms) + 4, milliseconds(ms), 'end'))
    }
    const dots = answered.map((request, index) => {
        const title = `${milliseconds(request.ms)}, ${request.outcome}`
        return `<circle cx="${round(x(index))}" cy="${round(y(request.ms))}" r="3" class="dot ${request.outcome}"><title>${title}</title></circle>`
    })
    const marks = [0.5, 0.95].flatMap((share) => {
        const ms = quantile(answered.map((request) => request.ms), share)
        const name = `p${share * 100} ${milliseconds(ms)}`
        return [line(LEFT, y(ms), WIDTH - RIGHT, y(ms), 'mark'), label(WIDTH - RIGHT + 6, y(ms) + 4, name, 'start')]
    })
    const described = `Latency of the latest ${counted(answered.length, 'request')}`
    return svg(height, described, [...grid, ...(answered.length > 0 ? marks : []), ...dots])
}

/** The share of suggestions that were accepted, as it went. */
export function acceptancePlot(samples: readonly Acceptance[]): string {
    const height = 160
    const points = samples.filter((sample) => sample.shown > 0)
    const y = (share: number): number => height - 20 - share * (height - 32)
    const first = points[0]?.shown ?? 0
    const last = points.at(-1)?.shown ?? 1
    const x = (shown: number): number => LEFT + ((shown - first) / Math.max(last - first, 1)) * (WIDTH - LEFT - RIGHT)
    const share = (sample: Acceptance): number => Math.min(1, sample.accepted / sample.shown)
    const grid = [0, 0.25, 0.5, 0.75, 1].flatMap((value) => [
        line(LEFT, y(value), WIDTH - RIGHT, y(value), 'grid'),
        label(LEFT - 8, y(value) + 4, percent(value), 'end'),
    ])
    const path = points.map((sample) => `${round(x(sample.shown))},${round(y(share(sample)))}`).join(' ')
    const latest = points.at(-1)
    const end =
        latest === undefined
            ? []
            : [
                  `<polyline points="${path}" class="line"/>`,
                  `<circle cx="${round(x(latest.shown))}" cy="${round(y(share(latest)))}" r="3.5" class="dot shown"/>`,
                  label(x(latest.shown) + 8, y(share(latest)) + 4, percent(share(latest)), 'start'),
              ]
    return svg(height, `Share of suggestions accepted: ${latest === undefined ? 'none yet' : percent(share(latest))}`, [
        ...grid,
        ...end,
    ])
}

/** For each part of a request its median (the bar) and its 95th percentile (the line). */
export function spansPlot(spans: readonly Span[]): string {
    const most = Math.max(1e-3, ...spans.map((span) => span.p95))
    const rows = spans.map((span, index) => {
        const y = index * BAR
        const x = (ms: number): number => LEFT + (ms / most) * (WIDTH - LEFT - RIGHT - 90)
        const numbers = `${milliseconds(span.p50)} · ${milliseconds(span.p95)}`
        return [
            label(LEFT - 8, y + 15, span.name, 'end'),
            `<rect x="${LEFT}" y="${y + 5}" width="${round(Math.max(1, x(span.p50) - LEFT))}" height="12" class="bar"/>`,
            line(LEFT, y + 11, x(span.p95), y + 11, 'whisker'),
            label(x(span.p95) + 8, y + 15, numbers, 'start'),
        ].join('')
    })
    return svg(spans.length * BAR + 6, 'Median and 95th percentile of each part of a request', rows)
}

/** Parts of a whole as one bar, with a legend below. */
export function partsPlot(described: string, parts: readonly Part[]): string {
    const present = parts.filter((part) => part.amount > 0)
    const whole = present.reduce((sum, part) => sum + part.amount, 0)
    let x = 0
    const bars = present.map((part) => {
        const width = (part.amount / whole) * WIDTH
        const bar = `<rect x="${round(x)}" y="0" width="${round(Math.max(width - 1, 0.5))}" height="18" class="part ${part.style}"><title>${escaped(part.name)}: ${part.amount}</title></rect>`
        x += width
        return bar
    })
    const legend = present.map((part, index) => {
        const [column, row] = [index % 4, Math.floor(index / 4)]
        const [left, top] = [column * (WIDTH / 4), 40 + row * 20]
        const swatch = `<rect x="${left}" y="${top - 10}" width="10" height="10" class="part ${part.style}"/>`
        return swatch + label(left + 16, top, `${part.name} ${part.amount} (${percent(part.amount / whole)})`, 'start')
    })
    const height = present.length > 0 ? 30 + Math.ceil(present.length / 4) * 20 : 18
    return svg(height, described, [...bars, ...legend])
}

export function milliseconds(ms: number): string {
    return ms >= 1000 ? `${(ms / 1000).toFixed(ms >= 10_000 ? 0 : 1)} s` : `${ms >= 10 ? ms.toFixed(0) : Number(ms.toPrecision(1))} ms`
}

/** "1 token", "2 tokens". */
export function counted(count: number, noun: string): string {
    return `${count} ${noun}${count === 1 ? '' : 's'}`
}

export function percent(share: number): string {
    return `${Math.round(share * 100)} %`
}

/** The value below which `share` of the values lies, by nearest rank; 0 where there is none. */
export function quantile(values: readonly number[], share: number): number {
    const ordered = values.toSorted((a, b) => a - b)
    return ordered[Math.min(ordered.length - 1, Math.floor(share * ordered.length))] ?? 0
}

/** A text as it may stand in XML. */
export function escaped(value: string): string {
    return value.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
}

/** Powers of ten around the values, at least one decade apart. */
function decades(values: readonly number[]): [number, number] {
    const positive = values.map((value) => Math.max(value, 0.1))
    const low = 10 ** Math.floor(Math.log10(Math.min(1, ...positive)))
    const high = 10 ** Math.ceil(Math.log10(Math.max(100, ...positive)))
    return [low, high]
}

function svg(height: number, described: string, content: readonly string[]): string {
    return `<svg viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${escaped(described)}">${content.join('')}</svg>`
}

function line(x1: number, y1: number, x2: number, y2: number, style: string): string {
    return `<line x1="${round(x1)}" y1="${round(y1)}" x2="${round(x2)}" y2="${round(y2)}" class="${style}"/>`
}

function label(x: number, y: number, content: string, anchor: 'start' | 'end'): string {
    return `<text x="${round(x)}" y="${round(y)}" text-anchor="${anchor}">${escaped(content)}</text>`
}

function round(value: number): number {
    return Math.round(value * 10) / 10
}
