/**
 * Which settings the server is told: those that somebody set, and of these what the setting's scope allows.
 *
 * Defaults are not sent, so that they do not hide a folder's `fastcoder.toml`. The workspace's settings may have come
 * with a repository, so the rule of docs/settings.md holds for them: machine scope is refused (VS Code does that by the
 * schema already), narrow scope can only make things stricter. Pure.
 */

import { SERVER_SETTINGS, type ServerSetting } from './generated/settings.ts'

/** What VS Code knows of one setting, by who set it. */
export interface Inspected {
    readonly globalValue?: unknown
    readonly workspaceValue?: unknown
    readonly workspaceFolderValue?: unknown
}

/** The same of a language's own values, and which languages have some. */
export interface InspectedByLanguage {
    readonly languageIds?: readonly string[]
    readonly globalLanguageValue?: unknown
    readonly workspaceLanguageValue?: unknown
    readonly workspaceFolderLanguageValue?: unknown
}

/** The settings to send, by dotted name; `inspect` is asked for each of the table. */
export function explicitSettings(inspect: (name: string) => Inspected | undefined): Record<string, unknown> {
    const settings: Record<string, unknown> = {}
    for (const setting of SERVER_SETTINGS) {
        const value = explicitValue(setting, inspect(setting.name) ?? {})
        if (value !== undefined) {
            settings[setting.name] = value
        }
    }
    return settings
}

/** What somebody set for single languages, as in `[python]`, by the server's names `languages.LANGUAGE.NAME`. */
export function languageSettings(
    inspect: (name: string, language?: string) => InspectedByLanguage | undefined,
): Record<string, unknown> {
    const languages = new Set(SERVER_SETTINGS.flatMap(({ name }) => inspect(name)?.languageIds ?? []))
    const settings: Record<string, unknown> = {}
    for (const language of languages) {
        const own = explicitSettings((name) => {
            const inspected = inspect(name, language)
            return {
                globalValue: inspected?.globalLanguageValue,
                workspaceValue: inspected?.workspaceLanguageValue,
                workspaceFolderValue: inspected?.workspaceFolderLanguageValue,
            }
        })
        for (const [name, value] of Object.entries(own)) {
            settings[`languages.${language}.${name}`] = value
        }
    }
    return settings
}

/** One setting's value; undefined where nobody who may set it did. */
export function explicitValue(setting: ServerSetting, inspected: Inspected): unknown {
    let value = inspected.globalValue
    for (const wish of [inspected.workspaceValue, inspected.workspaceFolderValue]) {
        if (wish === undefined || setting.scope === 'machine') {
            continue
        }
        value = setting.scope === 'narrow' ? narrowed(setting, value, wish) : wish
    }
    return value
}

/** `value` made stricter by `wish`; a wish for more is passed over, one of the wrong type is left for the server to report. */
function narrowed(setting: ServerSetting, value: unknown, wish: unknown): unknown {
    const holds = value ?? setting.default
    if (typeof holds === 'boolean' && typeof wish === 'boolean') {
        return wish ? value : false
    }
    if (isSwitch(setting)) {
        return strictness(wish) > strictness(holds) ? wish : value
    }
    if (typeof holds === 'number' && typeof wish === 'number') {
        return wish < holds ? wish : value
    }
    if (Array.isArray(holds) && Array.isArray(wish)) {
        return [...new Set<unknown>([...(holds as unknown[]), ...(wish as unknown[])])]
    }
    return wish
}

const PLACES: readonly unknown[] = [true, 'auto', false]

/** Whether a narrow setting is on, off, or between the two. */
function isSwitch(setting: ServerSetting): boolean {
    return PLACES.includes(setting.default)
}

/** How much a switch forbids: `auto` stands between on and off; what is none of them is the server's to report. */
function strictness(value: unknown): number {
    return PLACES.includes(value) ? PLACES.indexOf(value) : PLACES.length
}
