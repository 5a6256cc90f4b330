/** Another extension beside ours, which offers to import every name of Python code that begins with `offered`. */

import { execFileSync } from 'node:child_process'
import * as fs from 'node:fs'
import * as path from 'node:path'

import { needed, ROOT } from './server.ts'

const MANIFEST = {
    name: 'importer',
    publisher: 'test',
    version: '0.0.1',
    engines: { vscode: '^1.91.0' },
    activationEvents: ['onLanguage:python'],
    main: './main.js',
    files: ['main.js'],
}
const MAIN = `
const vscode = require('vscode')
exports.activate = () => vscode.languages.registerCodeActionsProvider('python', {
    provideCodeActions(document, range) {
        const name = document.getText(range)
        const action = new vscode.CodeAction('Import ' + name, vscode.CodeActionKind.QuickFix)
        action.edit = new vscode.WorkspaceEdit()
        action.edit.insert(document.uri, new vscode.Position(0, 0), 'import ' + name + '\\n')
        return name.startsWith('offered') ? [action] : []
    },
})
`

/** Install it beside ours; the folder of both. */
export function withImporter(folder: string): string {
    const source = path.join(folder, 'importer')
    const extensions = path.join(folder, 'extensions')
    const vsix = path.join(folder, 'importer.vsix')
    fs.mkdirSync(source)
    fs.writeFileSync(path.join(source, 'package.json'), JSON.stringify(MANIFEST))
    fs.writeFileSync(path.join(source, 'main.js'), MAIN)
    const run = (program: string, ...words: string[]): void => {
        execFileSync(program, words, { cwd: source, stdio: ['ignore', 'ignore', 'inherit'], env: { ...process.env, HOME: folder } })
    }
    run(path.join(ROOT, 'editors/vscode/node_modules/.bin/vsce'), 'package', '--no-dependencies', '--allow-missing-repository', '--skip-license', '--out', vsix)
    fs.cpSync(needed('FASTCODER_EXTENSIONS'), extensions, { recursive: true })
    run(needed('FASTCODER_CODE_SERVER'), '--user-data-dir', path.join(folder, 'installing'), '--extensions-dir', extensions, '--install-extension', vsix)
    return extensions
}
