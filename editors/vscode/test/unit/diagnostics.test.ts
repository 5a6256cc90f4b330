import assert from 'node:assert/strict'
import { test } from 'node:test'

import { diagnosticsNear } from '../../src/shared/diagnostics.ts'

const on = (line: number, more: object = {}): object => ({
    range: { start: { line, character: 2 }, end: { line, character: 5 } },
    severity: 0,
    message: `at ${line}`,
    ...more,
})

void test('the nearest diagnostics come first, in the units of the protocol', () => {
    const given = [on(1), on(12, { severity: 1 }), on(9, { severity: 3, tags: [2, 1] }), on(11, { tags: [2] })]
    assert.deepEqual(
        diagnosticsNear(given, 10).map(({ range, severity, tags }) => [range.start.line, severity, tags]),
        [
            [9, 4, [1]],
            [11, 1, undefined],
            [12, 2, undefined],
            [1, 1, undefined],
        ],
    )
    assert.equal(diagnosticsNear(Array.from({ length: 50 }, (_, line) => on(line)), 0).length, 16)
    assert.equal(diagnosticsNear([on(1, { message: 'x'.repeat(9_000) })], 0)[0]?.message.length, 500)
    assert.deepEqual(diagnosticsNear([null, {}, { range: 3, message: 'x' }, on(1, { message: '' })], 0), [])
    assert.deepEqual(diagnosticsNear(undefined, 0), [])
})
