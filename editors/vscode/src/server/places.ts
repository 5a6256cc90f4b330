/** Where to look for the server in this window: the editor's side of `find.ts`. */

import * as fs from 'node:fs'
import * as os from 'node:os'
import * as path from 'node:path'

import * as vscode from 'vscode'

import { findServer, type Candidate } from './find.ts'

/** The parts of the Python extension's interface that are used here. */
interface PythonExtension {
    readonly environments?: {
        getActiveEnvironmentPath(resource?: vscode.Uri): { readonly path: string }
        resolveEnvironment(
            environment: unknown,
        ): Promise<{ readonly executable: { readonly uri?: vscode.Uri } } | undefined>
    }
}

/** The folder of the environment that this extension makes for the server. */
export function ownEnvironment(context: vscode.ExtensionContext): string {
    return path.join(context.globalStorageUri.fsPath, 'server')
}

/** Look for the server; undefined where it is nowhere. */
export async function locateServer(context: vscode.ExtensionContext): Promise<Candidate | undefined> {
    const trusted = vscode.workspace.isTrusted
    const folders = vscode.workspace.workspaceFolders?.filter((folder) => folder.uri.scheme === 'file') ?? []
    const places = {
        setting: vscode.workspace.getConfiguration('fastcoder').get('server.path', ''),
        trusted,
        folders: folders.map((folder) => folder.uri.fsPath),
        interpreter: trusted ? await pythonInterpreter(folders[0]?.uri) : undefined,
        search: process.env.PATH ?? '',
        ownEnvironment: ownEnvironment(context),
        home: os.homedir(),
        windows: process.platform === 'win32',
    }
    return findServer(places, isProgram)
}

/** Whether there is a file that may be run. */
export function isProgram(file: string): boolean {
    try {
        fs.accessSync(file, fs.constants.X_OK)
        return fs.statSync(file).isFile()
    } catch {
        return false
    }
}

/** The interpreter that the user chose in the Python extension, if there is that extension. */
async function pythonInterpreter(resource: vscode.Uri | undefined): Promise<string | undefined> {
    const extension = vscode.extensions.getExtension<PythonExtension>('ms-python.python')
    try {
        const environments = (extension?.isActive === false ? await extension.activate() : extension?.exports)?.environments
        const chosen = environments?.getActiveEnvironmentPath(resource)
        return (await environments?.resolveEnvironment(chosen))?.executable.uri?.fsPath
    } catch {
        return undefined // it is somebody else's, and we can do without
    }
}
