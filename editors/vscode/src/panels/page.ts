/** The frame of a page in a webview: a style sheet and a script of ours, and nothing else may be loaded or reached. */

import { randomBytes } from 'node:crypto'

import * as vscode from 'vscode'

/** A panel beside the editor that shows one of our pages. `script`: its name in dist/webview. */
export function openPage(extension: vscode.Uri, script: string, title: string): vscode.WebviewPanel {
    const roots = [vscode.Uri.joinPath(extension, 'dist', 'webview'), vscode.Uri.joinPath(extension, 'media')]
    const panel = vscode.window.createWebviewPanel(`fastcoder.${script}`, title, vscode.ViewColumn.Beside, {
        enableScripts: true,
        localResourceRoots: roots,
    })
    panel.iconPath = vscode.Uri.joinPath(extension, 'media', 'icon.png')
    panel.webview.html = html(panel.webview, extension, script, title)
    return panel
}

function html(webview: vscode.Webview, extension: vscode.Uri, script: string, title: string): string {
    const nonce = randomBytes(16).toString('base64')
    const source = webview.asWebviewUri(vscode.Uri.joinPath(extension, 'dist', 'webview', `${script}.js`)).toString()
    const style = webview.asWebviewUri(vscode.Uri.joinPath(extension, 'media', 'pages.css')).toString()
    const policy = `default-src 'none'; style-src ${webview.cspSource}; script-src 'nonce-${nonce}'`
    return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="${style}">
<title>${title}</title>
</head>
<body class="${script}"><main></main><script nonce="${nonce}" src="${source}"></script></body>
</html>`
}
