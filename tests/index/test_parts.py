"""Orders, merges, liveness, chunks and the stored format, each against a naive version."""

import os
import random
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastcoder_lsp.index import chunks, merge, segment
from fastcoder_lsp.index.chunks import ChunkedEncoder
from fastcoder_lsp.index.part import FileRecord, IndexedFile, Part, build_part, liveness
from fastcoder_lsp.index.segment import DamagedError, read_segment, write_segment
from fastcoder_lsp.index.store import Store
from fastcoder_lsp.index.stored import FILE_NAME
from fastcoder_lsp.model import ModelFiles
from fastcoder_lsp.tokenizer import Tokenizer
from tests.index.toy_encoder import ToyEncoder

FILES = st.lists(st.lists(st.sampled_from([0, 1, 2, 300, 70_000, 2**24 - 1]), max_size=40), min_size=1, max_size=6)


def documents(files: list[list[int]], name: str = "f") -> list[IndexedFile]:
    return [
        IndexedFile(FileRecord(f"{name}{number}", ""), np.array(tokens, np.int32))
        for number, tokens in enumerate(files)
    ]


def contexts(part: Part) -> list[list[int]]:
    """What stands before each place of the order, backwards, to the beginning of its file."""
    found = []
    for place in part.order_M.tolist():
        start = int(part.starts[part.file_at(place)])
        found.append(part.tokens_N[start:place][::-1].tolist())
    return found


@settings(max_examples=60, deadline=None)
@given(st.lists(FILES, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_merge_equals_sorting_what_lives(groups: list[list[list[int]]], chance: random.Random) -> None:
    parts = [build_part(documents(files, f"group{number}-")) for number, files in enumerate(groups)]
    dead = [frozenset(file for file in range(len(files)) if chance.random() < 0.3) for files in groups]
    live = [liveness(part.order_M, part.starts, out) for part, out in zip(parts, dead, strict=True)]
    merged = merge.weave(parts, dead, live)
    assert merged is not None
    kept = [
        part.document(f)
        for part, out in zip(parts, dead, strict=True)
        for f in range(len(part.records))
        if f not in out
    ]
    fresh = build_part(kept)
    assert merged.records == fresh.records
    assert merged.tokens_N.tolist() == fresh.tokens_N.tolist()
    assert contexts(merged) == contexts(fresh)


def test_merge_of_long_copies_is_exact_as_deep_as_searches_go() -> None:
    copy = list(np.random.default_rng(0).integers(0, 3, merge.DEPTH * 3))
    parts = [build_part(documents([copy, copy[:-1]], name)) for name in ("a", "b", "c")]
    merged = merge.weave(parts, [frozenset()] * 3, [None] * 3)
    assert merged is not None
    near = [context[: merge.DEPTH] for context in contexts(merged)]
    assert near == sorted(near)
    assert sorted(merged.order_M.tolist()) == sorted(build_part(documents([copy, copy[:-1]] * 3)).order_M.tolist())


def test_a_stopped_merge_leaves_nothing(tmp_path: Path) -> None:
    parts = [build_part(documents([[1, 2, 3]], name)) for name in ("a", "b")]

    def room(
        starts: "np.ndarray[tuple[int], np.dtype[np.int64]]", records: tuple[FileRecord, ...], size: int
    ) -> object:
        return segment.SegmentDraft(tmp_path / "x.seg", "toy", starts, records, size)

    assert merge.weave(parts, [frozenset()] * 2, [None] * 2, room, lambda: True) is None  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


@given(st.lists(st.integers(1, 1000), max_size=12), st.data())
def test_merging_comes_to_an_end_with_few_segments(sizes: list[int], data: st.DataObject) -> None:
    dead = [data.draw(st.integers(0, size)) for size in sizes]
    rounds = 0
    while chosen := merge.segments_to_merge(sizes, dead):
        rounds += 1
        assert rounds < 50
        merged = sum(sizes[i] - dead[i] for i in chosen)
        sizes = [size for i, size in enumerate(sizes) if i not in chosen] + ([merged] if merged else [])
        dead = [count for i, count in enumerate(dead) if i not in chosen] + ([0] if merged else [])
    ordered = sorted(sizes)
    assert all(size > merge.GROWTH * sum(ordered[:place]) for place, size in enumerate(ordered) if place)


LINES = st.lists(
    st.sampled_from(["def f(x):", "    return x", "", "\t", "}", "é = '\N{SNOWMAN}'", "x" * 400, "\f", "  " * 90]),
    max_size=300,
)


@given(LINES)
def test_chunks_make_up_the_text(lines: list[str]) -> None:
    text = "\n".join(lines)
    found = chunks.split(text)
    assert "".join(found) == text
    assert all(chunk.endswith("\n") for chunk in found[:-1])
    assert all(chunk.split("\n")[0].strip() for chunk in found[1:])


@settings(deadline=None)
@given(LINES, st.lists(st.tuples(st.integers(0, 300), st.sampled_from(["", "y = 1", "    z"])), max_size=8))
def test_remembered_chunks_change_nothing(lines: list[str], edits: list[tuple[int, str]]) -> None:
    encoder = ChunkedEncoder(ToyEncoder(), remembered=2_000)
    for at, line in edits:
        lines[at : at + 1] = [line]
        text = "\n".join(lines)
        fresh = ChunkedEncoder(ToyEncoder())
        assert encoder.encode(text).tolist() == fresh.encode(text).tolist() == fresh.encode_many([text])[0].tolist()


def test_the_tokenizer_gets_so_much_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes some hundred times the memory of the text that it works on."""
    asked = list[int]()

    class Counting(ToyEncoder):
        def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
            asked.append(sum(map(len, texts)))
            return super().encode_many(texts)

    monkeypatch.setattr(chunks, "AT_ONCE", 10_000)
    text = "".join(f"name_{number} = {number}\n" for number in range(5_000))
    one, many = ChunkedEncoder(Counting()).encode(text), ChunkedEncoder(Counting()).encode_many([text, "x\n"])
    assert one.tolist() == many[0].tolist() == ToyEncoder().encode(text)
    assert many[1].tolist() == ToyEncoder().encode("x\n")
    assert max(asked) <= 10_000
    assert sum(asked) == 2 * len(text) + 2


@pytest.mark.model
def test_chunks_have_the_tokens_of_the_whole_text(default_model: ModelFiles) -> None:
    """At a line that begins with no white space the model's tokenizer cuts anyway."""
    tokenizer = Tokenizer.load(default_model.folder)
    encoder = ChunkedEncoder(tokenizer)
    library = Path(os.__file__).parent
    for name in ("argparse.py", "json/decoder.py", "inspect.py", "this.py"):
        text = (library / name).read_text(encoding="utf-8")
        parts = chunks.split(text)
        at_left = [part for part in parts[1:] if not part[0].isspace()]
        if len(at_left) == len(parts) - 1:
            assert encoder.encode(text).tolist() == tokenizer.encode(text)
        assert tokenizer.decode(encoder.encode(text).tolist()) == text


def test_segment_comes_back_as_it_was(tmp_path: Path) -> None:
    part = build_part(documents([[1, 2, 3, 1, 2], [], [2**24 - 1, 0]], "Schlüssel-\udc80-"))
    path = tmp_path / "a.seg"
    for mapped in (write_segment(part, path, "toy"), read_segment(path, "toy")):
        assert mapped.records == part.records
        assert mapped.tokens_N.tolist() == part.tokens_N.tolist()
        assert mapped.order_M.tolist() == part.order_M.tolist()
        assert mapped.starts.tolist() == part.starts.tolist()


@pytest.mark.parametrize("identity", ["toy", "another"])
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_damage_of_a_segment_is_noticed(identity: str, data: st.DataObject) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.seg"
        write_segment(build_part(documents([[1, 2, 3, 1, 2], [5, 6]])), path, "toy")
        content = bytearray(path.read_bytes())
        if identity == "toy":
            # The header's padding is no content.
            places = [*range(116), *range(256, len(content))]
            at = data.draw(st.sampled_from(places))
            cut = data.draw(st.booleans())
            if cut:
                content = content[:at]
            else:
                content[at] ^= data.draw(st.integers(1, 255))
        path.write_bytes(content)
        with pytest.raises(DamagedError):
            read_segment(path, identity)


@pytest.mark.parametrize(
    "damage",
    ["newer format", "no json", "a segment is missing", "a segment is cut", "another tokenizer", "dead file unknown"],
)
def test_a_damaged_store_is_built_anew_with_one_notice(damage: str, tmp_path: Path) -> None:
    store = Store.open(tmp_path, "toy")
    store.save(documents([[1, 2, 3]]))
    store.close()
    manifest, stored = tmp_path / FILE_NAME, next(tmp_path.glob("*.seg"))
    if damage == "newer format":
        stored.write_bytes(segment.MAGIC + struct.pack("<q", 99) + stored.read_bytes()[16:])
    elif damage == "no json":
        manifest.write_bytes(b"\0\xff{")
    elif damage == "a segment is missing":
        stored.unlink()
    elif damage == "a segment is cut":
        stored.write_bytes(stored.read_bytes()[:-5])
    elif damage == "dead file unknown":
        from fastcoder_lsp.index.stored import Manifest, SegmentEntry

        Manifest("toy", "", 7, (SegmentEntry(stored.name, (5,)),)).write(tmp_path)
    notices: list[str] = []
    identity = "another" if damage == "another tokenizer" else "toy"
    again = Store.open(tmp_path, identity, notice=notices.append)
    assert len(notices) == 1
    assert again.pin().files() == {}
    again.save(documents([[4, 5, 6]]))
    again.close()
    once_more = Store.open(tmp_path, identity, notice=notices.append)
    assert [tokens.tolist() for tokens in once_more.pin().files().values()] == [[4, 5, 6]]
    assert len(notices) == 1
    once_more.close()


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of another kind")
def test_only_the_user_can_read_the_store(tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "index" / "store"
    old = os.umask(0)
    try:
        store = Store.open(folder, "toy")
        store.save(documents([[1, 2, 3]]))
        store.close()
    finally:
        os.umask(old)
    for path in (folder.parent.parent, folder.parent, folder, *folder.iterdir()):
        assert path.stat().st_mode & 0o077 == 0, path
