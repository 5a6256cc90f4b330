/** The walkthrough's progress: which of its steps are done, and opening it by itself the one time it is of use. */

import * as vscode from 'vscode'

import type { Condition } from './shared/presentation.ts'

const OPENED = 'walkthroughOpened'

export interface FirstSteps {
    /** The condition changed: steps may be done, or the walkthrough be needed. */
    follow(condition: Condition): void
    /** A suggestion was shown. */
    suggested(): void
    /** The model was downloaded: its step is done before the model has loaded. */
    downloaded(): void
    /** Show the walkthrough. */
    open(): Promise<void>
}

/** @param context keeps whether the walkthrough has opened by itself. */
export function firstSteps(context: vscode.ExtensionContext): FirstSteps {
    const done = new Set<string>()
    const mark = (step: string, value: boolean): void => {
        if (done.has(step) !== value) {
            void vscode.commands.executeCommand('setContext', `fastcoder.${step}`, value)
            done[value ? 'add' : 'delete'](step)
        }
    }
    const open = async (): Promise<void> => {
        await vscode.commands.executeCommand('workbench.action.openWalkthrough', `${context.extension.id}#start`, false)
        for (const step of [...done]) { // the editor ticks off only what becomes true before its eyes
            mark(step, false)
            mark(step, true)
        }
    }
    return {
        open,
        follow(condition) {
            const running = condition.kind === 'running'
            const state = running ? condition.status.state : undefined
            mark('running', running)
            mark('serverFound', running || done.has('serverFound'))
            mark('modelReady', state === 'ready' || state === 'thinking' || done.has('modelReady'))
            // Not for a missing model: that shows while one types, and a page that opens then takes the keys.
            if (condition.kind === 'missing' && context.globalState.get(OPENED) !== true) {
                void context.globalState.update(OPENED, true)
                void open()
            }
        },
        suggested() {
            mark('suggested', true)
        },
        downloaded() {
            mark('modelReady', false)
            mark('modelReady', true)
        },
    }
}
