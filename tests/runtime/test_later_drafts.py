"""A first start: plain decoding at first; the drafter and the index are compiled once a text is there."""

import threading
from pathlib import Path

import pytest

from fastcoder_lsp.config import Settings
from fastcoder_lsp.decode.loop import Decoded, decode
from fastcoder_lsp.draft.auto import AUTO
from fastcoder_lsp.draft.base import NoDrafter
from fastcoder_lsp.draft.registry import make
from fastcoder_lsp.runtime.compile_ahead import needed
from fastcoder_lsp.runtime.later_drafts import LaterDrafts, WaitingDrafter
from fastcoder_lsp.runtime.load import load_model, make_runtime
from tests.draft.test_exactness import VOCABULARY, request
from tests.draft.toys import RepetitiveEngine
from tests.faults.small_model import write_model

WAIT_S = 20.0


class Compiling:
    """Compiling that takes until `done`."""

    def __init__(self, *, fails: bool = False) -> None:
        self.begun, self.done, self.ended, self._fails = threading.Event(), threading.Event(), False, fails
        self.later = LaterDrafts(self._run, self._end)

    def _run(self) -> None:
        self.begun.set()
        assert self.done.wait(WAIT_S)
        if self._fails:
            raise OSError("no room")

    def _end(self) -> None:
        self.ended = True


@pytest.fixture
def compiling() -> Compiling:
    return Compiling()


def decoded(drafter: WaitingDrafter | NoDrafter) -> Decoded:
    return decode(RepetitiveEngine(VOCABULARY), drafter, request((1, 2)), lambda: False)


def finish(compiling: Compiling) -> None:
    called = threading.Event()
    compiling.later.call(called.set)
    assert not called.is_set()
    compiling.done.set()
    assert called.wait(WAIT_S)


def test_the_first_text_comes_without_drafts_and_the_next_one_with_them(compiling: Compiling) -> None:
    plain, drafter = decoded(NoDrafter()), WaitingDrafter(AUTO, compiling.later, lambda: make("auto"))
    first = decoded(drafter)
    assert (first.tokens, first.counts.steps) == (plain.tokens, plain.counts.steps)
    compiling.later.begin()
    assert compiling.begun.wait(WAIT_S)
    assert decoded(drafter).counts.steps == plain.counts.steps, "it does not wait for what is compiled"
    finish(compiling)
    drafted = decoded(drafter)
    assert drafted.tokens == plain.tokens
    assert drafted.counts.steps < plain.counts.steps


def test_nothing_is_compiled_before_a_text_is_there(compiling: Compiling) -> None:
    compiling.later.begin()
    assert not compiling.begun.is_set()
    compiling.later.want()
    compiling.later.begin()
    assert compiling.begun.wait(WAIT_S)


def test_a_call_comes_at_once_where_drafts_are_ready(compiling: Compiling) -> None:
    compiling.later.want()
    compiling.later.begin()
    finish(compiling)
    calls: list[int] = []
    compiling.later.call(lambda: calls.append(1))
    assert calls == [1]


def test_an_unloaded_model_ends_the_compiling_and_calls_nobody(compiling: Compiling) -> None:
    calls: list[int] = []
    compiling.later.want()
    compiling.later.begin()
    compiling.later.call(lambda: calls.append(1))
    compiling.later.close()
    assert compiling.ended
    compiling.done.set()
    compiling.later.call(lambda: calls.append(2))
    assert calls == []


def test_without_room_for_machine_code_texts_go_on_without_drafts() -> None:
    compiling = Compiling(fails=True)
    drafter = WaitingDrafter(AUTO, compiling.later, lambda: make("auto"))
    plain = decoded(drafter)
    compiling.later.begin()
    compiling.done.set()
    assert compiling.begun.wait(WAIT_S)
    assert decoded(drafter).tokens == plain.tokens
    assert not compiling.later.ready


@pytest.mark.parametrize("drafter", ["auto", "suffix"])
def test_a_first_start_compiles_no_drafter_before_the_first_text(
    drafter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A drafter that the user names is compiled at once: they asked for it."""
    monkeypatch.setenv("FASTCODER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FASTCODER_KERNELS", str(tmp_path / "kernels"))
    used = Settings(model=str(write_model(tmp_path / "model")), engine="cpu-fp32", drafter=drafter, threads=1)
    assert needed()
    model = load_model(used, lambda _share, _what: None, datastore=True, later=True)
    calls: list[int] = []
    model.once_drafting(lambda: calls.append(1))
    runtime = make_runtime(model, used)
    waits = isinstance(runtime.drafter, WaitingDrafter)
    assert (waits, needed(), calls) == ((True, True, []) if drafter == "auto" else (False, False, [1]))
    model.close()
