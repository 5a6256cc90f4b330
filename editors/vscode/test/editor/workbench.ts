/** VS Code (code-server) with our extension from the .vsix, shown in a headless Chromium: started, driven, looked at. */

import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import * as fs from 'node:fs'
import * as os from 'node:os'
import * as path from 'node:path'

import { chromium, type Browser, type FrameLocator, type Page } from 'playwright-core'

import { needed, ServerProgram } from './server.ts'
import { ATTEMPT_MS, exactly, freePort, inGroup, until, WAIT_MS } from './waiting.ts'

const STATUS = '[id="fastcoder-lsp.fastcoder-lsp.fastcoder.status"]'
const CHROMIUM_ARGUMENTS = [
    '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
    '--disable-component-update', '--disable-sync', '--disable-dev-shm-usage',
]
/** What keeps the editor's own noise out of the tests. */
const SETTINGS = {
    'security.workspace.trust.enabled': false,
    'chat.disableAIFeatures': true,
    'editor.inlineSuggest.enabled': true,
    'editor.quickSuggestions': { other: 'off', comments: 'off', strings: 'off' },
    'editor.suggestOnTriggerCharacters': false,
    'editor.autoClosingBrackets': 'never',
    'editor.autoClosingQuotes': 'never',
    'editor.minimap.enabled': false,
    'files.autoSave': 'off',
    'workbench.startupEditor': 'none',
    'workbench.tips.enabled': false,
    'telemetry.telemetryLevel': 'off',
    'update.mode': 'none',
    'extensions.autoUpdate': false,
    'extensions.autoCheckUpdates': false,
    'git.enabled': false,
    'workbench.secondarySideBar.defaultVisibility': 'hidden',
}
const NOTHING = 'No inline suggestion is available.'

/** What a test may start with. */
export interface Wishes {
    /** Beside the settings that all tests have. */
    readonly settings?: Readonly<Record<string, unknown>>
    /** Files of the workspace, by their name. */
    readonly files?: Readonly<Record<string, string>>
    /** The editor finds the server's program on PATH. */
    readonly onPath?: boolean
    /** Makes the folder of the extensions that it has in place of ours, within the test's own folder. */
    readonly extensions?: (folder: string) => string
}

/** Folders and a server program of one test, and the editor over them, which can be started more than once. */
export class Workbench {
    readonly folder = fs.mkdtempSync(path.join(os.tmpdir(), 'fastcoder-vscode-'))
    readonly workspace = path.join(this.folder, 'workspace')
    readonly server = new ServerProgram(this.folder)
    private host: ChildProcess | undefined
    private browser: Browser | undefined
    private shown: Page | undefined
    private readonly others: string | undefined

    constructor(wishes: Wishes = {}) {
        this.others = wishes.extensions?.(this.folder)
        fs.mkdirSync(this.workspace)
        for (const [name, content] of Object.entries(wishes.files ?? {})) {
            fs.mkdirSync(path.dirname(path.join(this.workspace, name)), { recursive: true })
            fs.writeFileSync(path.join(this.workspace, name), content)
        }
        this.setUserSettings(wishes.settings ?? {})
        this.setPath(wishes.onPath ?? true)
    }

    /** The browser's page. */
    get page(): Page {
        if (this.shown === undefined) {
            throw new Error('the editor is not open')
        }
        return this.shown
    }

    /**
     * Start the editor and wait for its window.
     *
     * @param scale pixels of the screen for one of the page's.
     */
    async open(scale = 1): Promise<void> {
        const port = await freePort()
        this.host = spawn(
            needed('FASTCODER_CODE_SERVER'),
            [...this.folders(), '--auth', 'none', '--bind-addr', `127.0.0.1:${port}`, '--disable-telemetry', '--disable-update-check', this.workspace],
            { env: this.environment(), stdio: 'ignore', detached: true },
        )
        await until(async () => (await fetch(`http://127.0.0.1:${port}/healthz`)).ok, 'code-server answers')
        const args = [...CHROMIUM_ARGUMENTS, `--force-device-scale-factor=${scale}`] // without it, recorded frames are small
        this.browser = await chromium.launch({ executablePath: needed('FASTCODER_CHROMIUM'), args, timeout: WAIT_MS })
        this.shown = await this.browser.newPage({ viewport: { width: 1280, height: 800 }, deviceScaleFactor: scale })
        this.shown.setDefaultTimeout(WAIT_MS)
        await this.page.goto(`http://127.0.0.1:${port}/?folder=${encodeURIComponent(this.workspace)}`)
        await this.page.waitForSelector(this.others === undefined ? STATUS : '.monaco-workbench')
    }

    /** An empty page of the browser, beside the editor's. */
    async blankPage(): Promise<Page> {
        if (this.browser === undefined) {
            throw new Error('the editor is not open')
        }
        return await this.browser.newPage()
    }

    /** Keep a picture of what went wrong, if it did: for `afterEach`. */
    async keepFailure(test: { readonly name: string; readonly passed?: boolean }): Promise<void> {
        if (test.passed === false && this.shown !== undefined && !this.shown.isClosed()) {
            const file = path.join(import.meta.dirname, '../../dist/failures', `${test.name.replace(/\W+/g, '-')}.png`)
            await this.shown.screenshot({ path: file })
            console.error(`a picture of it: ${file}`)
        }
    }

    /** Close the browser, and end the editor with all its processes, as a crash would. */
    async close(): Promise<void> {
        await this.browser?.close()
        this.crash()
        const host = this.host
        await until(() => host === undefined || (host.exitCode ?? host.signalCode) !== null, 'code-server ends')
    }

    /** Remove what the test made. */
    remove(): void {
        fs.rmSync(this.folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 })
    }

    /** The processes of the editor by a part of their command line. */
    editorProcesses(part: string): number[] {
        const listed = execFileSync('ps', ['-eo', 'pid=,args=', 'ww']).toString().split('\n')
        const group = this.host?.pid
        return listed.flatMap((line) => {
            const [, id, command] = /^\s*(\d+) (.*)$/.exec(line) ?? []
            return id !== undefined && command?.includes(part) === true && inGroup(Number(id), group) ? [Number(id)] : []
        })
    }

    /** Kill the whole editor as a crash would. */
    crash(): void {
        const host = this.host
        if (host?.pid !== undefined && host.signalCode === null) {
            process.kill(-host.pid, 'SIGKILL')
        }
    }

    // Files and settings -------------------------------------------------------------------------------------------

    /** The user's settings; only before the editor starts: code-server does not see this file change. */
    private setUserSettings(settings: Readonly<Record<string, unknown>>): void {
        fs.mkdirSync(path.dirname(this.settingsFile), { recursive: true })
        fs.writeFileSync(this.settingsFile, JSON.stringify({ ...SETTINGS, ...settings }))
    }

    /** This machine's settings, the only ones of machine scope that code-server takes; a running editor sees them change. */
    setMachineSettings(settings: Readonly<Record<string, unknown>>): void {
        const file = path.join(this.folder, 'user-data', 'Machine', 'settings.json')
        fs.mkdirSync(path.dirname(file), { recursive: true })
        fs.writeFileSync(file, JSON.stringify(settings))
    }

    /** The user's settings as they are now. */
    userSettings(): Record<string, unknown> {
        return JSON.parse(fs.readFileSync(this.settingsFile, 'utf8')) as Record<string, unknown>
    }

    private get settingsFile(): string {
        return path.join(this.folder, 'user-data', 'User', 'settings.json')
    }

    /** Save the active file, and read it. */
    async saved(name: string): Promise<string> {
        await this.page.keyboard.press('Control+S')
        await this.page.waitForSelector('.monaco-workbench .tab.active:not(.dirty)')
        return fs.readFileSync(path.join(this.workspace, name), 'utf8')
    }

    // What a user does ---------------------------------------------------------------------------------------------

    /** Open a file of the workspace, with the cursor at its end. */
    async openFile(name: string): Promise<void> {
        await this.pick('Control+P', name, path.basename(name))
        await this.page.locator(`.tab.active[data-resource-name="${path.basename(name)}"]`).waitFor()
        await this.page.locator('.monaco-editor .view-lines').first().waitFor()
        // An editor makes its inline suggestions when the window is idle; till then it asks nobody. Our turn comes after.
        await this.page.evaluate(async () => await new Promise((resolve) => requestIdleCallback(resolve)))
        await this.page.keyboard.press('Control+End')
    }

    /** Type, a key after the other; what is on the screen then is what belongs to the last of them. */
    async type(text: string, delayMs = 40): Promise<void> {
        await this.page.keyboard.type(text, { delay: delayMs })
        await this.page.evaluate(async () => await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))))
    }

    /** Run a command from the palette, by its title. */
    async command(title: string): Promise<void> {
        await this.pick('F1', `>${title}`, title)
    }

    /** Ask for a suggestion by our command, and wait for the answer: what is shown; empty where the editor says there is nothing. */
    async asked(): Promise<string> {
        const notice = this.page.locator('.notifications-toasts .notification-toast', { hasText: NOTHING })
        await this.command('fastcoder: Suggest Now')
        let text = ''
        await until(async () => (text = await this.ghostText()) !== '' || (await notice.isVisible()), 'an answer')
        if (text === '') {
            await notice.hover()
            await notice.locator('.codicon-notifications-clear').click()
            await notice.waitFor({ state: 'detached' })
        }
        return text
    }

    // What a user sees ---------------------------------------------------------------------------------------------

    /**
     * The ghost text on the screen; empty where there is none.
     *
     * The editor puts what belongs below the cursor's line into the page at once, and what belongs on that line with the next
     * frame; between the two there is half a suggestion, which no one sees. So all is read at one go, and only what is still
     * the same after two frames counts.
     */
    async ghostText(): Promise<string> {
        return await this.page.evaluate(async () => {
            const texts = (selector: string): string[] =>
                [...document.querySelectorAll<HTMLElement>(`.monaco-editor ${selector}`)].map((element) => element.innerText)
            const read = (): string => {
                const pieces = texts('[class*="ghost-text-decoration"]:not([class*="preview"])')
                return [pieces.join(''), ...texts('.suggest-preview-text .view-line')].join('\n').replaceAll('\u00a0', ' ')
            }
            for (;;) {
                const text = read()
                await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))
                if (read() === text) {
                    return text
                }
            }
        })
    }

    /** Wait for ghost text. */
    async untilGhost(wanted: (text: string) => boolean = (text) => text !== '', what = 'ghost text is shown'): Promise<string> {
        let text = ''
        await until(async () => wanted((text = await this.ghostText())), what)
        return text
    }

    /** What the status bar item says to a reader, and shows. */
    async status(): Promise<{ label: string; text: string }> {
        const item = this.page.locator(`${STATUS} a`)
        return { label: (await item.getAttribute('aria-label')) ?? '', text: (await item.innerText()).trim() }
    }

    /** Wait for the status bar item to say something. */
    async untilStatus(part: string, waitMs = WAIT_MS): Promise<void> {
        let label = ''
        await until(
            async () => (label = (await this.status()).label).includes(part),
            () => `the status bar says "${part}" (it says "${label}")`,
            waitMs,
        )
    }

    /** Keep every label of the status bar item from now on; the function returned gives them. */
    async watchStatus(): Promise<() => Promise<string[]>> {
        await this.page.evaluate((selector) => {
            const seen: string[] = []
            const look = (): void => {
                const label = document.querySelector(`${selector} a`)?.getAttribute('aria-label')
                if (label !== null && label !== undefined && label !== seen.at(-1)) {
                    seen.push(label)
                }
            }
            look()
            new MutationObserver(look).observe(document.body, { subtree: true, childList: true, attributes: true, attributeFilter: ['aria-label'] })
            Object.assign(window, { fastcoderSeen: seen })
        }, STATUS)
        return async () => await this.page.evaluate(() => (window as unknown as { fastcoderSeen: string[] }).fastcoderSeen)
    }

    /** Click the status bar item; the entries of its menu. */
    async menu(): Promise<string[]> {
        const rows = this.page.locator('.quick-input-list .quick-input-list-row:first-child .label-name')
        await until(async () => {
            if (!(await this.page.locator('.quick-input-widget').isVisible())) {
                await this.page.locator(`${STATUS} a`).click()
            }
            await rows.first().waitFor({ timeout: ATTEMPT_MS })
            return true
        }, 'the menu opens')
        return (await rows.allInnerTexts()).map((text) => text.trim())
    }

    /** Leave the menu. */
    async closeMenu(): Promise<void> {
        await this.page.locator('.quick-input-widget input').press('Escape')
        await this.page.locator('.quick-input-widget').waitFor({ state: 'hidden' })
        await this.page.keyboard.press('Control+1') // from the item, which was clicked, back into the text
    }

    /** Answer a dialog by one of its buttons. */
    async answer(button: string): Promise<void> {
        await this.page.locator('.monaco-dialog-box .monaco-button', { hasText: exactly(button) }).click()
    }

    /** The inside of the webview that is shown, once it holds an element. */
    async webview(selector: string): Promise<FrameLocator> {
        const inside = this.page.locator('iframe.webview.ready').last().contentFrame().locator('#active-frame').contentFrame()
        await inside.locator(selector).first().waitFor()
        return inside
    }

    /** The texts of the notifications on the screen. */
    async notifications(): Promise<string[]> {
        return await this.page.locator('.notifications-toasts .notification-list-item-message').allInnerTexts()
    }

    /** Type into one of the editor's pickers, and click the entry with that name; a busy window may drop a key, or a click. */
    private async pick(key: string, input: string, name: string): Promise<void> {
        const picker = this.page.locator('.quick-input-widget')
        const entry = this.page.locator('.quick-input-list .monaco-list-row .label-name', { hasText: exactly(name) }).first()
        const attempt = { timeout: ATTEMPT_MS }
        await until(async () => {
            if (!(await picker.isVisible())) {
                await this.page.keyboard.press(key)
                await picker.waitFor({ timeout: ATTEMPT_MS / 10 }) // the key again does no harm
            }
            await picker.locator('.quick-input-box input').fill(input, attempt)
            await entry.click(attempt)
            await entry.waitFor({ state: 'hidden', ...attempt }) // the picker itself stays where the entry opens another list
            return true
        }, `${name} is picked`)
    }

    private folders(): string[] {
        return ['--user-data-dir', path.join(this.folder, 'user-data'), '--extensions-dir', this.others ?? needed('FASTCODER_EXTENSIONS')]
    }

    private environment(): NodeJS.ProcessEnv {
        return { ...process.env, HOME: this.folder, SHELL: '/bin/bash' }
    }

    /** The editor asks the user's login shell for PATH, as on a desktop. */
    private setPath(withServer: boolean): void {
        const folders = [...(withServer ? [path.dirname(this.server.program)] : []), '/usr/local/bin', '/usr/bin', '/bin']
        fs.writeFileSync(path.join(this.folder, '.bash_profile'), `export PATH='${folders.join(':')}'\n`)
    }
}
