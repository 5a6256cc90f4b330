import assert from 'node:assert/strict'
import { test } from 'node:test'

import { explicitSettings, explicitValue, languageSettings, type Inspected } from '../../src/configuration.ts'
import type { ServerSetting } from '../../src/generated/settings.ts'

const machine: ServerSetting = { name: 'model', scope: 'machine', default: 'auto' }
const workspace: ServerSetting = { name: 'popup.budget_ms', scope: 'workspace', default: 500 }
const flag: ServerSetting = { name: 'enabled', scope: 'narrow', default: true }
const limit: ServerSetting = { name: 'read.max_files', scope: 'narrow', default: 100 }
const middle: ServerSetting = { name: 'context.enabled', scope: 'narrow', default: 'auto' }
const names: ServerSetting = { name: 'read.exclude', scope: 'narrow', default: [] }

void test('what nobody set is not sent, so that a fastcoder.toml holds', () => {
    assert.deepEqual(explicitSettings(() => ({})), {})
    assert.deepEqual(explicitSettings((name) => (name === 'popup.enabled' ? { globalValue: true } : undefined)), { 'popup.enabled': true })
})

void test('what is set for a language goes by its name', () => {
    const settings = languageSettings((name, language) => {
        if (name !== 'quiet.lines') {
            return undefined
        }
        return language === undefined ? { languageIds: ['python', 'c'] } : { globalLanguageValue: language === 'c' ? undefined : 1 }
    })
    assert.deepEqual(settings, { 'languages.python.quiet.lines': 1 })
})

void test('the strongest place wins where a workspace may set anything', () => {
    assert.equal(explicitValue(workspace, { globalValue: 1, workspaceValue: 2, workspaceFolderValue: 3 }), 3)
    assert.equal(explicitValue(workspace, { globalValue: 1 }), 1)
})

void test('a workspace names no model, even where the editor would let it', () => {
    assert.equal(explicitValue(machine, { workspaceValue: 'theirs' }), undefined)
    assert.equal(explicitValue(machine, { globalValue: 'mine', workspaceValue: 'theirs' }), 'mine')
})

void test('a workspace can make things stricter only', () => {
    const cases: [ServerSetting, Inspected, unknown][] = [
        [flag, { workspaceValue: false }, false],
        [flag, { workspaceValue: true }, undefined],
        [flag, { globalValue: false, workspaceValue: true }, false],
        [flag, { globalValue: true, workspaceFolderValue: false }, false],
        [middle, { workspaceValue: 'auto' }, undefined],
        [middle, { workspaceValue: true }, undefined],
        [middle, { workspaceValue: false }, false],
        [middle, { globalValue: false, workspaceValue: 'auto' }, false],
        [middle, { globalValue: 'auto', workspaceValue: true }, 'auto'],
        [middle, { globalValue: 'auto', workspaceValue: false }, false],
        [middle, { globalValue: true, workspaceValue: 'auto' }, 'auto'],
        [middle, { globalValue: true, workspaceValue: 'auto', workspaceFolderValue: true }, 'auto'],
        [middle, { globalValue: true, workspaceValue: 'perhaps' }, 'perhaps'],
        [limit, { workspaceValue: 50 }, 50],
        [limit, { workspaceValue: 500 }, undefined],
        [limit, { globalValue: 1000, workspaceValue: 500 }, 500],
        [limit, { globalValue: 10, workspaceValue: 50, workspaceFolderValue: 20 }, 10],
        [names, { globalValue: ['a'], workspaceValue: ['b', 'a'], workspaceFolderValue: ['c'] }, ['a', 'b', 'c']],
    ]
    for (const [setting, inspected, wanted] of cases) {
        assert.deepEqual(explicitValue(setting, inspected), wanted, JSON.stringify([setting.name, inspected]))
    }
})

void test('what is of the wrong type goes to the server, which reports it', () => {
    assert.equal(explicitValue(limit, { workspaceValue: 'many' }), 'many')
    assert.equal(explicitValue(workspace, { globalValue: 'soon' }), 'soon')
})
