import assert from 'node:assert/strict'
import { test } from 'node:test'

import { percentOf, pip, pythons, run } from '../../src/server/python.ts'
import { Restarts } from '../../src/server/restarts.ts'

void test('a server that dies is started later each time, and at last no more', () => {
    const restarts = new Restarts()
    const delays = Array.from({ length: 6 }, (_, index) => restarts.died(index * 1_000))
    const given = delays.filter((delay) => delay !== undefined)
    assert.deepEqual(given, given.toSorted((a, b) => a - b))
    assert.equal(delays[0] !== undefined && delays[0] < 1_000, true)
    assert.equal(delays.at(-1), undefined)
})

void test('deaths long ago, and those before the user started it, do not count', () => {
    const restarts = new Restarts()
    const first = restarts.died(0)
    assert.equal(restarts.died(3_600_000), first)
    for (let death = 0; death < 9; death++) {
        restarts.died(3_600_000)
    }
    restarts.forget()
    assert.equal(restarts.died(3_600_001), first)
})

void test('a process tells its lines and its end, and is killed with its signal', async () => {
    const lines: string[] = []
    const script = 'console.log("one"); console.error("two"); process.exitCode = 3'
    const ended = await run(process.execPath, ['-e', script], (line) => lines.push(line))
    assert.equal(ended.code, 3)
    assert.deepEqual(lines.toSorted(), ['one', 'two'])
    const abort = new AbortController()
    const endless = run(process.execPath, ['-e', 'console.log("up"); setInterval(() => 0, 1000)'], () => {
        abort.abort()
    }, abort.signal)
    assert.equal((await endless).code, undefined)
    assert.equal((await run('/no/such/program', [], () => undefined)).code, undefined)
})

void test('percents are read from the lines of `model pull`', () => {
    assert.equal(percentOf('   40 %  weights (400 MB of 1.0 GB)'), 40)
    assert.equal(percentOf('Fetching the model: 1.0 GB from the hub.'), undefined)
})

void test('pip installs the server, with torch for a GPU', () => {
    assert.equal(pip('x.whl', false).at(-1), 'x.whl')
    assert.equal(pip('x.whl', true).at(-1), 'x.whl[torch]')
    assert.deepEqual(pythons('/my/python', false), [['/my/python']])
})
