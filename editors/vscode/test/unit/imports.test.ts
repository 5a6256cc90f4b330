import assert from 'node:assert/strict'
import { test } from 'node:test'

import { readProposal } from '../../src/shared/edits.ts'
import { areOffered, imports, type OfferedAction, type Others } from '../../src/shared/imports.ts'

const LONG = 60_000
const NAME = 'format_money'
const at = { start: { line: 4, character: 11 }, end: { line: 4, character: 23 } }
const names = [{ name: 'Price', ...at }, { name: NAME, ...at }]

function fix(title: string, ...texts: string[]): OfferedAction {
    return { title, kind: 'quickfix', texts: texts.length === 0 ? undefined : texts, hasCommand: false }
}

void test('an action that imports the name, as servers say it', () => {
    const importing = [
        fix('Add import from "./money"', `import { ${NAME} } from "./money";\n`),
        fix('Update import from "./money"', `, ${NAME}`),
        fix(`Import '${NAME}' (shop.money)`),
        fix(`Include "money.h" for symbol ${NAME}`, '#include "money.h"\n'),
        fix('consider importing this function', `use shop::${NAME};\n`),
        fix('Add', `const { ${NAME} } = require("./money")\n`),
        { title: 'Add all missing imports', kind: 'source.addMissingImports.ts', texts: [`{ ${NAME} }`], hasCommand: false },
        { title: 'Add all missing imports', kind: 'source.addMissingImports', texts: undefined, hasCommand: true },
    ]
    assert.deepEqual(importing.filter((action) => !imports(action, NAME)), [])
})

void test('an action that does something else', () => {
    const others = [
        fix(`Add missing function declaration '${NAME}'`, `function ${NAME}() {}\n`),
        fix(`Change spelling to '${NAME}s'`, `${NAME}s`),
        fix('Remove unused import', ''),
        fix('Add import from "./price"', 'import { Price } from "./price";\n'),
        fix(`Add "${NAME}" to user dictionary`),
        { title: 'Add all missing imports', kind: 'source.addMissingImports.ts', texts: undefined, hasCommand: false },
        { title: 'Add all missing imports', kind: 'source.addMissingImports.ts', texts: ['import { Price }'], hasCommand: false },
    ]
    assert.deepEqual(others.filter((action) => imports(action, NAME)), [])
})

void test('the names of an answer; what is none is passed over', () => {
    const edit = { text: 'x', range: at, textDocument: { uri: 'file:///w/a.py', version: 7 } }
    const read = (imports: unknown): unknown => readProposal({ edits: [edit], imports })?.imports
    assert.deepEqual(read([{ name: NAME, range: at }, { name: NAME }, null]), [{ name: NAME, ...at }])
    assert.deepEqual(read(undefined), [])
})

/** Others that offer to import a name after so many reports; without a number they report nothing. */
class Extensions implements Others {
    readonly asked: string[] = []
    readonly onReport: Others['onReport']
    private readonly offered: string
    private readonly from: number
    private listener: (() => void) | undefined
    private reports = 0

    constructor(offered: string, from?: number) {
        this.offered = offered
        this.from = from ?? 0
        this.onReport = from === undefined ? undefined : (listener) => this.listen(listener)
    }

    readonly actions = async ({ name }: { name: string }, kind: string): Promise<OfferedAction[]> => {
        this.asked.push(`${kind} ${name}`)
        const isOffered = kind === 'quickfix' && name === this.offered && this.reports >= this.from
        return await Promise.resolve(isOffered ? [fix(`Import ${name}`)] : [])
    }

    tell(): void {
        this.reports += 1
        this.listener?.()
    }

    private listen(listener: () => void): () => void {
        this.listener = listener
        return () => {
            this.listener = undefined
        }
    }
}

async function turns(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve))
}

void test('one name after the other, until one is offered', async () => {
    const others = new Extensions('Price')
    assert.equal(await areOffered(names, others, LONG), true)
    assert.ok(!others.asked.includes(`quickfix ${NAME}`), String(others.asked))
})

void test('they are asked again when they have reported the problem, though an answer is open', async () => {
    const others = new Extensions(NAME, 1)
    const open: Others = {
        onReport: others.onReport,
        actions: async (name, kind) => {
            const answer = await others.actions(name, kind)
            return others.asked.length <= 2 ? await new Promise(() => undefined) : answer
        },
    }
    const found = areOffered(names, open, LONG)
    await turns()
    others.tell()
    assert.equal(await found, true)
})

void test('nothing is waited for where nobody reports problems, or who is asked fails', async () => {
    assert.equal(await areOffered(names, new Extensions(''), LONG), false)
    const failing: Others = { actions: async () => await Promise.reject(new Error('no')), onReport: undefined }
    assert.equal(await areOffered(names, failing, LONG), false)
})

void test('what comes late is not waited for, and nobody is asked any more', async () => {
    const others = new Extensions('', 0)
    assert.equal(await areOffered(names, others, 5), false)
    const asked = others.asked.length
    assert.equal(asked, 4)
    others.tell()
    await turns()
    assert.equal(others.asked.length, asked)
    const silent: Others = { actions: async () => await new Promise(() => undefined), onReport: undefined }
    assert.equal(await areOffered(names, silent, 5), false)
})
