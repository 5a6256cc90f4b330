import assert from 'node:assert/strict'
import { test } from 'node:test'

import { missingModel, type Condition, describeLatency, menu, present, type Switches } from '../../src/shared/presentation.ts'
import { readLate, readStatistics, readStatus, readWhy, type State } from '../../src/shared/protocol.ts'

const ON: Switches = { enabled: true, language: 'python', languageEnabled: true }

function running(state: State, more: object = {}): Condition {
    const status = readStatus({ state, percent: null, message: '', hint: '', ...more })
    assert.ok(status !== undefined)
    return { kind: 'running', status, program: '/bin/fastcoder-lsp', origin: 'PATH' }
}

const MISSING_MODEL = { message: 'The model auto is not here.', hint: 'Run: fastcoder-lsp model pull' }

void test('every condition has words of its own', () => {
    const conditions: Condition[] = [
        { kind: 'starting' },
        { kind: 'restarting' },
        { kind: 'missing' },
        { kind: 'stopped' },
        { kind: 'failed', message: 'It ended.', repairable: false },
        running('starting'),
        running('loading', { percent: 40, message: 'weights' }),
        running('ready'),
        running('thinking'),
        running('off'),
        running('error', MISSING_MODEL),
    ]
    const words = conditions.map((condition) => present(condition, ON).lines.join(' '))
    assert.equal(new Set(words).size, conditions.length)
})

void test('loading shows in the bar itself how far it is, and with what', () => {
    assert.match(present(running('loading', { percent: 40, message: 'weights' }), ON).text, /fastcoder 40 % · weights$/)
    assert.match(present(running('loading', { percent: 40 }), ON).text, /fastcoder 40 %$/)
    assert.ok(present(running('loading', { percent: 40, message: 'compiling '.repeat(20) }), ON).text.length < 70)
    assert.deepEqual(present(running('loading', { percent: 40, message: 'weights' }), ON).lines, ['Loading the model: 40 % (weights)'])
})

void test('who shares the model is said beside the state, with whose turn it is', () => {
    const lines = (turn: unknown, fronts = 3): readonly string[] =>
        present(running('ready', { host: { process_id: 77, fronts, turn } }), ON).lines
    assert.deepEqual(lines('other'), ['Ready.', 'The model: process 77, shared by 3 editors, another one’s turn.'])
    assert.deepEqual(lines('own'), ['Ready.', 'The model: process 77, shared by 3 editors, this one’s turn.'])
    assert.deepEqual(lines(null, 1), ['Ready.', 'The model: process 77, shared by 1 editor.'])
    assert.deepEqual(present(running('ready', { host: null }), ON).lines, ['Ready.'])
    const before = { process_id: 0, fronts: 0, turn: null } // the model's process is not there yet
    assert.deepEqual(present(running('ready', { host: before }), ON).lines, ['Ready.'])
})

void test('a snooze counts down in the bar, and what holds work back is said', () => {
    const notes = ['snoozed for 12 more minutes', 'on battery, so work is done only when you ask']
    const presented = present(running('ready', { notes, snoozed: 12 }), ON)
    assert.match(presented.text, /fastcoder 12 min$/)
    assert.deepEqual(presented.lines, ['Ready.', 'Snoozed for 12 more minutes.', 'On battery, so work is done only when you ask.'])
    assert.match(present(running('ready', { notes: notes.slice(1), snoozed: null }), ON).text, /fastcoder$/)
})

void test('a model that answers until a larger one is ready is named', () => {
    const follows = { model: 'B', what: 'preparing', percent: 3 }
    const message = 'A answers until B is ready (preparing, 3 %)'
    assert.deepEqual(present(running('ready', { message, follows }), ON).lines, ['Ready.', `${message}.`])
    assert.deepEqual(present(running('ready', { message, follows: null }), ON).lines, ['Ready.'])
})

void test('which server is asked in the model’s place is said beside the state, and not where nothing is sent', () => {
    const lines = (state: State, asks: unknown): readonly string[] => present(running(state, { asks, message: 'No.' }), ON).lines
    assert.deepEqual(lines('ready', 'models.example'), ['Ready.', 'Code around the cursor is sent to models.example.'])
    assert.deepEqual(lines('thinking', 'models.example').at(-1), 'Code around the cursor is sent to models.example.')
    assert.deepEqual(lines('ready', null), ['Ready.'])
    assert.ok(!lines('error', 'models.example').join(' ').includes('is sent'))
})

void test('what the user switched off is said before what the server does, but never hides an error', () => {
    assert.match(present(running('ready'), { ...ON, languageEnabled: false }).lines[0] ?? '', /off for python/)
    assert.match(present(running('ready'), { ...ON, enabled: false }).lines[0] ?? '', /off here/)
    assert.equal(present(running('error', MISSING_MODEL), { ...ON, languageEnabled: false }).severity, 'error')
})

void test('the menu begins with what cures what is wrong', () => {
    assert.equal(menu({ kind: 'missing' }, ON)[0]?.action, 'installServer')
    assert.equal(menu({ kind: 'failed', message: '', repairable: false }, ON)[0]?.action, 'restart')
    const own = menu({ kind: 'failed', message: '', repairable: true }, ON).map((entry) => entry.action)
    assert.deepEqual(own.slice(0, 2), ['restart', 'installServer'])
    assert.equal(menu(running('error', MISSING_MODEL), ON)[0]?.action, 'pullModel')
    assert.equal(menu(running('error', { message: 'Not enough memory.', hint: 'Close something.' }), ON)[0]?.action, 'reload')
    assert.equal(menu(running('ready'), ON)[0]?.action, 'toggle')
    assert.ok(menu(running('ready'), ON).some((entry) => entry.action === 'why'))
})

void test('no action stands in the menu twice, and all of them where the server runs', () => {
    for (const condition of [{ kind: 'missing' } as const, { kind: 'failed', message: '', repairable: false } as const, running('ready')]) {
        const actions = menu(condition, ON).map((entry) => entry.action)
        assert.equal(new Set(actions).size, actions.length)
        assert.ok(actions.includes('restart') && actions.includes('showLog') && actions.includes('openSettings'))
    }
})

void test('the model that is missing is read from the hint', () => {
    const asked = (hint: string): string | undefined => {
        const status = readStatus({ state: 'error', message: '', hint })
        return status === undefined ? undefined : missingModel(status)
    }
    assert.equal(asked('Run: fastcoder-lsp model pull'), '')
    assert.equal(asked('fetch it: fastcoder-lsp model pull'), '')
    assert.equal(asked('Run: fastcoder-lsp model pull Qwen/Qwen2.5-Coder-0.5B.'), 'Qwen/Qwen2.5-Coder-0.5B')
    assert.equal(asked('Repair it: fastcoder-lsp model pull. If it is not the default model, add its name.'), '')
    assert.equal(asked('Close something.'), undefined)
})

void test('a late suggestion is taken with all of its place, or not at all', () => {
    const told = { textDocument: { uri: 'file:///a.py', version: 3 }, position: { line: 1, character: 4 } }
    assert.deepEqual(readLate(told), { uri: 'file:///a.py', version: 3, line: 1, character: 4 })
    for (const value of [null, {}, { ...told, position: { line: 1 } }, { ...told, textDocument: { uri: 'file:///a.py' } }]) {
        assert.equal(readLate(value), undefined)
    }
})

void test('the latency is that of answers the model made', () => {
    const ms = { queue: { p50: 1, p95: 2 }, total: { p50: 420, p95: 900 } }
    assert.equal(describeLatency(readStatistics({ ms, rates: { typed_through: 0.9 } })), '420 ms')
    assert.equal(describeLatency(readStatistics({ ms: {} })), '–')
})

void test('the statistics begin with the server’s summary', () => {
    assert.equal(readStatistics({ summary: 'Too slow.' }).summary, 'Too slow.')
    assert.equal(readStatistics({}).summary, '')
})

void test('an explanation is a text, or none', () => {
    assert.equal(readWhy({ text: 'Too slow.\nWait.', items: [] }), 'Too slow.\nWait.')
    for (const value of [null, {}, { text: 7 }]) {
        assert.equal(readWhy(value), undefined)
    }
})

void test('a status that is none is not taken', () => {
    for (const value of [null, [], 'ready', { state: 'dancing' }, { percent: 4 }]) {
        assert.equal(readStatus(value), undefined)
    }
})
