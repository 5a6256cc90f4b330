import assert from 'node:assert/strict'
import { test } from 'node:test'

import { ticked } from '../../src/shared/preview.ts'

const EDIT = { range: { start: { line: 0, character: 0 }, end: { line: 0, character: 1 } }, newText: 'x', annotationId: 'all' }
const PLACES = [
    { textDocument: { uri: 'file:///w/open.py', version: 3 }, edits: [EDIT] },
    { textDocument: { uri: 'file:///w/closed.py', version: null }, edits: [EDIT] },
]

void test('no place needs confirmation any more, and an operation without effect does', () => {
    const asked = { documentChanges: PLACES, changeAnnotations: { all: { label: 'All', needsConfirmation: true } } }
    const { documentChanges, changeAnnotations } = ticked(asked)
    const [first, ...places] = documentChanges ?? []
    assert.deepEqual(places, PLACES)
    assert.deepEqual(first, { kind: 'create', uri: 'file:///w/closed.py', options: { ignoreIfExists: true }, annotationId: 'fastcoder.preview' })
    assert.deepEqual(changeAnnotations, {
        'all': { label: 'All', needsConfirmation: false },
        'fastcoder.preview': { label: 'All', needsConfirmation: true },
    })
})

void test('an edit that waits for nobody is what it was', () => {
    for (const edit of [{}, { documentChanges: PLACES }, { documentChanges: PLACES, changeAnnotations: { all: { label: 'All' } } }]) {
        assert.equal(ticked(edit), edit)
    }
})
