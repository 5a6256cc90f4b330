import assert from 'node:assert/strict'
import { test } from 'node:test'

import { asDiff, distance, type Edit, hintOf, inOneLine, nearest, readProposal } from '../../src/shared/edits.ts'

function edit(line: number, start: number, end: number, text: string, uri = 'file:///w/a.py', id = 1): unknown {
    return {
        text,
        range: { start: { line, character: start }, end: { line, character: end } },
        textDocument: { uri, version: 7 },
        command: { title: '', command: 'accepted.server', arguments: [id] },
    }
}

void test('an answer is one document\'s edits in their order; what is none is passed over', () => {
    const read = readProposal({ edits: [edit(9, 4, 9, 'depth'), edit(1, 0, 3, 'x', 'file:///w/a.py', 2), edit(1, 0, 3, 'y', 'file:///w/b.py'), {}, null] })
    assert.equal(read?.uri, 'file:///w/a.py')
    assert.equal(read.version, 7)
    assert.equal(read.more, false)
    assert.equal(readProposal({ edits: [edit(9, 4, 9, 'depth')], elsewhere: true })?.more, true)
    assert.deepEqual(read.edits.map(({ text }) => text), ['x', 'depth'])
    assert.deepEqual(read.edits[0]?.command, { command: 'accepted.server', arguments: [2] })
    for (const nothing of [undefined, null, {}, { edits: null }, { edits: [] }, { edits: [{ text: 'x' }] }]) {
        assert.equal(readProposal(nothing), undefined)
    }
})

void test('the nearest edit, and how far it is', () => {
    const proposal = readProposal({ edits: [edit(2, 0, 1, ''), edit(40, 0, 1, '')] })
    assert.ok(proposal)
    const found = (line: number): Edit => nearest(proposal, line) ?? assert.fail()
    assert.deepEqual([found(0), found(30)].map((one) => one.start.line), [2, 40])
    assert.equal(distance(found(0), 0), 2)
    assert.equal(distance(found(40), 40), 0)
})

void test('new text in one line', () => {
    assert.equal(inOneLine('a b\n\tc', 2), 'a\u00a0b⏎\u00a0\u00a0c')
    assert.equal(inOneLine('x'.repeat(500), 4).length, 120)
})

void test('a diff for who points at it, and a hint where it is', () => {
    const one = readProposal({ edits: [edit(11, 0, 3, 'two\nthree\n')] })?.edits[0] ?? assert.fail()
    assert.equal(asDiff(one, 'one'), '-one\n+two\n+three')
    assert.equal(asDiff({ ...one, text: '' }, 'one\n'), '-one')
    assert.equal(hintOf(one, 0, undefined, true), 'edit in ↓ line 12 (Tab)')
    assert.equal(hintOf(one, 20, undefined, false), 'also ↑ line 12')
    assert.equal(hintOf(one, 20, { name: 'b.py', more: false }, true), 'edit in b.py, line 12 (Tab)')
    assert.equal(hintOf(one, 20, { name: 'b.py', more: true }, true), 'edit in b.py, line 12 (Tab), “Make the Last Change at All Its Places” for all')
})
