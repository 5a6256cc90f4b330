"""Messages and texts between client and shared process arrive as they were; nonsense is refused."""

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp.completion.protocol import DocumentClosed, FilesChanged, Forget, Forgotten, Rename
from fastcoder_lsp.completion.suggestions import CursorContext
from fastcoder_lsp.core.differences import common_ends
from fastcoder_lsp.host import texts as module
from fastcoder_lsp.host.texts import GapError, KeptTexts, SentTexts
from fastcoder_lsp.host.transport import Codec, Difference, PlaceRef, ProtocolError, TextRef

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


CHANGE = {"path": "a.py", "line": 0, "old": "", "new": "x"}
EDIT = {"number": 1, "uri": "file:///a.py", "path": "a.py", "language": "python", "version": 1, "text": "", "offset": 0}
EDIT |= {"history": [CHANGE], "kind": "edit"}
QUESTION = {"kind": "completion", "number": 1, "request": {}, "place": {"before": "", "after": ""}, "policy": {}}


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
        ["UserActive", math.nan, True],
        ["UserActive", math.inf, True],
        ["Load", "1"],
        ["Ask", QUESTION],
        ["Ask", EDIT],
        ["WithTexts", ["Ask", EDIT | {"offset": -1}], [1, 1]],
        ["WithTexts", ["Ask", EDIT | {"history": [CHANGE] * 65}], [1, 1]],
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
    data = CODEC.encode(Forget("a"))
    for _ in range(50):
        data = msgspec.msgpack.encode(["Escaped", data])
    with pytest.raises(ProtocolError):
        CODEC.from_client(data)


LETTERS = st.text(st.sampled_from("ab\n é\ud800\udc00𝄞"), max_size=12)
EDITS = st.lists(st.tuples(st.sampled_from("pqrs"), st.integers(0, 40), st.integers(0, 6), LETTERS), max_size=40)


def over_the_wire(difference: Difference) -> Difference:
    received = CODEC.from_client(CODEC.encode(difference))
    assert isinstance(received, Difference)
    return received


def sent_over(front: SentTexts, host: KeptTexts, name: str, text: str) -> TextRef | None:
    """Send a text; None where the host has lost what it differs from, of which the front is told."""
    where, differences = front.send(name, text)
    try:
        for difference in differences:
            host.take(over_the_wire(difference))
        received = host.text(where)
    except GapError as gap:
        renewed = front.again(gap.slot)
        assert renewed == name
        return None
    assert received == text
    return where


@given(LETTERS, LETTERS)
def test_what_is_alike_is_found(left: str, right: str) -> None:
    head, tail = common_ends(left, right)
    assert left[:head] == right[:head]
    assert left[head : head + 1] != right[head : head + 1] or head == min(len(left), len(right))
    most = min(len(left), len(right)) - head
    assert tail <= most
    assert tail == 0 or left[-tail:] == right[-tail:]
    assert tail == most or left[len(left) - tail - 1] != right[len(right) - tail - 1]


@given(EDITS, st.integers(1, 4), st.integers(1, 4), st.integers(1, 5))
def test_the_other_side_has_what_was_sent(
    edits: list[tuple[str, int, int, str]], sent: int, kept: int, piece: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PIECE", piece)
        front, host = SentTexts(documents=sent, characters=60), KeptTexts(documents=kept)
        texts = dict.fromkeys("pqrs", "begin")
        for name, at, removed, added in edits:
            text = texts[name] = texts[name][:at] + added + texts[name][at + removed :]
            where = sent_over(front, host, name, text)
            if where is None:
                where = sent_over(front, host, name, text)
            assert where is not None, "a gap after a whole text"
            place = CursorContext(text[:at] + added, text[at:])
            told = host.place(where.slot, place)
            assert told is not None
            assert front.place(told) == place


def test_a_keystroke_in_a_long_text_is_a_short_message() -> None:
    front, text = SentTexts(), "line of code\n" * 50_000
    front.send("a", text)
    _, (difference,) = front.send("a", text[:300_000] + "x" + text[300_000:])
    assert len(CODEC.encode(difference)) < 60
    assert front.send("a", text[:300_000] + "x" + text[300_000:])[1] == ()


def test_a_text_that_is_longer_than_a_message_goes_in_pieces() -> None:
    front, host, text = SentTexts(), KeptTexts(), "𝄞" * 3_000_000
    at, differences = front.send("a", text)
    for difference in differences:
        data = CODEC.encode(difference)
        assert len(data) < 8_000_000
        host.take(over_the_wire(difference))
    assert host.text(at) == text


def test_a_text_that_is_not_what_its_hash_says_is_a_gap() -> None:
    front, host = SentTexts(), KeptTexts()
    at, (difference,) = front.send("a", "text")
    host.take(difference)
    wrong = Difference(at.slot, 2, 1, 4, 0, b"more", b"12345678")
    with pytest.raises(GapError):
        host.take(wrong)
    with pytest.raises(GapError):
        host.text(at)


def test_nonsense_is_refused() -> None:
    front, host = SentTexts(), KeptTexts()
    at, (difference,) = front.send("a", "text")
    host.take(difference)
    for head, tail, middle in ((3, 2, b""), (5, 0, b""), (0, 0, b"\xff")):
        with pytest.raises(ProtocolError):
            host.take(Difference(at.slot, 2, 1, head, tail, middle))
    with pytest.raises(ProtocolError):
        front.place(PlaceRef(at, 4, 0, b"", 5))
    assert front.place(PlaceRef(TextRef(at.slot, 99), 0, 0, b"", 0)) is None


def test_what_is_remembered_is_bounded() -> None:
    front = SentTexts(documents=3, texts=4, characters=1000)
    for number in range(100):
        front.send(f"{number % 5}", f"{number}" * 200)
    held = [text for sent in front._of.values() for text in sent.texts.values()]
    assert len(front._of) == len(front._names) == 3
    assert len(held) <= 12
