// Made from fastcoder_lsp/config/table.py by `python -m fastcoder_lsp.config.vscode editors/vscode`.

/** A setting of the server's; `scope` says who may set it (docs/settings.md). */
export interface ServerSetting {
    readonly name: string
    readonly scope: 'workspace' | 'narrow' | 'machine'
    readonly default: boolean | number | string | readonly string[]
}

export const SERVER_SETTINGS: readonly ServerSetting[] = [
    { name: 'enabled', scope: 'narrow', default: true },
    { name: 'model', scope: 'machine', default: "auto" },
    { name: 'engine', scope: 'machine', default: "auto" },
    { name: 'threads', scope: 'machine', default: 0 },
    { name: 'gpu.memory_percent', scope: 'machine', default: 90 },
    { name: 'gpu.strict', scope: 'machine', default: false },
    { name: 'context_tokens', scope: 'machine', default: 4096 },
    { name: 'memory.kv_mb', scope: 'machine', default: 256 },
    { name: 'drafter', scope: 'machine', default: "auto" },
    { name: 'draft.models', scope: 'machine', default: [] },
    { name: 'draft.automatic', scope: 'machine', default: true },
    { name: 'draft.memory_mb', scope: 'machine', default: 1024 },
    { name: 'completion.max_tokens', scope: 'workspace', default: 128 },
    { name: 'languages.include', scope: 'workspace', default: [] },
    { name: 'languages.exclude', scope: 'narrow', default: [] },
    { name: 'popup.enabled', scope: 'workspace', default: false },
    { name: 'popup.budget_ms', scope: 'workspace', default: 500 },
    { name: 'budget.automatic_ms', scope: 'workspace', default: 0 },
    { name: 'budget.invoked_ms', scope: 'workspace', default: 0 },
    { name: 'budget.background_ms', scope: 'workspace', default: 0 },
    { name: 'power', scope: 'workspace', default: "normal" },
    { name: 'where.middle_of_word', scope: 'workspace', default: false },
    { name: 'where.secrets', scope: 'narrow', default: false },
    { name: 'where.rejections', scope: 'workspace', default: 0 },
    { name: 'context.enabled', scope: 'narrow', default: "auto" },
    { name: 'read.max_file_bytes', scope: 'narrow', default: 1000000 },
    { name: 'read.max_line_length', scope: 'narrow', default: 5000 },
    { name: 'read.max_files', scope: 'narrow', default: 50000 },
    { name: 'read.exclude', scope: 'narrow', default: [] },
    { name: 'index.enabled', scope: 'narrow', default: true },
    { name: 'index.dependencies', scope: 'narrow', default: true },
    { name: 'host.enabled', scope: 'machine', default: true },
    { name: 'host.linger_s', scope: 'machine', default: 60 },
    { name: 'remote.url', scope: 'machine', default: "" },
    { name: 'remote.allow', scope: 'machine', default: "" },
    { name: 'remote.kind', scope: 'machine', default: "auto" },
    { name: 'remote.model', scope: 'machine', default: "" },
    { name: 'remote.template', scope: 'machine', default: "auto" },
    { name: 'remote.key_file', scope: 'machine', default: "" },
    { name: 'remote.key_env', scope: 'machine', default: "" },
    { name: 'remote.fallback', scope: 'machine', default: true },
    { name: 'log.file', scope: 'machine', default: "" },
    { name: 'log.level', scope: 'machine', default: "info" },
]
