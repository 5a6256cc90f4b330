"""`doctor`'s check of a remote server: whether it is allowed, what it would receive, whether it answers."""

import asyncio
from collections.abc import Iterator
from functools import partial

from fastcoder_lsp.cli.doctor.check import Check
from fastcoder_lsp.cli.doctor.model import SAMPLE, SAMPLE_AFTER
from fastcoder_lsp.config import Settings

_TOKENS, _WHOLE_S = 24, 60.0
"""Limits on the answer to the sample: its size, and its whole time."""


def check_remote(settings: Settings) -> Iterator[Check]:
    """The server that `--remote` names; it receives a sample, and nothing of the user's."""
    from fastcoder_lsp.remote.failures import RemoteError
    from fastcoder_lsp.remote.target import sent_text, target_of

    try:
        target = target_of(settings)
        where = "this machine" if target.is_local else target.host
        text = f"editors with this setting send each request to {where}: {sent_text()}"
        yield Check(
            "remote", "ok" if target.is_local else "note", text, details={"host": target.host, "here": target.is_local}
        )
        yield asyncio.run(_answers(settings))
    except RemoteError as error:
        yield Check("remote", "wrong", error.reason.text, error.reason.hint, {"code": error.reason.code})


async def _answers(settings: Settings) -> Check:
    from fastcoder_lsp.config.remote_access import proxy_for, read_remote_key
    from fastcoder_lsp.remote import failures
    from fastcoder_lsp.remote.client import NetworkOptions, Timeouts
    from fastcoder_lsp.remote.excerpt import Excerpt
    from fastcoder_lsp.remote.generation import MAX_CHARACTERS_PER_TOKEN
    from fastcoder_lsp.remote.server import RemoteServer

    network = NetworkOptions(partial(read_remote_key, settings), proxy_for(settings.remote_url))
    server = RemoteServer(settings, network, Timeouts())
    try:
        identity, said = await server.identify(), ""
        chunks = server.stream(Excerpt(SAMPLE, SAMPLE_AFTER, (), "fibonacci.py", "python", _TOKENS))
        try:
            async with asyncio.timeout(_WHOLE_S):
                async for chunk in chunks:
                    said += chunk.text
                    if len(said) > MAX_CHARACTERS_PER_TOKEN * _TOKENS:
                        break
        except TimeoutError:
            raise failures.timed_out(server.host) from None
        finally:
            await chunks.aclose()
    finally:
        await server.close()
    details: dict[str, object] = {"form": identity.dialect.name, "model": identity.model, "completion": said}
    if not said.strip():
        return Check(
            "server",
            "wrong",
            "the answer was empty",
            "Set `remote.kind` and `remote.template` to the form that the server expects.",
            details,
        )
    text = f"{identity.dialect.name}, with {identity.model or 'a model without a name'}, completed a sample"
    return Check("server", "ok", text, details=details)
