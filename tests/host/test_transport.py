"""Messages: what is told arrives as it was, whatever its strings hold, and what nobody should say is refused."""

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp.completion.protocol import DocumentClosed, FilesChanged, Forget, Forgotten, Rename
from fastcoder_lsp.host.transport import Codec, ProtocolError

CODEC = Codec()
NAMES = st.text(st.sampled_from("ab/\n éÿ\x80\ud800\udc00\udcff𝄞"), max_size=20)


@given(NAMES, NAMES)
def test_names_arrive_as_they_were(old: str, new: str) -> None:
    """Halves of surrogate pairs, too, which UTF-8 does not know: a name of a file may be any bytes."""
    for message in (Rename(old, new), Forget(new), FilesChanged((Path("/" + old), Path("/w"), Path("/" + new)))):
        assert CODEC.from_client(CODEC.encode(message)) == message
    assert CODEC.from_host(CODEC.encode(Forgotten(new))) == Forgotten(new)


def test_only_a_message_that_needs_it_is_escaped() -> None:
    assert CODEC.encode(DocumentClosed(Path("/w/é.py"))) == msgspec.msgpack.encode(["DocumentClosed", "/w/é.py"])
    assert msgspec.msgpack.decode(CODEC.encode(DocumentClosed(Path("/w/\udcff"))))[0] == "Escaped"


def escaped(*body: Any) -> list[Any]:
    return ["Escaped", msgspec.msgpack.encode(list(body))]


QUESTION = {"number": 1, "request": {}, "place": {"before": "", "after": ""}, "policy": {}}


@pytest.mark.parametrize(
    "said",
    [
        ["DocumentClosed", "relative.py"],
        ["DocumentClosed", "/w/\0.py"],
        ["DocumentClosed", "/" * 70_000],
        ["DocumentClosed", 7],
        ["DocumentClosed", None],
        ["FilesChanged", ["/w"] * 5_001],
        ["FilesChanged", ["/w", "relative.py"]],
        ["Forget", "x" * 70_000],
        ["Forget", b"file:///w"],
        ["Withdraw", -1],
        ["Withdraw", 2**60],
        ["Noticed", math.nan, True],
        ["Noticed", math.inf, True],
        ["Load", "1"],
        ["Ask", QUESTION],
        ["Expect", QUESTION, True, False],
        ["DocumentChanged", "/w/a.py", "a text that did not come as a difference"],
        ["Use", {}, {}],
        ["UseTables", {"model": 1.5}, {}],
        ["UseTables", {}, {"/w": {"no": None}}],
        ["Answered", 1, {}],
        ["Nothing"],
        ["Escaped", b""],
        ["Escaped", b"\xff"],
        escaped("Escaped", b""),
        escaped("Forget", "no byte: \u0100"),
        escaped("Forget", "no UTF-8: \xff"),
        escaped("DocumentClosed", "relative.py"),
        escaped("FilesChanged", ["/w"] * 5_001),
        escaped("Withdraw", -1),
    ],
    ids=lambda said: str(said)[:40],
)
def test_what_no_client_should_say_is_refused(said: list[Any]) -> None:
    with pytest.raises(ProtocolError):
        CODEC.from_client(msgspec.msgpack.encode(said))


def test_a_message_within_messages_is_refused() -> None:
    """However deep: nothing is unpacked twice."""
    data = CODEC.encode(Forget("a"))
    for _ in range(50):
        data = msgspec.msgpack.encode(["Escaped", data])
    with pytest.raises(ProtocolError):
        CODEC.from_client(data)
