/** An edit that waits for the user's word, with all of its places ticked in the editor's preview. Pure. */

import type { WorkspaceEdit } from 'vscode-languageclient/node'

const PREVIEW = 'fastcoder.preview'

/**
 * The same edit for an editor that unticks each place which needs confirmation (microsoft/vscode#207578).
 *
 * In place of the places, the creation of a file that exists needs it: the preview opens, and does not list that. It is
 * unticked like all that need confirmation, so the editor never runs it.
 */
export function ticked(edit: WorkspaceEdit): WorkspaceEdit {
    const { changeAnnotations: all = {}, documentChanges: changes = [] } = edit
    const waiting = Object.values(all).find(({ needsConfirmation }) => needsConfirmation)
    const files = changes.filter((change) => 'textDocument' in change).map(({ textDocument }) => textDocument)
    const existing = files.find(({ version }) => version === null) ?? files[0] // an open one may not be saved yet
    if (waiting === undefined || existing === undefined) {
        return edit
    }
    const confirmed = Object.entries(all).map(([name, annotation]) => [name, { ...annotation, needsConfirmation: false }] as const)
    return {
        ...edit,
        documentChanges: [{ kind: 'create', uri: existing.uri, options: { ignoreIfExists: true }, annotationId: PREVIEW }, ...changes],
        changeAnnotations: { ...Object.fromEntries(confirmed), [PREVIEW]: waiting },
    }
}
