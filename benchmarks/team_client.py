"""A client of a team's server for many people at once: what is asked, and what is kept of an answer.

The interfaces are llama.cpp's `/infill`, which llama-server has too, and OpenAI's `/v1/completions` with the marks of
Qwen's family in the prompt, which vLLM has. As a person's editor, a client has one request open at a time, and closes
its connection when it cancels one.
"""

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import httpx2

from fastcoder_lsp.errors import NetworkError

Interface = Literal["infill", "completions"]
_WORDS = 24
"""Tokens of an answer at most, for servers that do not end a text by themselves."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A response.

    Attributes:
        code: HTTP's status; 0 where the connection broke before it.
        headers: by names in any case.
        ms: milliseconds from the first byte sent to the last one read.
    """

    code: int
    body: Mapping[str, Any]
    headers: Mapping[str, str]
    ms: float


class TypistConnection:
    """One person's connection; cancelling a request hangs up, as editors do.

    Raises:
        NetworkError: that is no address.
    """

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        if not httpx2.URL(url).host or httpx2.URL(url).scheme != "http":
            raise NetworkError(f"{url} is no address", "Write: http://127.0.0.1:8020")
        limits = httpx2.Limits(max_connections=1)
        self._client = httpx2.AsyncClient(base_url=url, headers=headers, timeout=None, trust_env=False, limits=limits)

    async def post(self, path: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> Reply:
        begun = time.perf_counter()
        try:
            response = await self._client.post(path, json=body, headers=headers)
        except httpx2.TransportError:
            return Reply(0, {}, {}, 1e3 * (time.perf_counter() - begun))
        ms = 1e3 * (time.perf_counter() - begun)
        is_json = response.headers.get("content-type", "").startswith("application/json")
        return Reply(response.status_code, response.json() if is_json else {}, response.headers, ms)

    async def close(self) -> None:
        """Hang up."""
        await self._client.aclose()


@dataclass(frozen=True, slots=True)
class TargetServer:
    """A server to ask.

    Attributes:
        keys: of the people, one after the other; none where it asks for none.
        scripted: whether its model says checksums.
    """

    url: str
    keys: tuple[str, ...] = ()
    interface: Interface = "infill"
    scripted: bool = False

    def client(self, typist: int) -> TypistConnection:
        """A person's connection: to their own workspace, by their own key where there are so many."""
        named = {"X-Fastcoder-Workspace": f"workspace-{typist}"}
        if self.keys:
            named["Authorization"] = f"Bearer {self.keys[typist % len(self.keys)]}"
        return TypistConnection(self.url, named)


@dataclass(frozen=True, slots=True)
class DocumentCursor:
    document: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request and what became of it.

    Attributes:
        at_s: seconds since the beginning.
        code: HTTP's status; 0: the connection broke; -1: a newer key came first.
        host_ms: of them, in the replica, where it says so.
        right: whether it was this request's own, where that can be told.
        prefilled: prompt tokens that were computed.
        reused: prompt tokens that were in a KV cache.
        why: what the server says where it did not answer, or what it said where that is not its own.
    """

    typist: int
    document: str
    at_s: float
    code: int
    ms: float = 0.0
    host_ms: float = 0.0
    text: bool = False
    right: bool | None = None
    replica: str = ""
    prefilled: int = 0
    reused: int = 0
    tokens: int = 0
    why: str = ""


async def ask(
    client: TypistConnection, interface: Interface, place: DocumentCursor, typist: int, at_s: float, *, scripted: bool
) -> RequestRecord:
    """Ask at a place; `scripted`: the model says checksums, and each answer is compared with its own."""
    headers = {"X-Fastcoder-Document": place.document, "Content-Type": "application/json"}
    if interface == "infill":
        line = place.before.rfind("\n") + 1
        body: dict[str, Any] = {
            "input_prefix": place.before[:line],
            "prompt": place.before[line:],
            "input_suffix": place.after,
            "filename": place.document,
            "n_predict": _WORDS,
        }
        reply = await client.post("/infill", body, headers)
        said = str(reply.body.get("content", ""))
    else:
        prompt = f"<|fim_prefix|>{place.before}<|fim_suffix|>{place.after}<|fim_middle|>"
        body = {"prompt": prompt, "max_tokens": _WORDS, "temperature": 0.0, "stop": ["\n"]}
        reply = await client.post("/v1/completions", body, headers)
        choices = reply.body.get("choices") or [{}]
        said = str(choices[0].get("text", ""))
    said = said.rstrip("\n")
    right = said == checksum(place.before, len(said)) if scripted and reply.code == 200 and said else None
    return _asked(reply, said, typist, place.document, at_s, right=right)


def checksum(before: str, letters: int) -> str:
    """The answer of the scripted model of the team's server."""
    return f"~{hashlib.blake2b(before.encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}"[:letters]


def _asked(reply: Reply, said: str, typist: int, document: str, at_s: float, *, right: bool | None) -> RequestRecord:
    usage: Mapping[str, Any] = reply.body.get("usage") or {}
    times: Mapping[str, Any] = reply.body.get("timings") or {}
    details: Mapping[str, Any] = usage.get("prompt_tokens_details") or {}
    reused = int(times.get("cache_n", details.get("cached_tokens") or 0))
    computed = int(times.get("prompt_n", usage.get("prompt_tokens", 0) - reused))
    return RequestRecord(
        typist=typist,
        document=document,
        at_s=at_s,
        code=reply.code,
        ms=reply.ms,
        host_ms=float(reply.headers.get("x-fastcoder-host-ms", 0.0)),
        text=bool(said.strip()),
        right=right,
        replica=reply.headers.get("x-fastcoder-replica", ""),
        prefilled=max(0, computed),
        reused=reused,
        tokens=int(times.get("predicted_n", usage.get("completion_tokens", 0))),
        why=repr(said) if right is False else "" if reply.code == 200 else _why(reply),
    )


def _why(reply: Reply) -> str:
    error = reply.body.get("error")
    return str(error.get("message", "")) if isinstance(error, dict) else ""
