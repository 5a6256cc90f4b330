import assert from 'node:assert/strict'
import { test } from 'node:test'

import { Asking, type Round } from '../../src/shared/definitions.ts'

const LONG = 60_000
const names = ['put', 'store', 'key'].map((name, line) => ({ name, line, character: 0 }))
const place = (line: number): object => ({ uri: 'file:///w/a.py', range: { start: { line, character: 0 }, end: { line, character: 1 } } })

/** An extension that answers when it is told to. */
class Extension {
    readonly open: { line: number; answer: (value: unknown) => void; fail: () => void }[] = []
    asked = 0

    readonly ask = async ({ line }: { line: number }): Promise<unknown> => {
        this.asked += 1
        return await new Promise((answer, reject) => {
            this.open.push({ line, answer, fail: () => { reject(new Error('no')) } })
        })
    }

    /** Answers all, one after the other, as they come. */
    async answers(): Promise<void> {
        for (let next = this.open.shift(); next !== undefined; next = this.open.shift()) {
            next.answer([place(next.line)])
            await turns()
        }
    }

    round(ms = LONG, wanted = (): boolean => true, language = 'python'): Round {
        return { language, own: 'file:///w/own.py', names, ask: this.ask, ms, wanted }
    }
}

/** Lets all go on that can. */
async function turns(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve))
}

void test('one name after the other; one that fails costs that name', async () => {
    const extension = new Extension()
    const found = new Asking().definitions(extension.round())
    assert.equal(extension.asked, 1)
    extension.open.shift()?.fail()
    await turns()
    assert.equal(extension.asked, 2)
    await extension.answers()
    assert.deepEqual((await found)?.map(({ name, range }) => [name, range.start.line]), [['store', 1], ['key', 2]])
})

void test('who never answers is asked once, whatever is wanted later', async () => {
    const [extension, asking] = [new Extension(), new Asking()]
    assert.deepEqual(await asking.definitions(extension.round(1)), [])
    for (let round = 0; round < 5; round += 1) {
        assert.equal(await asking.definitions(extension.round(1)), undefined)
    }
    assert.equal(extension.asked, 1)
    const other = new Extension()
    const found = asking.definitions(other.round(LONG, () => true, 'go'))
    await other.answers()
    assert.equal((await found)?.length, 3, 'another language is asked of others')
    extension.open.shift()?.answer([])
    const late = asking.definitions(extension.round())
    await turns()
    await extension.answers()
    assert.equal((await late)?.length, 3, 'after its answer it is asked again')
})

void test('who types gives up what is not asked yet, and the next round waits for the question that is open', async () => {
    const [extension, asking] = [new Extension(), new Asking()]
    let round = 1
    const first = asking.definitions(extension.round(LONG, () => round === 1))
    round = 2
    const second = asking.definitions(extension.round(LONG, () => round === 2))
    round = 3
    const third = asking.definitions(extension.round(LONG, () => round === 3))
    await turns()
    assert.equal(extension.asked, 1)
    await extension.answers()
    assert.deepEqual([await first, await second], [undefined, undefined])
    assert.equal((await third)?.length, 3)
    assert.equal(extension.asked, 4)
})
