/**
 * A suggestion that came too late for its own question is asked for again once it is there: the server says so
 * (`fastcoder/late`), or the model has been loaded meanwhile. The editor itself asks only when something is typed.
 *
 * The editor takes a question "as if typed" at a place where it has asked for answered, whatever the answer was, but only
 * if it has asked the same providers. So one of our own is registered, newly for each such question, and asked alone: it
 * asks the client's. What it brings takes the place of what is shown without a gap; and since nobody has asked by a key yet,
 * the key for the next suggestion asks the server for others as it does after typing. A question by a key would not do:
 * the editor would take its answer for all there is.
 *
 * Older editors cannot be made to ask one provider alone, nor as if typed: they ask all as by a key. The server is told
 * that it is as if typed, for such a question makes it look for alternatives; and where a beginning is shown, which stays
 * before what such a question brings, the editor is made to go on to the next one, which is the same and longer.
 */

import * as vscode from 'vscode'

import type { Condition } from './shared/presentation.ts'
import type { Outcome } from './shared/history.ts'
import type { LatePlace } from './shared/protocol.ts'

/** Asks the server as the client does for the editor; undefined while there is none. */
export type ProviderOf = (document: vscode.TextDocument) => vscode.InlineCompletionItemProvider | undefined

export class LateSuggestions implements vscode.Disposable {
    private missed: { readonly uri: string; readonly version: number } | undefined
    /** What we make the editor ask, one question after the other: two at once would take each other's answers. */
    private questions: Promise<void> = Promise.resolve()
    /** The question of ours that the editor works on. */
    private asking: OwnQuestion | undefined
    /** Where the user has asked by a key and has no answer yet. */
    private awaited: Place | undefined
    /** Where something is shown, as far as we know: the editor does not tell. */
    private shown: Place | undefined
    /** Of the last question, and of the one before, whose answer may be shown until the last one is answered. */
    private registered: readonly vscode.Disposable[] = []
    private readonly provider: string

    /**
     * @param extensionId by which the editor knows our providers among others.
     * @param providerOf what asks the server.
     */
    constructor(
        extensionId: string,
        private readonly providerOf: ProviderOf,
    ) {
        this.provider = `${extensionId}:*`
    }

    dispose(): void {
        for (const registration of this.registered) {
            registration.dispose()
        }
    }

    /** A request was answered. */
    answered(
        outcome: Outcome,
        document: vscode.TextDocument,
        position: vscode.Position,
        context: vscode.InlineCompletionContext,
        condition: Condition,
    ): void {
        if (context.triggerKind === vscode.InlineCompletionTriggerKind.Invoke) {
            this.awaited = undefined
        }
        if (outcome === 'shown') {
            this.missed = undefined
            this.shown = placeOf(document, position)
        } else if (outcome === 'empty') {
            this.shown = undefined
        }
        if (outcome !== 'shown' && isLoading(condition) && vscode.window.activeTextEditor?.document === document) {
            this.missed = { uri: document.uri.toString(), version: document.version }
        }
    }

    /** The condition changed; when the model is there, and nothing was typed since, ask. */
    follow(condition: Condition): void {
        if (this.missed === undefined || isLoading(condition)) {
            return
        }
        const { uri, version } = this.missed
        this.missed = undefined
        const place = presentPlace()
        if (condition.kind === 'running' && condition.status.state === 'ready' && place?.uri === uri && place.version === version) {
            void this.ask(place)
        }
    }

    /** The server has made what belongs at a place; if the cursor is there still, ask. */
    async told(late: LatePlace): Promise<void> {
        const place = presentPlace()
        if (place === undefined || !same(place, { ...late, uri: vscode.Uri.parse(late.uri).toString() })) {
            return
        }
        // What the user has asked for by a key holds all that is there by now.
        if (this.awaited === undefined || !same(this.awaited, place)) {
            await this.ask(place)
        }
    }

    /** The question that goes to the server in place of the editor's. */
    asIfTyped(
        document: vscode.TextDocument,
        position: vscode.Position,
        context: vscode.InlineCompletionContext,
    ): vscode.InlineCompletionContext {
        if (context.triggerKind !== vscode.InlineCompletionTriggerKind.Invoke) {
            return context
        }
        const place = placeOf(document, position)
        if (this.asking === undefined || !same(this.asking.place, place)) {
            this.awaited = place
            return context
        }
        this.asking.asked = 'as by a key'
        return { ...context, triggerKind: vscode.InlineCompletionTriggerKind.Automatic }
    }

    private ask(place: Place): Promise<void> {
        const ask = async (): Promise<void> => {
            await this.askNow(place)
        }
        this.questions = this.questions.then(ask, ask)
        return this.questions
    }

    private async askNow(place: Place): Promise<void> {
        let wanted: Place | undefined = place
        while (wanted !== undefined && isPresent(wanted)) {
            // Where the user has typed on meanwhile, the editor gave its own question up for ours, which nobody answered.
            wanted = (await this.askAt(wanted)) ? undefined : presentPlace()
        }
    }

    /** Let the editor ask at the cursor's place; whether it did: else the user has typed on. */
    private async askAt(place: Place): Promise<boolean> {
        const document = vscode.window.activeTextEditor?.document
        if (document === undefined) {
            return false
        }
        const isBeginning = this.shown !== undefined && same(this.shown, place)
        const question: OwnQuestion = { place }
        this.register(document, question)
        const trigger = ['trigger', { explicit: false, providerId: this.provider }] as const
        await this.runAsIfTyped(question, ...trigger)
        if (question.asked === undefined && isPresent(place)) {
            // An older editor where the user has asked by the key before: it has to forget first.
            await vscode.commands.executeCommand('editor.action.inlineSuggest.hide')
            await this.runAsIfTyped(question, ...trigger)
        }
        if (question.asked === 'as by a key' && isBeginning) {
            await this.runAsIfTyped(question, 'showNext')
        }
        return question.asked !== undefined || isPresent(place)
    }

    /**
     * A provider that the editor has not asked yet, the first of ours to be found for the document. Only a call of this
     * one shows that the editor works on the question: one that the editor asks by itself calls the older ones too.
     */
    private register(document: vscode.TextDocument, question: OwnQuestion): void {
        const { scheme } = document.uri
        const registration = vscode.languages.registerInlineCompletionItemProvider({ scheme, language: document.languageId }, {
            provideInlineCompletionItems: async (of, position, context, token) => {
                const isAsIfTyped = context.triggerKind === vscode.InlineCompletionTriggerKind.Automatic
                if (!isAsIfTyped || this.asking !== question || !same(question.place, placeOf(of, position))) {
                    return [] // the client's own is asked as well
                }
                question.asked = 'alone'
                return await this.providerOf(of)?.provideInlineCompletionItems(of, position, context, token)
            },
        })
        const [last, ...older] = this.registered
        this.registered = last === undefined ? [registration] : [registration, last]
        for (const unused of older) {
            unused.dispose()
        }
    }

    /** Let the editor do something with its suggestions; what it asks of us meanwhile is as if typed. */
    private async runAsIfTyped(question: OwnQuestion, action: string, ...args: unknown[]): Promise<void> {
        this.asking = question
        try {
            await vscode.commands.executeCommand(`editor.action.inlineSuggest.${action}`, ...args)
        } finally {
            this.asking = undefined
        }
    }
}

/** Where we make the editor ask, and how it did. */
interface OwnQuestion {
    readonly place: Place
    asked?: 'alone' | 'as by a key'
}

interface Place {
    readonly uri: string
    readonly version: number
    readonly line: number
    readonly character: number
}

function placeOf(document: vscode.TextDocument, position: vscode.Position): Place {
    return { uri: document.uri.toString(), version: document.version, line: position.line, character: position.character }
}

/** Where the cursor is; undefined where nothing can be suggested: no editor, or a selection. */
function presentPlace(): Place | undefined {
    const editor = vscode.window.activeTextEditor
    return editor?.selection.isEmpty === true ? placeOf(editor.document, editor.selection.active) : undefined
}

/** Whether the cursor is there, in this version of the document. */
function isPresent(place: Place): boolean {
    const here = presentPlace()
    return here !== undefined && same(here, place)
}

function same(first: Place, second: Place): boolean {
    return (
        first.uri === second.uri &&
        first.version === second.version &&
        first.line === second.line &&
        first.character === second.character
    )
}

function isLoading(condition: Condition): boolean {
    return condition.kind === 'running' && condition.status.state === 'loading'
}
