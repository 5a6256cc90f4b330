"""The server that the settings name, identified at the first question: its dialect, its model and the model's template.

The identifying requests carry no text of the user's. A remote model's family is known only from its name.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Reason
from fastcoder_lsp.prompt.templates import TEMPLATES, Template
from fastcoder_lsp.remote import failures
from fastcoder_lsp.remote.client import NetworkOptions, RemoteClient, Timeouts
from fastcoder_lsp.remote.dialects import AnswerChunk, Dialect, Fastcoder, LlamaCpp, MarkedPrompts, Suffix
from fastcoder_lsp.remote.excerpt import Excerpt
from fastcoder_lsp.remote.failures import RemoteError
from fastcoder_lsp.remote.target import host_of, target_of

_TEMPLATE_NAMES: Final[Mapping[str, str]] = {
    "qwen": "Qwen2.5-Coder",
    "codegemma": "CodeGemma",
    "granite": "fim_prefix with bars",
    "starcoder": "StarCoder, Granite Code",
    "starcoder2": "StarCoder2",
    "santacoder": "SantaCoder",
    "mellum": "Mellum",
    "seed-coder": "Seed-Coder",
    "codestral": "Codestral",
    "deepseek": "DeepSeek-Coder",
    "codellama": "CodeLlama",
}
"""Values of `remote.template`, but for `auto` and `suffix` → template names."""
_NAME_PARTS: Final = (
    ("codegemma", "codegemma"),
    ("starcoder2", "starcoder2"),
    ("starcoder-2", "starcoder2"),
    ("starcoder", "starcoder"),
    ("stable-code", "starcoder"),
    ("granite-3b-code", "starcoder"),
    ("granite-8b-code", "starcoder"),
    ("granite-20b-code", "starcoder"),
    ("granite-34b-code", "starcoder"),
    ("granite", "granite"),
    ("santacoder", "santacoder"),
    ("mellum", "mellum"),
    ("seed-coder", "seed-coder"),
    ("codestral", "codestral"),
    ("deepseek-coder", "deepseek"),
    ("codellama", "codellama"),
    ("code-llama", "codellama"),
    ("qwen", "qwen"),
)
"""Parts of model names → values of `remote.template`; the first match holds."""


def chosen_template(setting: str) -> Template:
    """The template for a value of `remote.template`."""
    name = _TEMPLATE_NAMES[setting]
    return next(template for template in TEMPLATES if template.name == name)


def template_for(model: str) -> Template | None:
    """The template of a model's family, by the model's name; None for an unknown family."""
    name = model.lower().replace("_", "-")
    return next((chosen_template(setting) for part, setting in _NAME_PARTS if part in name), None)


_PROBE_PREFIX: Final = "x = 1\n"
_PROBE_SUFFIX: Final = "y = 2\n" * 20
_MAX_NAME: Final = 500
_SUFFIX_TOKENS: Final = 40
"""A server that counts as many prompt tokens has read `_PROBE_SUFFIX`, whatever its vocabulary."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A server's dialect and its model's name, "" if it has none."""

    dialect: Dialect
    model: str


async def identify(client: RemoteClient, settings: Settings) -> Identity:
    """Find out what the settings leave open; RemoteError if no completion server answers."""
    kind = settings.remote_kind
    if kind == "auto":
        kind = await _kind(client)
    models = await _models(client)
    model = settings.remote_model or (models[0] if models else "")
    if kind == "fastcoder":
        return Identity(Fastcoder(), model)
    if kind == "llama.cpp":
        return Identity(LlamaCpp(), model)
    if models is None and settings.remote_kind == "auto":
        raise failures.not_a_server(client.target.host, "it has neither `/props` nor `/v1/models`")
    return Identity(await _openai(client, settings.remote_template, model), model)


async def _kind(client: RemoteClient) -> str:
    _, props = await client.get("/props")
    if isinstance(props, dict) and str(props.get("build_info", "")).startswith("fastcoder-lsp"):
        return "fastcoder"
    return "llama.cpp" if isinstance(props, dict) and "default_generation_settings" in props else "openai"


async def _models(client: RemoteClient) -> list[str] | None:
    """The names of the server's models that are usable; None if it has no list of them."""
    _, value = await client.get("/v1/models")
    rows = value.get("data") if isinstance(value, dict) else None
    if not isinstance(rows, list):
        return None
    names = (row.get("id") for row in rows if isinstance(row, dict))
    # The names are shown in terminals, and sent back to the server.
    return [name for name in names if isinstance(name, str) and len(name) <= _MAX_NAME and name.isprintable()]


async def _openai(client: RemoteClient, template: str, model: str) -> Dialect:
    """`Suffix` if the server reads a suffix, else prompts with the marks of the model's family."""
    if template == "suffix":
        return Suffix()
    if template != "auto":
        return MarkedPrompts(chosen_template(template))
    reads, family = await _reads_suffix(client, model), template_for(model)
    if reads or (reads is None and family is None):
        return Suffix()
    if family is None:
        raise RemoteError(
            Reason(
                "remote-rejected",
                f"{client.target.host} does not support `suffix`, and its model's name ({model[:60] or 'none'}) shows "
                "no known family.",
                "Set `remote.template` to the model's family.",
            )
        )
    return MarkedPrompts(family)


async def _reads_suffix(client: RemoteClient, model: str) -> bool | None:
    """Whether the server reads `suffix`: some reject it, some ignore it; None if its answer has no token count."""
    body: dict[str, Any] = {"model": model} if model else {}
    body |= {"prompt": _PROBE_PREFIX, "suffix": _PROBE_SUFFIX, "max_tokens": 1, "temperature": 0.0, "stream": False}
    try:
        answer = await client.ask("/v1/completions", body)
    except RemoteError as error:
        if error.reason.code == "remote-rejected":
            return False
        raise
    usage = answer.get("usage")
    tokens = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    return tokens >= _SUFFIX_TOKENS if isinstance(tokens, int) else None


_MAX_READ_TIMEOUTS: Final = 3  # pages about the server may take so many read timeouts, however slowly bytes arrive


class RemoteServer:
    """One server and its connection, on one event loop; `identity` is None until it is identified."""

    def __init__(self, settings: Settings, network: NetworkOptions, timeouts: Timeouts) -> None:
        self._settings, self._network, self._timeouts = settings, network, timeouts
        self._client: RemoteClient | None = None
        self._identification: asyncio.Task[Identity] | None = None
        self.identity: Identity | None = None
        self.host = host_of(settings.remote_url)

    @property
    def answered(self) -> bool:
        """Whether it has answered a question; before, it may have to load its model."""
        return self._client is not None and self._client.answered

    @property
    def read_timeout_ms(self) -> float:
        """A server that sends nothing for this long does not answer."""
        return 1e3 * (self._timeouts.read_s if self.answered else self._timeouts.first_s)

    async def identify(self) -> Identity:
        """Identify the server; concurrent callers share the result. RemoteError if that is forbidden or fails."""
        if self.identity is not None:
            return self.identity
        if self._identification is None or self._identification.done():
            self._identification = asyncio.get_running_loop().create_task(self._identify())
            self._identification.add_done_callback(_retrieve_error)
        return await asyncio.shield(self._identification)

    async def stream(self, excerpt: Excerpt, variant: int = 0, count: int = 1) -> AsyncGenerator[AnswerChunk, None]:
        """Yield the chunks of an answer; closing the generator cancels the request. RemoteError if it breaks off."""
        identity, client = await self.identify(), self._open_client()
        dialect = identity.dialect
        body = dialect.body(excerpt, identity.model, variant, count)
        async with aclosing(client.events(dialect.path, body)) as events:
            async for event in events:
                chunk = dialect.read(event)
                if chunk.failure is not None:
                    raise failures.failed_mid_answer(client.target.host, chunk.failure)
                yield chunk
                if chunk.finish:
                    return
        raise failures.failed("remote-cut", client.target.host)

    def forget(self) -> None:
        """Identify the server again at the next question: another one may listen there now."""
        self.identity = None
        if self._client is not None:
            self._client.answered = False

    async def close(self) -> None:
        """Disconnect."""
        if self._identification is not None:
            self._identification.cancel()
        if self._client is not None:
            await self._client.close()

    async def _identify(self) -> Identity:
        try:
            async with asyncio.timeout(_MAX_READ_TIMEOUTS * self._timeouts.read_s + self._timeouts.first_s):
                self.identity = await identify(self._open_client(), self._settings)
        except TimeoutError:
            raise failures.timed_out(self.host) from None
        return self.identity

    def _open_client(self) -> RemoteClient:
        if self._client is None:
            target = target_of(self._settings)
            try:
                self._client = RemoteClient(target, self._network, self._timeouts)
            except (ValueError, ImportError):  # the proxy's address is invalid, or its scheme needs another package
                raise failures.failed("remote-setting", target.host) from None
        return self._client


def _retrieve_error(task: "asyncio.Task[Identity]") -> None:
    """Retrieve the exception, which asyncio would log if no caller waits any more."""
    if not task.cancelled():
        task.exception()
