/** The walkthrough's progress: which of its steps are done, and opening it by itself the one time it is of use. */

import * as vscode from 'vscode'

import type { Condition } from './shared/condition.ts'

const OPENED = 'walkthroughOpened'

export interface FirstSteps {
    /** The condition changed: steps may be done, or the walkthrough be needed. */
    follow(condition: Condition): void
    /** A suggestion was shown. */
    suggested(): void
}

export function openWalkthrough(context: vscode.ExtensionContext): void {
    void vscode.commands.executeCommand('workbench.action.openWalkthrough', `${context.extension.id}#start`, false)
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
    return {
        follow(condition) {
            const running = condition.kind === 'running'
            const state = running ? condition.status.state : undefined
            mark('running', running)
            mark('serverFound', running || done.has('serverFound'))
            mark('modelReady', state === 'ready' || state === 'thinking' || done.has('modelReady'))
            const needed = condition.kind === 'missing' || state === 'error'
            if (needed && context.globalState.get(OPENED) !== true) {
                void context.globalState.update(OPENED, true)
                openWalkthrough(context)
            }
        },
        suggested() {
            mark('suggested', true)
        },
    }
}
