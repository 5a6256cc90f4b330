"""The one table of settings: name, type, default, scope, limits, description.

Parsing (`resolve`), the page docs/settings.md (`document`) and the editors' schemas are made from it. A setting is a
field of `Settings`; code reads `settings.popup_budget_ms`, people write `popup.budget_ms`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, Literal

from fastcoder_lsp.config.engines import ENGINES


class Scope(Enum):
    """Who may set it, when what a repository brings is not trusted."""

    WORKSPACE = "workspace"
    """Harmless: a repository's `fastcoder.toml` may set it."""
    NARROW = "narrow"
    """A repository may only make it stricter: read less, complete in fewer places."""
    MACHINE = "machine"
    """Only the user: it names a model, a path, or what the machine spends."""


@dataclass(frozen=True, slots=True)
class Spec:
    """One row of the table.

    Attributes:
        low, high: limits of a number, inclusive.
        choices: the only texts allowed; of a switch, texts beside true and false, between the two in what they allow.
    """

    name: str
    default: object
    scope: Scope
    description: str
    low: int | None = None
    high: int | None = None
    choices: tuple[str, ...] = ()
    switch: bool = False
    """A switch whose default is one of `choices`; one whose default is true or false needs no mark."""
    active: bool = True
    """False: the name is known, but nothing reads it yet; it is kept out of the documentation."""

    @property
    def attribute(self) -> str:
        """The name of the field in `Settings`."""
        return self.name.replace(".", "_")

    @property
    def kind(self) -> type:
        """bool, int, str or tuple (a list of texts)."""
        return bool if self.switch else type(self.default)


def _row(name: str, default: Any, scope: Scope, description: str, **limits: Any) -> Any:
    spec = Spec(name, default, scope, description, **limits)
    return field(default=default, metadata={"spec": spec})


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting, resolved. Zero for a number that says "0: …" in its description means that."""

    enabled: bool = _row("enabled", True, Scope.NARROW, "Complete at all. Off unloads the model.")
    model: str = _row(
        "model",
        "auto",
        Scope.MACHINE,
        "The code model: a hub id, a folder, or a `.gguf` file. `auto` takes one that fits the machine.",
    )
    engine: str = _row(
        "engine",
        "auto",
        Scope.MACHINE,
        "What computes: `auto` tests what the machine can do and takes the fastest; the `graphs` kinds: docs/gpu.md.",
        choices=ENGINES,
    )
    threads: int = _row(
        "threads",
        0,
        Scope.MACHINE,
        "CPU threads for the model; 0: one for each physical core, on ARM for each fast one, eight at most.",
        low=0,
        high=256,
    )
    gpu_memory_percent: int = _row(
        "gpu.memory_percent",
        90,
        Scope.MACHINE,
        "Of the GPU's memory, the most that the graph engines (`cuda-graphs`, `cuda-int8`, `cuda-int4`) take.",
        low=1,
        high=100,
    )
    gpu_strict: bool = _row(
        "gpu.strict",
        False,
        Scope.MACHINE,
        "Graph engines: one width for every step and sums in float64, so that drafting changes no token; slower.",
    )
    context_tokens: int = _row(
        "context_tokens",
        4096,
        Scope.MACHINE,
        "Tokens that the model's memory holds: prompt and answer together.",
        low=512,
        high=32768,
    )
    memory_kv_mb: int = _row(
        "memory.kv_mb",
        256,
        Scope.MACHINE,
        "Megabytes for what the model has read of your documents, each kept by itself: going back to one that is kept "
        "reads nothing again. One is kept however large; a full prompt takes 18 MB with the default model.",
        low=1,
        high=65536,
    )
    drafter: str = _row(
        "drafter",
        "auto",
        Scope.MACHINE,
        "Who guesses ahead of the model; changes the speed only. Names and parameters: docs/drafters.md.",
    )
    draft_models: tuple[str, ...] = _row(
        "draft.models",
        (),
        Scope.MACHINE,
        "Smaller models with the same tokenizer that guess ahead, named as in `model`; loaded when a drafter asks.",
    )
    draft_memory_mb: int = _row(
        "draft.memory_mb",
        1024,
        Scope.MACHINE,
        "Megabytes that these models may take, weights and what they have read together.",
        low=64,
        high=1048576,
    )
    completion_max_tokens: int = _row(
        "completion.max_tokens",
        128,
        Scope.WORKSPACE,
        "Longest suggestion, in the model's tokens (three or four characters each).",
        low=1,
        high=1024,
    )
    languages_include: tuple[str, ...] = _row(
        "languages.include", (), Scope.WORKSPACE, "Complete only in these languages (LSP ids); empty: in all."
    )
    languages_exclude: tuple[str, ...] = _row(
        "languages.exclude", (), Scope.NARROW, "Never complete in these languages (LSP ids), nor read their files."
    )
    popup_enabled: bool = _row(
        "popup.enabled",
        False,
        Scope.WORKSPACE,
        "Offer suggestions in the completion menu too. Clients without inline completion always get them there.",
    )
    popup_budget_ms: int = _row(
        "popup.budget_ms",
        500,
        Scope.WORKSPACE,
        "Milliseconds after which the completion menu is answered with what there is, so that it never waits for us.",
        low=20,
        high=20000,
    )
    budget_automatic_ms: int = _row(
        "budget.automatic_ms",
        0,
        Scope.WORKSPACE,
        "Milliseconds for a suggestion while typing: then what is whole of it is shown, and the rest is made in the "
        "background; 0: chosen from the machine's speed.",
        low=0,
        high=60000,
    )
    budget_invoked_ms: int = _row(
        "budget.invoked_ms",
        0,
        Scope.WORKSPACE,
        "Milliseconds for suggestions asked for by a key, alternatives included; 0: chosen from the machine's speed.",
        low=0,
        high=60000,
    )
    budget_background_ms: int = _row(
        "budget.background_ms",
        0,
        Scope.WORKSPACE,
        "Milliseconds of work in the background after a request: finishing its suggestion, preparing the next one; 0: "
        "chosen from the machine's speed.",
        low=0,
        high=60000,
    )
    power: str = _row(
        "power",
        "normal",
        Scope.WORKSPACE,
        "`saver` does no work before you ask: prompts are not prepared in pauses, nor suggestions after an accept.",
        choices=("normal", "saver"),
    )
    where_middle_of_word: bool = _row(
        "where.middle_of_word",
        False,
        Scope.WORKSPACE,
        "Suggest, while typing, inside a word that goes on right of the cursor.",
    )
    where_secrets: bool = _row(
        "where.secrets",
        False,
        Scope.NARROW,
        "Suggest in what looks like a secret: the value of a key, token or password, a private key, random characters.",
    )
    where_rejections: int = _row(
        "where.rejections",
        0,
        Scope.WORKSPACE,
        "After so many suggestions in a row that were shown while typing and not taken, only one in a line, until one "
        "is taken or asked for by a key, or 20 seconds have passed; 0: however many.",
        low=0,
        high=1000,
    )
    context_enabled: bool | Literal["auto"] = _row(
        "context.enabled",
        "auto",
        Scope.NARROW,
        "Show the model the document's imports, and pieces of it and of the workspace's other files that use the "
        "same names as the lines at the cursor, or were edited or copied lately: up to 600 tokens. They are "
        "computed beside, while keys go on without them, and shown once no key pays for it. `auto`: as many as "
        "this machine reads in 1.5 seconds, none where that is less than 300; to a server in the model's place "
        "(`remote.url`) none go. With `power` at `saver` none are computed beside: they go along where they are "
        "read in 200 ms, or asked for by a key.",
        choices=("auto",),
        switch=True,
    )
    read_max_file_bytes: int = _row(
        "read.max_file_bytes",
        1_000_000,
        Scope.NARROW,
        "Larger files are neither read nor completed in.",
        low=1,
        high=100_000_000,
    )
    read_max_line_length: int = _row(
        "read.max_line_length",
        5_000,
        Scope.NARROW,
        "Files with a longer line (minified, generated) are neither read nor completed in.",
        low=80,
        high=10_000_000,
    )
    read_max_files: int = _row(
        "read.max_files", 50_000, Scope.NARROW, "Most files read in one workspace folder.", low=0, high=10_000_000
    )
    read_exclude: tuple[str, ...] = _row(
        "read.exclude",
        (),
        Scope.NARROW,
        "More files never to read or complete in: patterns as in `.gitignore`, from each workspace folder's root.",
    )
    index_enabled: bool = _row(
        "index.enabled",
        True,
        Scope.NARROW,
        "Keep a datastore of the workspace's code, where the drafter is one that drafts from it.",
    )
    index_dependencies: bool = _row(
        "index.dependencies",
        True,
        Scope.NARROW,
        "Draft from the workspace's installed dependencies too.",
    )
    host_enabled: bool = _row(
        "host.enabled",
        True,
        Scope.MACHINE,
        "Share one process with the model between all editors; off: each editor's server has a model of its own.",
    )
    host_linger_s: int = _row(
        "host.linger_s",
        60,
        Scope.MACHINE,
        "Seconds that the shared process stays after its last editor has gone, so that the next one finds it warm.",
        low=0,
        high=86400,
    )
    remote_url: str = _row(
        "remote.url",
        "",
        Scope.MACHINE,
        "Ask the server at this address instead of a model on this machine (docs/remote.md); empty: none.",
    )
    remote_allow: str = _row(
        "remote.allow",
        "",
        Scope.MACHINE,
        "The name of the host in `remote.url` once more: your consent that code is sent there. For this machine itself "
        "none is needed.",
    )
    remote_kind: str = _row(
        "remote.kind",
        "auto",
        Scope.MACHINE,
        "What it speaks: this project's or llama.cpp's `/infill`, or OpenAI's `/v1/completions`; `auto` finds out.",
        choices=("auto", "fastcoder", "llama.cpp", "openai"),
    )
    remote_model: str = _row(
        "remote.model", "", Scope.MACHINE, "The model, as the server names it; empty: the first one of its list."
    )
    remote_template: str = _row(
        "remote.template",
        "auto",
        Scope.MACHINE,
        "With `/v1/completions`, how the text after the cursor is told: in the field `suffix`, or by the marks of the "
        "model's family; `auto` tries `suffix`, and else goes by the model's name.",
        choices=(
            *("auto", "suffix", "qwen", "codegemma", "granite", "starcoder", "starcoder2", "santacoder", "deepseek"),
            "codellama",
        ),
    )
    remote_key_file: str = _row(
        "remote.key_file", "", Scope.MACHINE, "A file that you alone can read, with the server's key; empty: none."
    )
    remote_key_env: str = _row(
        "remote.key_env", "", Scope.MACHINE, "The environment variable that holds the server's key; empty: none."
    )
    remote_fallback: bool = _row(
        "remote.fallback",
        True,
        Scope.MACHINE,
        "While the server does not answer, go on with the model on this machine, where there is one.",
    )
    log_file: str = _row(
        "log.file",
        "",
        Scope.MACHINE,
        "Write a log, with the times of every request, to this file; empty: warnings to stderr only.",
    )
    log_level: str = _row(
        "log.level",
        "info",
        Scope.MACHINE,
        "How much is logged. Only `debug` may show pieces of your code.",
        choices=("debug", "info", "warning", "error"),
    )


def specs() -> Mapping[str, Spec]:
    """The table, by name, in its order."""
    rows: list[Spec] = [entry.metadata["spec"] for entry in fields(Settings)]
    return {spec.name: spec for spec in rows}
