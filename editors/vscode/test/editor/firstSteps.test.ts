/** The first start: no server anywhere, installing one, and a workspace that is not trusted. */

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import * as fs from 'node:fs'
import * as path from 'node:path'
import { after, afterEach, before, test } from 'node:test'

import { python } from './server.ts'
import { until, WAIT_MS } from './waiting.ts'
import { Workbench } from './workbench.ts'

const SAYS = 'suggested = 1'
const editor = new Workbench({ files: { 'a.py': '' }, onPath: false })

/** Makes a wheel whose program `fastcoder-lsp` runs the program that is named. */
const MAKE_WHEEL = `
import sys, zipfile
wheel, program = sys.argv[1:]
info = "fastcoder_lsp-0.1.0.dist-info/"
with zipfile.ZipFile(wheel, "w") as out:
    out.writestr("started.py", f"import os, sys\\ndef main():\\n"
        f"    os.execv({program!r}, [{program!r}, *sys.argv[1:]])\\n")
    out.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: fastcoder-lsp\\nVersion: 0.1.0\\n")
    out.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    out.writestr(info + "entry_points.txt", "[console_scripts]\\nfastcoder-lsp = started:main\\n")
    out.writestr(info + "RECORD", "")
`

before(async () => {
    editor.server.scripted('--says', SAYS)
    const wheel = path.join(editor.folder, 'fastcoder_lsp-0.1.0-py3-none-any.whl')
    execFileSync(python, ['-c', MAKE_WHEEL, wheel, editor.server.program])
    editor.setMachineSettings({ 'fastcoder.server.package': wheel, 'fastcoder.server.python': python })
    await editor.open()
})
afterEach(async (test) => {
    await editor.keepFailure(test)
})
after(async () => {
    await editor.close()
    editor.remove()
})

void test('without a server the item and one notice say so, and the walkthrough opens', async () => {
    await editor.untilStatus('not installed')
    assert.deepEqual(await editor.notifications(), ['fastcoder: The server fastcoder-lsp is not installed.'])
    await editor.page.getByText('Get started with fastcoder').first().waitFor()
    assert.match((await editor.menu())[0] ?? '', /Install the Server/)
    await editor.closeMenu()
    assert.deepEqual(editor.server.processes(), [])
})

void test('it is installed on request into an environment of its own, and started', async () => {
    await editor.command('fastcoder: Install the Server')
    await editor.answer('Install')
    await editor.untilStatus('Ready to load the model', 4 * WAIT_MS)
    const own = path.join(editor.folder, 'user-data/User/globalStorage/fastcoder-lsp.fastcoder-lsp/server/bin/fastcoder-lsp')
    assert.ok(fs.existsSync(own))
    assert.equal(editor.server.processes().length, 1)
    await editor.openFile('a.py')
    await editor.type('y')
    await editor.untilGhost((text) => text === SAYS)
})

void test('a workspace that is not trusted names no program; trusted, it does', async () => {
    const careful = new Workbench({
        onPath: false,
        settings: { 'security.workspace.trust.enabled': true, 'security.workspace.trust.startupPrompt': 'never' },
    })
    try {
        careful.server.scripted('--says', SAYS)
        const inside = path.join(careful.workspace, '.venv', 'bin')
        fs.mkdirSync(inside, { recursive: true })
        fs.symlinkSync(careful.server.program, path.join(inside, 'fastcoder-lsp'))
        await careful.open()
        await careful.untilStatus('not installed')
        assert.deepEqual(careful.server.processes(), [])
        await careful.command('Workspaces: Manage Workspace Trust')
        await careful.page.locator('.workspace-trust-editor .monaco-button', { hasText: 'Trust' }).first().click()
        await until(() => careful.server.processes().length === 1, "the workspace's server runs")
        await careful.untilStatus('Ready to load the model')
    } finally {
        await careful.close()
        careful.remove()
    }
})
