"""The server's copy of a document against a naive client that keeps its text as one list of characters."""

import re
from dataclasses import dataclass

from hypothesis import example, given
from hypothesis import strategies as st

from fastcoder_lsp.workspace.document import ContentChange, Document, Encoding, Position, position_at

ENCODINGS = st.sampled_from(list(Encoding))
# What breaks naive line rules and naive counting: all three line ends, what only Python takes for one, characters of
# one to four bytes and of two units, a combining mark, half a surrogate pair, and a control token spelled out.
PIECES = st.sampled_from(
    [
        *("a", "b", " ", "\n", "\r", "\r\n", "\f", "\v", "\x1c", "\x85", "\u2028", "\u2029", "é", "ß", "中", "😀", "🏳️"),
        *("e\u0301", "\ud83d", "\ude00", "<|fim_prefix|>", "\0", "\t"),
    ]
)
TEXTS = st.lists(PIECES, max_size=12).map("".join)
PLACES = st.integers(min_value=0, max_value=14)
POSITIONS = st.builds(Position, PLACES, PLACES)


@dataclass
class NaiveClient:
    """Text as the client holds it: surrogate pairs are one character, lines by the protocol's words."""

    text: str

    def lines(self) -> list[tuple[int, int]]:
        """(start, end) of each line, ends excluded."""
        spans, start = [], 0
        for end in re.finditer("\r\n|\r|\n", self.text):
            spans.append((start, end.start()))
            start = end.end()
        return [*spans, (start, len(self.text))]

    def offset(self, position: Position, encoding: Encoding) -> int:
        lines = self.lines()
        if position.line >= len(lines):
            return len(self.text)
        start, end = lines[position.line]
        units = 0
        for offset in range(start, end):
            units += width(self.text[offset], encoding)
            if units > position.character:
                return offset
        return end

    def edit(self, edit: ContentChange, encoding: Encoding) -> None:
        if edit.start is None or edit.end is None:
            self.text = joined(edit.text)
            return
        start, end = sorted((self.offset(edit.start, encoding), self.offset(edit.end, encoding)))
        self.text = joined(self.text[:start] + edit.text + self.text[end:])


def width(character: str, encoding: Encoding) -> int:
    codec = {Encoding.UTF8: "utf-8", Encoding.UTF16: "utf-16-le", Encoding.UTF32: "utf-32-le"}[encoding]
    return len(character.encode(codec, "surrogatepass")) // {"utf-8": 1, "utf-16-le": 2, "utf-32-le": 4}[codec]


def joined(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def opened(text: str) -> Document:
    return Document("untitled:1", None, "python", 1, text)


EDITS = st.lists(
    st.one_of(st.builds(ContentChange, TEXTS, POSITIONS, POSITIONS), st.builds(ContentChange, TEXTS)), max_size=8
)


@given(TEXTS, EDITS, ENCODINGS)
@example("a\r", [ContentChange("\n", Position(1, 0), Position(1, 0))], Encoding.UTF16)
@example("a\r\nb", [ContentChange("", Position(0, 1), Position(1, 0))], Encoding.UTF16)
@example("\ud83d", [ContentChange("\ude00", Position(0, 1), Position(0, 1))], Encoding.UTF16)
def test_edits_keep_the_copy_equal_to_the_clients_text(
    text: str, edits: list[ContentChange], encoding: Encoding
) -> None:
    document, client = opened(text), NaiveClient(joined(text))
    assert document.text == client.text
    for version, edit in enumerate(edits, 2):
        document.edit(version, [edit], encoding)
        client.edit(edit, encoding)
        assert document.text == client.text
    assert document.clean_text == re.sub("\r\n|\r", "\n", client.text)
    assert document.longest_line() == max(end - start for start, end in client.lines())


@given(TEXTS, POSITIONS, ENCODINGS)
def test_an_offset_leads_back_to_its_position(text: str, position: Position, encoding: Encoding) -> None:
    document, client = opened(text), NaiveClient(joined(text))
    offset = document.offset_at(position, encoding)
    raw = client.offset(position, encoding)
    assert document.clean_text[:offset] == re.sub("\r\n|\r", "\n", client.text[:raw])
    back = position_at(document.clean_text, offset, encoding)
    assert document.offset_at(back, encoding) == offset
    assert client.offset(back, encoding) == raw
    assert back.line == position.line or position.line >= len(client.lines())


def test_negative_positions_mean_the_start() -> None:
    """What no client should send does not reach around to the end, as Python's indices would."""
    document = opened("ab\ncd")
    document.edit(2, [ContentChange("x", Position(-1, 5), Position(-1, 7))], Encoding.UTF16)
    document.edit(3, [ContentChange("y", Position(1, -4), Position(1, -2))], Encoding.UTF16)
    assert document.text == "xab\nycd"


def test_a_snapshot_stays_as_it_was() -> None:
    document = opened("a\r\nb")
    before = document.snapshot()
    assert document.snapshot() is before
    document.edit(2, [ContentChange("!", Position(1, 1), Position(1, 1))], Encoding.UTF16)
    assert (before.text, before.version, before.edited) == ("a\nb", 1, False)
    after = document.snapshot()
    assert (after.text, after.version, after.edited) == ("a\nb!", 2, True)
