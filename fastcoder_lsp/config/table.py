"""The table of settings: name, type, default, scope, limits, description.

Parsing (`resolve`) is generated from it, and by scripts/settings_files.py docs/settings.md and the editors' schemas. A
setting is a field of `Settings`: code reads `settings.popup_budget_ms`, users write `popup.budget_ms`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from functools import partial
from typing import Any, Final, Literal, get_args

EngineKind = Literal[
    "auto",
    "cpu-int8",
    "cpu-int4",
    "cpu-fp32",
    "cpu-bf16",
    "cpu-graphs",
    "cuda-bf16",
    "cuda-graphs",
    "cuda-int8",
    "cuda-int4",
    "mps-bf16",
    "llama",
]
"""`cpu-int8` and `cpu-int4` are our CPU kernels with weights of that precision. `cuda-graphs` (bf16), `cuda-int8` and
`cuda-int4` are the graph engine; `cuda-bf16` launches its operations one by one. `cpu-graphs` runs the graph engine's
programs in fp32 on the CPU, uncaptured, for comparison. `llama` is llama.cpp, with a GGUF."""
ENGINES: Final[tuple[EngineKind, ...]] = get_args(EngineKind)


class Scope(Enum):
    """The sources that may set a setting; repositories are not trusted."""

    WORKSPACE = "workspace"
    """Harmless: a repository's `fastcoder.toml` may set it. Where the user's own file sets a rule (`Spec.strict`), a
    repository may only make it stricter."""
    NARROW = "narrow"
    """A repository may only make it stricter: read less, suggest in fewer places."""
    MACHINE = "machine"
    """Only the user: a model, a path, or a limit of the machine's resources."""


_BY_LANGUAGE = frozenset({"budget", "completion", "edits", "power", "quiet", "where"})
"""Groups of settings that can be set for one language."""


@dataclass(frozen=True, slots=True)
class Spec:
    """One row of the table.

    Attributes:
        low, high: limits of a number, inclusive.
        choices: the only texts allowed; for a switch, further values between false and true.
    """

    name: str
    default: object
    scope: Scope
    description: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    switch: bool = False
    """A switch whose default is one of `choices`; a default of true or false implies it."""
    strict: Literal["", "low", "high", "limit"] = ""
    """Of two values the stricter one: the lower or the higher (of choices the former or the latter); "limit": the
    lower, where 0 and an empty list mean no limit. Empty: neither is stricter."""

    @property
    def attribute(self) -> str:
        """The name of the field in `Settings`."""
        return self.name.replace(".", "_")

    @property
    def by_language(self) -> bool:
        """Whether it can be set for one language: it is read at each request, and not only at the start."""
        return self.scope is not Scope.MACHINE and self.name.partition(".")[0] in _BY_LANGUAGE

    def stricter(self, one: Any, other: Any) -> Any:
        """The stricter of two valid values; `one` if neither is."""
        if self.strict == "limit" and not (one and other):
            return one or other
        if self.kind is tuple:
            return tuple(entry for entry in one if entry in other) or one
        choices = (False, *self.choices, True) if self.kind is bool else self.choices
        choose = max if self.strict == "high" else min
        return choose(one, other, key=choices.index if choices else None)

    @property
    def kind(self) -> type:
        """bool, int, float, str or tuple (a list of texts)."""
        return bool if self.switch else type(self.default)


def _row(default: Any, scope: Scope, description: str, *, name: str = "", **limits: Any) -> Any:
    """A field of `Settings`; `name`: what users write, if it is not the field's name with a dot for the first `_`."""
    limits.setdefault("strict", "low" if scope is Scope.NARROW else "")
    row = partial(Spec, default=default, scope=scope, description=description, **limits)
    return field(default=default, metadata={"row": row, "name": name})


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting, resolved."""

    enabled: bool = _row(True, Scope.NARROW, "Suggest code. `false` unloads the model.")
    model: str = _row(
        "auto",
        Scope.MACHINE,
        "The code model: a hub id, a folder, or a `.gguf` file. `auto` chooses one for this machine.",
    )
    engine: str = _row(
        "auto",
        Scope.MACHINE,
        "The engine that runs the model. `auto` chooses one for this machine. GPU engines: docs/gpu.md.",
        choices=ENGINES,
    )
    threads: int = _row(
        0,
        Scope.MACHINE,
        "CPU threads for the model. 0: one per physical core (per performance core where known), at most eight.",
        low=0,
        high=256,
    )
    gpu_memory_percent: int = _row(
        90,
        Scope.MACHINE,
        "Most of the GPU's memory that `cuda-graphs`, `cuda-int8` and `cuda-int4` use, in percent.",
        low=1,
        high=100,
    )
    gpu_strict: bool = _row(
        False,
        Scope.MACHINE,
        "Make drafting exact on a GPU: `cuda-graphs`, `cuda-int8` and `cuda-int4` run every step at one width, with "
        "sums in float64. Slower.",
    )
    llama_strict: bool = _row(
        True,
        Scope.MACHINE,
        "Make drafting exact with `llama`: only passes whose rows do not depend on each other. Slower.",
    )
    context_tokens: int = _row(
        4096,
        Scope.MACHINE,
        "Most tokens of prompt and suggestion together.",
        low=512,
        high=32768,
        name="context_tokens",
    )
    memory_kv_mb: int = _row(
        256,
        Scope.MACHINE,
        "Megabytes for KV caches, which make returning to a document quick. One is always kept; a full prompt takes "
        "18 MB with the default model.",
        low=1,
        high=65536,
    )
    drafter: str = _row(
        "auto",
        Scope.MACHINE,
        "The drafter, which guesses tokens ahead of the model and changes only the speed (docs/drafters.md).",
    )
    draft_models: tuple[str, ...] = _row(
        (),
        Scope.MACHINE,
        "Smaller models with the same tokenizer, named as in `model`, for drafters that need one.",
    )
    draft_memory_mb: int = _row(
        1024,
        Scope.MACHINE,
        "Megabytes for the weights and KV caches of all `draft.models`.",
        low=64,
        high=1048576,
    )
    completion_max_tokens: int = _row(
        128, Scope.WORKSPACE, "Most tokens of a suggestion. A token has three to four characters.", low=1, high=1024
    )
    languages_include: tuple[str, ...] = _row(
        (),
        Scope.WORKSPACE,
        "Suggest only in these languages (LSP ids). Empty: in all.",
        strict="limit",
    )
    languages_exclude: tuple[str, ...] = _row(
        (), Scope.NARROW, "Never suggest in these languages (LSP ids), nor read their files."
    )
    popup_enabled: bool = _row(
        False,
        Scope.WORKSPACE,
        "Show suggestions in the completion menu too. Clients without inline completion always show them there.",
        strict="low",
    )
    popup_budget_ms: int = _row(
        500, Scope.WORKSPACE, "Time limit for the completion menu, in milliseconds.", low=20, high=20000
    )
    budget_automatic_ms: int = _row(
        0,
        Scope.WORKSPACE,
        "Time limit while you type, in milliseconds. At the limit you see the complete part of a suggestion; the "
        "rest follows. 0: by this machine's speed.",
        low=0,
        high=60000,
    )
    budget_invoked_ms: int = _row(
        0,
        Scope.WORKSPACE,
        "Time limit for suggestions by key, with alternatives, in milliseconds. 0: by this machine's speed, and "
        "longer while there is nothing to show.",
        low=0,
        high=60000,
    )
    budget_background_ms: int = _row(
        0,
        Scope.WORKSPACE,
        "Time limit for background work after a request, in milliseconds: finishing its suggestion, preparing "
        "the next one. 0: by this machine's speed.",
        low=0,
        high=60000,
    )
    power: str = _row(
        "normal",
        Scope.WORKSPACE,
        "`saver` prepares nothing in pauses, at a resting cursor or after an accepted suggestion, and suggests edits "
        "only by key. `auto`: `saver` on battery, else `normal`.",
        choices=("normal", "auto", "saver"),
        strict="high",
    )
    quiet_mode: str = _row(
        "always",
        Scope.WORKSPACE,
        "When to suggest: `always`, also while you type; `resting`, after `quiet.delay_ms` without a key, at "
        "least 700; `invoked`, only by key.",
        choices=("always", "resting", "invoked"),
        strict="high",
    )
    quiet_delay_ms: int = _row(
        0,
        Scope.WORKSPACE,
        "Milliseconds to wait after a key before a suggestion appears by itself. Typing along one needs no wait.",
        low=0,
        high=10_000,
        strict="high",
    )
    quiet_lines: int = _row(
        0,
        Scope.WORKSPACE,
        "Most lines of a suggestion that appears by itself; accept them to see the rest. 0: no limit.",
        low=0,
        high=1000,
        strict="limit",
    )
    quiet_min_characters: int = _row(
        0,
        Scope.WORKSPACE,
        "Fewest characters, without blanks, of a suggestion that appears by itself.",
        low=0,
        high=1000,
        strict="high",
    )
    quiet_show: Literal["sure", "balanced", "eager"] = _row(
        "balanced",
        Scope.WORKSPACE,
        "How sure the model must be of what appears by itself: `sure`, fewer and shorter; `balanced`; `eager`, all of "
        "its text. The rest follows as you type or accept; a key shows everything.",
        choices=("eager", "balanced", "sure"),
        strict="high",
    )
    quiet_deletions: bool = _row(
        False,
        Scope.WORKSPACE,
        "After you delete text, suggest nothing by itself until you type again.",
        strict="high",
    )
    edits_model: str = _row(
        "",
        Scope.MACHINE,
        "A second model that suggests the next edit anywhere in the file: a hub id, a folder, or a `.gguf` file "
        "(docs/next-edit.md). Empty: none.",
    )
    edits_threshold: float = _row(
        0.7,
        Scope.WORKSPACE,
        "Least probability of the edit model's change. Higher: fewer and surer suggestions.",
        low=0.0,
        high=1.0,
        strict="high",
    )
    edits_analogy: bool = _row(
        True,
        Scope.WORKSPACE,
        "After you rename something, or make the same change twice, suggest the same at other places, also of other "
        "files. Needs no edit model.",
        strict="low",
    )
    edits_imports: bool = _row(
        True,
        Scope.WORKSPACE,
        "Suggest the imports that your last changes need, as the workspace's files write them. Needs no edit model.",
        strict="low",
    )
    edits_automatic: bool = _row(
        True,
        Scope.WORKSPACE,
        "Suggest edits in pauses. `false`: only by key.",
        strict="low",
    )
    where_middle_of_word: bool = _row(
        False,
        Scope.WORKSPACE,
        "Suggest while you type inside a word that continues right of the cursor.",
        strict="low",
    )
    where_comments: str = _row(
        "always",
        Scope.WORKSPACE,
        "Suggest in comments. `invoked`: only by key.",
        choices=("always", "invoked", "never"),
        strict="high",
    )
    where_strings: str = _row(
        "always",
        Scope.WORKSPACE,
        "Suggest in strings and docstrings. `invoked`: only by key.",
        choices=("always", "invoked", "never"),
        strict="high",
    )
    where_prose: str = _row(
        "always",
        Scope.WORKSPACE,
        "Suggest in prose: commit messages, plain text, reStructuredText, and Markdown outside code blocks. `invoked`: "
        "only by key.",
        choices=("always", "invoked", "never"),
        strict="high",
    )
    where_secrets: bool = _row(
        False,
        Scope.NARROW,
        "Suggest inside text that looks like a secret, such as a key, a token, a password or random characters.",
    )
    where_rejections: int = _row(
        0,
        Scope.WORKSPACE,
        "After this many ignored suggestions in a row, show one per line until you accept one, ask by key, or 20 "
        "seconds pass. 0: no limit.",
        low=0,
        high=1000,
        strict="limit",
    )
    context_enabled: bool | Literal["auto"] = _row(
        "auto",
        Scope.NARROW,
        "Add up to 600 tokens of other code to the prompt: imported definitions, and parts of the document and of "
        "workspace files that share names with the cursor's lines or that you edited or copied recently. `auto`: as "
        "many as this machine reads in 1.5 seconds; none below 300, or with `remote.url`. With `power` as `saver`, "
        "only code that is read within 200 ms, except by key.",
        choices=("auto",),
        switch=True,
    )
    read_max_file_bytes: int = _row(
        1_000_000,
        Scope.NARROW,
        "Neither read larger files nor suggest in them.",
        low=1,
        high=100_000_000,
    )
    read_max_line_length: int = _row(
        5_000,
        Scope.NARROW,
        "Neither read files with a longer line (minified or generated) nor suggest in them.",
        low=80,
        high=10_000_000,
    )
    read_max_files: int = _row(
        50_000, Scope.NARROW, "Most files to read in a workspace folder.", low=0, high=10_000_000
    )
    read_exclude: tuple[str, ...] = _row(
        (), Scope.NARROW, "More files to ignore: patterns as in `.gitignore`, relative to each workspace folder."
    )
    index_enabled: bool = _row(True, Scope.NARROW, "Index the workspace's code, if the drafter uses an index.")
    index_dependencies: bool = _row(True, Scope.NARROW, "Draft from the workspace's installed dependencies too.")
    host_enabled: bool = _row(
        True,
        Scope.MACHINE,
        "Share one process with the model between all editors. `false`: each editor's server loads its own model.",
    )
    host_linger_s: int = _row(
        60,
        Scope.MACHINE,
        "Seconds that the shared process keeps running after the last editor closes.",
        low=0,
        high=86400,
    )
    remote_url: str = _row(
        "",
        Scope.MACHINE,
        "Address of a server to use instead of a local model (docs/remote.md). Empty: none.",
    )
    remote_allow: str = _row(
        "",
        Scope.MACHINE,
        "The host name in `remote.url` again, to allow sending code there. Not needed for this machine.",
    )
    remote_kind: str = _row(
        "auto",
        Scope.MACHINE,
        "The server's API: `/infill` of this project or of llama.cpp, or OpenAI's `/v1/completions`. `auto` "
        "detects it.",
        choices=("auto", "fastcoder", "llama.cpp", "openai"),
    )
    remote_model: str = _row(
        "", Scope.MACHINE, "The server's name for the model. Empty: the first model that the server lists."
    )
    remote_template: str = _row(
        "auto",
        Scope.MACHINE,
        "How `/v1/completions` gets the text after the cursor: in the field `suffix`, or by a model family's "
        "fill-in-the-middle marks. `auto` tries `suffix`, then chooses by the model's name.",
        choices=(
            *("auto", "suffix", "qwen", "codegemma", "granite", "starcoder", "starcoder2", "santacoder", "deepseek"),
            *("codellama", "mellum", "seed-coder", "codestral"),
        ),
    )
    remote_key_file: str = _row("", Scope.MACHINE, "File with the server's key, readable only by you. Empty: none.")
    remote_key_env: str = _row("", Scope.MACHINE, "Environment variable with the server's key. Empty: none.")
    remote_fallback: bool = _row(
        True, Scope.MACHINE, "Use the local model, if there is one, while the server does not answer."
    )
    usage_enabled: bool = _row(
        True,
        Scope.MACHINE,
        "Count shown, accepted and kept suggestions for `fastcoder-lsp report`, on this machine only: numbers by "
        "day and language, no text, no paths.",
    )
    log_file: str = _row(
        "",
        Scope.MACHINE,
        "Write a log with the times of every request to this file. Empty: only warnings, to stderr.",
    )
    log_level: str = _row(
        "info",
        Scope.MACHINE,
        "How much to log. Only `debug` can log parts of your code.",
        choices=("debug", "info", "warning", "error"),
    )


def specs() -> Mapping[str, Spec]:
    """The table, by name, in its order."""
    rows = [
        entry.metadata["row"](entry.metadata["name"] or entry.name.replace("_", ".", 1)) for entry in fields(Settings)
    ]
    return {spec.name: spec for spec in rows}
