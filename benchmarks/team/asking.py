"""What is asked, by either interface, and what is kept of an answer.

Owns the forms: llama.cpp's `/infill`, which llama-server has too, and OpenAI's `/v1/completions` with the marks of
Qwen's family in the prompt, which vLLM has.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from benchmarks.team.client import Client, Reply

Interface = Literal["infill", "completions"]
_WORDS = 24
"""Tokens of an answer at most, for servers that do not end a text by themselves."""


@dataclass(frozen=True, slots=True)
class Place:
    """A cursor in a document."""

    document: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Asked:
    """One request and what became of it.

    Attributes:
        typist: who asked.
        document: where.
        at_s: seconds since the beginning.
        code: HTTP's status; 0: the connection broke; -1: a newer key came first.
        ms: milliseconds until the answer.
        host_ms: of them, in the replica, where it says so.
        text: whether there was some.
        right: whether it was this request's own, where that can be told.
        replica: who answered, where it says so.
        prefilled: prompt tokens that were computed.
        reused: prompt tokens that were in a KV cache.
        tokens: that were made.
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


async def ask(client: Client, interface: Interface, place: Place, typist: int, at_s: float, *, scripted: bool) -> Asked:
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
    """What the scripted model of the team's server says."""
    return f"~{hashlib.blake2b(before.encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}"[:letters]


def _asked(reply: Reply, said: str, typist: int, document: str, at_s: float, *, right: bool | None) -> Asked:
    usage: Mapping[str, Any] = reply.body.get("usage") or {}
    times: Mapping[str, Any] = reply.body.get("timings") or {}
    details: Mapping[str, Any] = usage.get("prompt_tokens_details") or {}
    reused = int(times.get("cache_n", details.get("cached_tokens") or 0))
    computed = int(times.get("prompt_n", usage.get("prompt_tokens", 0) - reused))
    return Asked(
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
