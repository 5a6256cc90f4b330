"""The live index over a real folder: whatever happens to files and documents, it holds what a new one would hold."""

import random
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from benchmarks.datasets import data_folder, histories, require
from fastcoder_lsp.index.searcher import Hits, Searcher
from fastcoder_lsp.index.store import Store
from fastcoder_lsp.workspace.inbox import BURST
from tests.draft.small_store import snapshot
from tests.index import naive
from tests.index.live import SETTINGS, OpenWorkspace, UsedIndex, expected, held, tokens_of, until, write
from tests.opened import opening

NO_PYTHON = replace(SETTINGS, languages_exclude=("python",))
Open = Callable[..., UsedIndex]
needs_replay = pytest.mark.skipif(
    data_folder() is None or not (data_folder() or Path()).joinpath("replay").is_dir(),
    reason="the replay histories are not on this machine (FASTCODER_DATA)",
)


@pytest.fixture
def open_index(tmp_path: Path) -> Iterator[Open]:
    """Opens live indexes that share one cache, and stops them at the end."""

    def make(*roots: Path, watching: bool = False) -> UsedIndex:
        live = UsedIndex(dict.fromkeys(roots, SETTINGS), tmp_path / "cache", watching=watching)
        live.start()
        assert live.wait_idle(60)
        return live

    yield from opening(make, UsedIndex.stop)


def same_answers(live: UsedIndex, files: Mapping[str, list[int]], chance: random.Random, count: int) -> None:
    """Searches give what a store built from scratch gives: length, number of hits and, where few, the same places."""
    fresh, searcher = Searcher([snapshot(files)]), Searcher(live.pin())
    for _ in range(count):
        tokens = chance.choice(list(files.values()))
        end = chance.randint(0, len(tokens))
        context = tokens[max(0, end - 20) : end]
        one, other = searcher.search(context, 16, 64, 10), fresh.search(context, 16, 64, 10)
        assert (one.length, one.count) == (other.length, other.count)
        if one.count <= 64:
            assert places(searcher, one) == places(fresh, other)


def places(searcher: Searcher, hits: Hits) -> set[tuple[str, int, tuple[int, ...]]]:
    found = set()
    for hit in range(len(hits.rows_H)):
        place = searcher.position(hits, hit)
        found.add((place.key, place.token, tuple(hits.continuations_HD[hit].tolist())))
    return found


def steps_of(request: pytest.FixtureRequest, count: int) -> int:
    """How many steps of a history to replay: all with --long."""
    return 10**9 if request.config.getoption("--long") else count


@needs_replay
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", histories.NAMES)
def test_replayed_history(name: str, root: Path, open_index: Open, request: pytest.FixtureRequest) -> None:
    replay = require("replay")
    files, chance = histories.base(replay, name), random.Random(name)
    on_disk = dict(files)
    write(root, files)
    live = open_index(root)
    for number, step in enumerate(histories.steps(replay, name)):
        if number >= steps_of(request, 100):
            break
        histories.apply(files, step)
        path = root / step.path
        match step:
            case histories.RecordedEdit():
                live.document_changed(path, files[step.path])
            case histories.Remove():
                path.unlink()
                on_disk.pop(step.path, None)
                live.files_changed([path])
                live.document_closed(path)
            case _:
                on_disk[step.path] = files[step.path]
                write(root, {step.path: files[step.path]})
                live.files_changed([path])
                if chance.random() < 0.5:
                    live.document_closed(path)
        assert live.wait_idle(60)
        now = expected(root, files)
        assert held(live) == now
        same_answers(live, now, chance, 2)
    live.stop()
    again = open_index(root)
    assert held(again) == expected(root, on_disk)
    assert [problem for store in again.stores() for problem in naive.faults(store.folder)] == []


def test_unsaved_text_overrides_the_disk(root: Path, open_index: Open) -> None:
    write(root, {"a.py": "one = 1\n", "b.py": "two = 2\n"})
    live = open_index(root)
    live.document_changed(root / "a.py", "unsaved = 3\n")
    live.document_changed(root / "new.py", "fresh = 4\n")
    assert live.wait_idle(20)
    assert held(live) == expected(root, {"a.py": "unsaved = 3\n", "b.py": "two = 2\n", "new.py": "fresh = 4\n"})
    write(root, {"a.py": "by another program = 5\n"})
    live.files_changed([root / "a.py"])
    assert live.wait_idle(20)
    assert held(live)[str(root / "a.py")] == expected(root, {"a.py": "unsaved = 3\n"})[str(root / "a.py")]
    live.document_closed(root / "a.py")
    live.document_closed(root / "new.py")
    assert live.wait_idle(20)
    assert held(live) == expected(root, {"a.py": "by another program = 5\n", "b.py": "two = 2\n"})


def test_line_ends_make_no_difference(root: Path, open_index: Open) -> None:
    write(root, {"crlf.py": "a = 1\r\nb = 2\r\n", "cr.py": "a = 1\rb = 2\r"})
    live = open_index(root)
    assert held(live) == expected(root, {"crlf.py": "a = 1\nb = 2\n", "cr.py": "a = 1\nb = 2\n"})


def test_nothing_that_may_not_be_read_is_held(root: Path, tmp_path: Path, open_index: Open) -> None:
    write(tmp_path, {"outside.py": "outside = 1\n"})
    write(root, {"good.py": "good = 1\n", ".gitignore": "ignored/\n", ".env": "PASSWORD = 1\n", "id_rsa": "KEY\n"})
    write(root, {"ignored/a.py": "ignored = 1\n", "node_modules/x/b.js": "installed = 1\n"})
    (root / "bytes.py").write_bytes(b"x = 1\n\xff\xfe\n")
    (root / "zeros.py").write_bytes(b"x = 1\n\0\n")
    (root / "link.py").symlink_to(tmp_path / "outside.py")
    (root / "inside.py").symlink_to(root / "ignored" / "a.py")
    (root / "linked").symlink_to(tmp_path, target_is_directory=True)
    (root / "loop").symlink_to(root, target_is_directory=True)
    (root / "self.py").symlink_to(root / "self.py")
    (root / "dangling.py").symlink_to(root / "nowhere.py")
    live = open_index(root, watching=True)
    allowed = {str(root / "good.py"), str(root / ".gitignore")}
    assert set(held(live)) == allowed
    names = [".env", "ignored/a.py", "link.py", "inside.py", "linked/outside.py", "loop/ignored/a.py", "self.py"]
    for name in names:
        live.document_changed(root / name, "shown = 1\n")
    live.files_changed([root / name for name in (*names, "bytes.py", "dangling.py")])
    live.document_changed(tmp_path / "outside.py", "shown = 1\n")
    live.document_changed(root / "good.py", "good = 2\n")
    assert live.wait_idle(20)
    # The looping link's own path is free for a new document; everything else stays out.
    assert set(held(live)) == {*allowed, str(root / "self.py")}
    assert held(live)[str(root / "good.py")] == tokens_of("good = 2\n")


def test_what_becomes_ignored_is_removed(root: Path, open_index: Open) -> None:
    write(root, {"a.py": "a = 1\n", "secret/b.py": "b = 1\n"})
    live = open_index(root, watching=True)
    assert {str(root / "a.py"), str(root / "secret/b.py")} <= set(held(live))
    write(root, {".fastcoderignore": "secret/\n"})
    until(lambda: str(root / "secret/b.py") not in held(live))
    assert str(root / "a.py") in held(live)
    (root / ".fastcoderignore").unlink()
    until(lambda: str(root / "secret/b.py") in held(live))


def test_folders_come_move_and_go(root: Path, tmp_path: Path, open_index: Open) -> None:
    write(root, {"a.py": "a = 1\n"})
    live = open_index(root, watching=True)
    files = {f"deep/er{number}/file.py": f"x{number} = 1\n" for number in range(5)}
    write(tmp_path / "staging", files)
    (tmp_path / "staging" / "deep").rename(root / "deep")
    until(lambda: held(live) == expected(root, {"a.py": "a = 1\n", **files}))
    (root / "deep").rename(root / "other")
    moved = {path.replace("deep/", "other/"): text for path, text in files.items()}
    until(lambda: held(live) == expected(root, {"a.py": "a = 1\n", **moved}))
    (root / "other").rename(tmp_path / "away")
    until(lambda: held(live) == expected(root, {"a.py": "a = 1\n"}))
    shutil.copytree(tmp_path / "away", root / "deep")
    until(lambda: held(live) == expected(root, {"a.py": "a = 1\n", **files}))
    shutil.rmtree(root / "deep")
    until(lambda: held(live) == expected(root, {"a.py": "a = 1\n"}))


def test_workspace_folders_come_and_go(root: Path, tmp_path: Path, open_workspace: OpenWorkspace) -> None:
    other = tmp_path / "other"
    write(root, {"a.py": "a = 1\n", "inner/b.py": "b = 1\n", "inner/d.js": "d = 1\n"})
    write(other, {"c.py": "c = 1\n"})
    workspace = open_workspace(root)
    workspace.datastore.change({root: SETTINGS, other: SETTINGS, root / "inner": NO_PYTHON})
    assert workspace.datastore.wait_idle(20)
    assert set(held(workspace)) == {str(root / "a.py"), str(root / "inner/d.js"), str(other / "c.py")}
    workspace.datastore.change({root: SETTINGS})
    assert workspace.datastore.wait_idle(20)
    assert set(held(workspace)) == {str(root / name) for name in ("a.py", "inner/b.py", "inner/d.js")}
    workspace.datastore.change({other: SETTINGS})
    assert workspace.datastore.wait_idle(20)
    assert set(held(workspace)) == {str(other / "c.py")}


@pytest.mark.parametrize("count", [2_000, pytest.param(20_000, marks=pytest.mark.long)])
@pytest.mark.timeout(900)
def test_many_files_at_once(count: int, root: Path, tmp_path: Path, open_index: Open) -> None:
    live = open_index(root, watching=True)
    staging = tmp_path / "staging"
    write(staging, {f"d{n % 50}/f{n}.py": f"def f{n}(x):\n    return x + {n}\n" * 20 for n in range(count)})
    before = psutil.Process().memory_info().rss
    staging.rename(root / "many")
    live.document_changed(root / "open.py", "being = edited\n")
    until(lambda: str(root / "open.py") in held(live), 5)
    until(lambda: len(live.pin()[0].files()) == count + 1, 300)
    assert psutil.Process().memory_info().rss - before < 400_000_000
    shutil.rmtree(root / "many" / "d0")
    until(lambda: len(live.pin()[0].files()) == count + 1 - count // 50, 60)


def test_a_second_server_follows_and_takes_over(root: Path, open_index: Open) -> None:
    write(root, {"a.py": "a = 1\n"})
    first = open_index(root, watching=True)
    second = open_index(root, watching=True)
    assert [store.writable for live in (first, second) for store in live.stores()] == [True, False]
    until(lambda: held(second) == expected(root, {"a.py": "a = 1\n"}))
    second.document_changed(root / "b.py", "only = here\n")
    write(root, {"a.py": "a = 2\n"})
    until(lambda: held(second) == expected(root, {"a.py": "a = 2\n", "b.py": "only = here\n"}))
    until(lambda: held(first) == expected(root, {"a.py": "a = 2\n"}))
    first.stop()
    until(lambda: all(store.writable for store in second.stores()))
    write(root, {"c.py": "c = 1\n"})
    until(lambda: str(root / "c.py") in held(second))


def test_what_comes_while_the_rest_is_sealed_is_sealed_too(
    root: Path, open_index: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other servers see only what is on the disk: the last file that was saved must not wait for one more."""
    live = open_index(root)
    seal, late = Store.seal, root / "late.py"

    def seal_slowly(store: Store) -> None:
        seal(store)
        if not late.exists():
            write(root, {late.name: "too = late\n"})
            live.files_changed([late])
            until(lambda: str(late) in store.records())

    monkeypatch.setattr(Store, "seal", seal_slowly)
    write(root, {"a.py": "a = 1\n"})
    live.files_changed([root / "a.py"])
    until(late.exists)
    until(lambda: all(not store.in_memory() for store in live.stores()))


def test_a_change_before_the_start_is_found_at_the_start(root: Path, open_index: Open) -> None:
    write(root, {"a.py": "a = 1\n", "b.py": "b = 1\n", "c.py": "c = 1\n"})
    live = open_index(root)
    live.stop()
    kept = next(store.record(str(root / "a.py")) for store in live.stores())
    write(root, {"b.py": "b = 22\n", "d.py": "d = 1\n"})
    (root / "c.py").unlink()
    again = open_index(root)
    assert held(again) == expected(root, {"a.py": "a = 1\n", "b.py": "b = 22\n", "d.py": "d = 1\n"})
    assert next(store.record(str(root / "a.py")) for store in again.stores()) == kept


def test_what_a_full_queue_lost_is_found(root: Path, open_index: Open) -> None:
    live = open_index(root)
    files = {"lost.py": "nobody(told)\n"}
    write(root, files)
    live.files_changed([root / f"gone{number}.py" for number in range(BURST + 1)])
    until(lambda: held(live) == expected(root, files))


def test_no_thread_is_left(root: Path, open_index: Open) -> None:
    before = set(threading.enumerate())
    live = open_index(root, watching=True)
    live.stop()
    until(lambda: set(threading.enumerate()) <= before)
