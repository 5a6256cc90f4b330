import assert from 'node:assert/strict'
import { test } from 'node:test'

import * as esbuild from 'esbuild'

interface Late {
    told(place: object): Promise<void>
}

/** The module, bundled around an editor that the test plays. */
async function lateSuggestions(editor: object, providerOf: () => object): Promise<Late> {
    Object.assign(globalThis, { playedEditor: editor })
    const vscode = `export const { Uri, window, commands, languages, InlineCompletionTriggerKind } = globalThis.playedEditor`
    const bundled = await esbuild.build({
        entryPoints: [`${import.meta.dirname}/../../src/late.ts`],
        bundle: true,
        write: false,
        format: 'esm',
        plugins: [
            {
                name: 'vscode',
                setup: (build) => {
                    build.onResolve({ filter: /^vscode$/ }, () => ({ path: 'vscode', namespace: 'played' }))
                    build.onLoad({ filter: /./, namespace: 'played' }, () => ({ contents: vscode }))
                },
            },
        ],
    })
    const code = Buffer.from(bundled.outputFiles[0]?.contents ?? []).toString('base64')
    const { LateSuggestions } = (await import(`data:text/javascript;base64,${code}`)) as { LateSuggestions: new (...args: unknown[]) => Late }
    return new LateSuggestions('fastcoder', providerOf)
}

/** An editor at the end of a line; `run` is what it does when it is made to ask. */
class Editor {
    readonly providers: { provideInlineCompletionItems(...args: unknown[]): unknown }[] = []
    run: () => void = () => { this.ask(this.providers.slice(-1)) }
    readonly document = { uri: 'file:///a.py', languageId: 'python', version: 1 }
    readonly position = { line: 0, character: 1 }
    readonly InlineCompletionTriggerKind = { Invoke: 0, Automatic: 1 }
    readonly Uri = { parse: (uri: string): string => uri }
    readonly window = { activeTextEditor: { document: this.document, selection: { isEmpty: true, active: this.position } } }
    readonly commands = {
        executeCommand: async (): Promise<void> => {
            this.run()
            await Promise.resolve()
        },
    }
    readonly languages = {
        registerInlineCompletionItemProvider: (_: object, provider: Editor['providers'][number]): object => {
            this.providers.push(provider)
            return { dispose: () => undefined }
        },
    }

    ask(providers: Editor['providers']): void {
        for (const provider of providers) {
            void provider.provideInlineCompletionItems(this.document, this.position, { triggerKind: 1 }, {})
        }
    }

    /** Type a key. */
    type(): void {
        this.document.version += 1
        this.position.character += 1
    }

    here(): object {
        return { uri: this.document.uri, version: this.document.version, ...this.position }
    }
}

void test('where the user types on while the editor asks by itself, the new place is asked for', async () => {
    const editor = new Editor()
    const asked: number[] = []
    const late = await lateSuggestions(editor, () => ({ provideInlineCompletionItems: () => asked.push(editor.document.version) }))
    await late.told(editor.here())
    assert.deepEqual(asked, [1])
    editor.run = () => {
        editor.run = () => { editor.ask(editor.providers.slice(-1)) }
        editor.ask(editor.providers.slice(0, 1)) // its own question for the place, which calls our older providers
        editor.type()
        editor.ask(editor.providers.slice(-1)) // ours comes after the key, and replaces its question for the new place
    }
    await late.told(editor.here())
    assert.equal(asked.at(-1), 2)
})
