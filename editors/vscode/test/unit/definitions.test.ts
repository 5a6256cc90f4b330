import assert from 'node:assert/strict'
import { test } from 'node:test'

import { definitionsOf, namesNear } from '../../src/shared/definitions.ts'

const RANGE = { start: { line: 3, character: 6 }, end: { line: 3, character: 11 } }

/** As the editor's own: a class with getters, whose text is that of the protocol. */
class Uri {
    private readonly kind: string
    private readonly path: string

    constructor(kind: string, path: string) {
        this.kind = kind
        this.path = path
    }

    get scheme(): string {
        return this.kind
    }

    toString(): string {
        return `${this.kind}://${this.path}`
    }
}

class Position {
    private readonly row: number
    private readonly column: number

    constructor(row: number, column: number) {
        this.row = row
        this.column = column
    }

    get line(): number {
        return this.row
    }

    get character(): number {
        return this.column
    }
}

void test('names near the cursor, the nearest first and each once', () => {
    const lines = ['far = far', 'x = "🦀" + store', 'größe.put(key, store)', 'below()', 'y'.repeat(600)]
    assert.deepEqual(namesNear(lines, 10, 12, 6), [
        { name: 'store', line: 12, character: 15 },
        { name: 'key', line: 12, character: 10 },
        { name: 'put', line: 12, character: 6 },
        { name: 'größe', line: 12, character: 0 },
        { name: 'far', line: 10, character: 6 },
        { name: 'below', line: 13, character: 0 },
    ])
    assert.equal(namesNear(lines, 10, 12, 2).length, 2)
    assert.deepEqual(namesNear([], 0, 0, 6), [])
})

void test('keywords are not asked for', () => {
    const lines = ['export async function store(): Promise<void> {', 'for x in self.items: return None if not x else await far()']
    assert.deepEqual(
        namesNear(lines, 0, 1, 6).map(({ name }) => name),
        ['far', 'items', 'Promise', 'store'],
    )
})

void test('locations and links are told, as the protocol has them', () => {
    const location = { uri: new Uri('file', '/w/a.py'), range: { start: new Position(3, 6), end: new Position(3, 11) } }
    const link = { targetUri: new Uri('file', '/w/b.py'), targetRange: { start: new Position(0, 0), end: new Position(9, 0) }, targetSelectionRange: RANGE }
    assert.deepEqual(definitionsOf('put', [location, link], 'file:///w/own.py'), [
        { name: 'put', uri: 'file:///w/a.py', range: RANGE },
        { name: 'put', uri: 'file:///w/b.py', range: RANGE },
    ])
})

void test('what is in the document itself, or in no file, is not told, and no more than a few', () => {
    const of = (uri: Uri): object => ({ uri, range: RANGE })
    const own = new Uri('file', '/w/own.py')
    const given = [of(own), of(new Uri('untitled', 'a')), of(new Uri('jdt', '/a')), { uri: 7 }, null, 'text', {}, { uri: own }]
    assert.deepEqual(definitionsOf('put', given, 'file:///w/own.py'), [])
    assert.equal(definitionsOf('put', Array.from({ length: 50 }, (_, n) => of(new Uri('file', `/w/${n}.py`))), '').length, 2)
    assert.deepEqual(definitionsOf('put', undefined, ''), [])
})
