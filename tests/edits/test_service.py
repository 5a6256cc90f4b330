"""Questions for edits beside completions, in simulated time: who comes first, and what is computed again."""

import itertools
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from fastcoder_lsp.completion import reasons
from fastcoder_lsp.completion.protocol import Reload
from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Change, Progress, Reason
from fastcoder_lsp.edits.values import Edit, EditAnswer, EditQuestion
from fastcoder_lsp.prompt import NO_CONTEXT, Context, ContextSnippet
from fastcoder_lsp.runtime.context import ReadableFolder, RepositoryContext
from fastcoder_lsp.runtime.edit_model import EditRuntime
from fastcoder_lsp.runtime.parts import Runtime
from fastcoder_lsp.workspace.rules import ReadingRules
from tests.completion.simulated import COSTS, URI, SimulatedEngine, Simulation, script
from tests.edits.toys import edit_runtime
from tests.prompt.test_context import Given

TEXT = "def area(width):\n    return w * 2\n\nprint(area(1))\n"
NEW = TEXT.replace("w * 2", "width * 2")
CHANGE = Change("a.py", 0, "def area(w):\n", "def area(width):\n")


class EditSimulation(Simulation):
    """A person whose editor also asks for edits. `edit_model`: what the runtime says of the edit model."""

    def __init__(self, says: str = f"\n{NEW}", policy: Policy | None = None, context: int | None = None) -> None:
        super().__init__(script("done = 1\n", "x = "), policy or Policy(automatic_ms=400))
        self.edit_engine = SimulatedEngine(self.clock, script(says, "updated/a.py"))
        if context is not None:
            self.edit_engine.info = replace(self.edit_engine.info, context=context)
        runtime = edit_runtime(self.edit_engine, costs=COSTS, files_tokens=100)
        self.context: Context = NO_CONTEXT
        self.edit_model: Callable[[], EditRuntime | Reason | Status] = lambda: runtime

    def load(self, progress: Progress) -> Runtime:
        edit_model = lambda: self.edit_model()  # noqa: E731, PLW0108 tests replace it
        return replace(super().load(progress), edit_model=edit_model, context=self.context)

    def edit(self, text: str = TEXT, **more: Any) -> "Future[EditAnswer]":
        offset = text.index("width") + len("width")
        question = EditQuestion(0, URI, "a.py", "python", 1, text, offset, (CHANGE,))
        return self.service.edits.submit(structs.replace(question, **more))

    def edit_answer(self, **more: Any) -> EditAnswer:
        future = self.edit(**more)
        self.work(until=future.done)
        return future.result(0)


def reason_of(answer: EditAnswer) -> str:
    assert answer.edits == ()
    assert answer.reason is not None
    return answer.reason.code


def test_an_answer_is_minimal_edits() -> None:
    at = TEXT.index("w * 2") + 1
    answer = EditSimulation().edit_answer()
    assert answer.edits == (Edit(at, at, "idth"),)
    assert (answer.source, answer.reason, answer.cut) == ("simulated", None, False)
    assert answer.counts.tokens == len(f"\n{NEW}")
    assert answer.counts.steps * 3 < answer.counts.tokens, "the old text is the draft"


def test_a_completion_interrupts_an_edit_between_two_pieces() -> None:
    for pieces in itertools.count(1):
        person = EditSimulation()
        person.answer("x = ")
        person.rest(20_000)
        edit = person.edit()
        person.work(pieces=pieces)
        if edit.done():
            assert pieces > 5
            return
        done = len(person.edit_engine.pieces)
        completion = person.ask("y = 1\nx = ")
        person.work(until=completion.done)
        assert completion.result(0).text
        assert len(person.edit_engine.pieces) == done
        person.work(until=edit.done)
        assert edit.result(0).edits


def test_a_completion_interrupts_an_edits_search() -> None:
    person = EditSimulation()
    other = ContextSnippet("b.py", "def other():\n    return 2\n", 1.0, "/b.py")
    person.context = given = Given((other,), parts=20, works=partial(person.clock.passes, 4.0))
    person.answer("x = ")
    person.rest(20_000)
    edit = person.edit()
    person.work(pieces=3)
    completion = person.ask("y = 1\nx = ")
    person.work(until=completion.done)
    assert completion.result(0).text
    assert not person.edit_engine.pieces
    person.work(until=edit.done)
    assert edit.result(0).edits
    assert given.asked == 1


def test_an_edit_comes_before_work_ahead() -> None:
    person = EditSimulation()
    person.answer("x = ")
    before = len(person.engine.pieces)
    edit = person.edit()
    person.work(until=edit.done)
    assert len(person.engine.pieces) == before
    person.service.accepted(person.request("x = done = 1\nx = "), Policy())
    edit = person.edit(text=TEXT + "#")
    done = len(person.edit_engine.pieces)
    person.work(pieces=1)
    assert len(person.edit_engine.pieces) == done


def test_a_suggestion_is_finished_before_an_edit() -> None:
    """Where nothing was shown in time, the cursor's text comes late, and the edit after it."""
    person = EditSimulation(policy=Policy(automatic_ms=30))
    assert not person.answer("x = ").text
    edit = person.edit()
    person.work(until=edit.done)
    [(_, at_ms)] = person.late
    assert at_ms < person.edit_engine.pieces[0]


def test_the_newest_question_keeps_the_cache_of_the_older() -> None:
    person = EditSimulation()
    person.edit_answer()
    prompt = person.edit_engine.prefilled
    older, newer = person.edit(text=TEXT.replace("(1)", "(2)")), person.edit(text=TEXT.replace("(1)", "(3)"))
    assert reason_of(older.result(0)) == "superseded"
    person.work(until=newer.done)
    window = len(TEXT) + len("<|file_sep|>current/a.py\n<|file_sep|>updated/a.py")
    assert person.edit_engine.prefilled - prompt < 2 * window < prompt


def test_the_same_question_is_answered_at_once() -> None:
    person = EditSimulation()
    first, second = person.edit(), person.edit()
    person.work(until=first.done)
    assert second.result(0) is first.result(0)
    assert person.edit(version=7).result(0) is first.result(0)
    person.service.document_closed(URI)
    assert not person.edit().done()


def test_a_withdrawn_question_is_not_worked_on() -> None:
    person = EditSimulation()
    future = person.edit()
    person.work(pieces=3)
    done = len(person.edit_engine.pieces)
    assert future.cancel()
    person.rest(5_000)
    assert len(person.edit_engine.pieces) == done


def test_a_prompt_of_more_tokens_than_estimated_is_shortened() -> None:
    """Limits count bytes; where a byte is a token, the oldest changes are left out."""
    person = EditSimulation(context=2_000)
    history = tuple(Change("a.py", 0, "", f"{number}{'x' * 300}\n") for number in range(9))
    answer = person.edit_answer(history=(*history, CHANGE))
    assert answer.edits
    assert 500 < answer.counts.prefilled <= 1_500


@pytest.mark.parametrize(
    ("says", "code"),
    [(f"\n{TEXT}", "edit-none"), ("", "edit-none"), ("\n" + "x = 1\n" * 300, "edit-none")],
    ids=["no change", "nothing", "a loop"],
)
def test_an_answer_without_an_edit_says_so(says: str, code: str) -> None:
    person = EditSimulation(says)
    assert reason_of(person.edit_answer()) == code


def test_no_edit_model_and_one_that_is_still_loaded() -> None:
    person = EditSimulation()
    ready, person.edit_model = person.edit_model, reasons.no_edit_model
    assert reason_of(person.edit_answer()) == "edit-model"
    person.edit_model = lambda: Status("loading", 25, "weights")
    edit = person.edit(text=TEXT + "#")
    person.rest(1_000)
    assert not edit.done()
    assert person.answer("x = ").text
    person.edit_model = ready
    person.rest(20_000)
    assert edit.result(0).edits


@pytest.mark.parametrize("allowed", [True, False])
def test_the_prompt_begins_with_code_of_other_files(tmp_path: Path, allowed: bool) -> None:
    (tmp_path / "shapes.py").write_text(f"PASSWORD = 'swordfish-8x'\ndef area(width):\n    return {'width + ' * 9}1\n")
    (tmp_path / ".gitignore").write_text("hidden.py\n")
    (tmp_path / "hidden.py").write_text("def area(width):\n    return 'hidden'\n")
    folder = ReadableFolder(tmp_path, ReadingRules((tmp_path,), Settings()))
    texts = {path: path.read_text() for path in tmp_path.glob("*.py")}
    person = EditSimulation()
    person.context = RepositoryContext(lambda _: folder if allowed else None, lambda: texts, wait_s=60)
    uri = (tmp_path / "a.py").as_uri()
    assert person.edit_answer(uri=uri).edits
    prompt = bytes(person.edit_engine.cached()[1:]).decode()
    assert prompt.startswith("<|file_sep|>shapes.py\n" if allowed else "<|file_sep|>a.py.diff\n")
    assert not any(word in prompt for word in ("swordfish", "hidden"))
    prefilled = person.edit_engine.prefilled
    texts[tmp_path / "shapes.py"] += "# more\n"
    assert person.edit_answer(uri=uri, text=TEXT.replace("(1)", "(2)")).edits
    assert person.edit_engine.prefilled - prefilled < len(prompt) - 100 * allowed
    assert bytes(person.edit_engine.cached()[1:]).decode()[:60] == prompt[:60]


def test_a_failure_of_the_edit_model_costs_only_the_edit(monkeypatch: pytest.MonkeyPatch) -> None:
    person = EditSimulation()

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("out of everything")

    monkeypatch.setattr(person.edit_engine, "_step", fails)
    answer = person.edit_answer()
    assert reason_of(answer) == "error"
    assert "out of everything" in str(answer.reason)
    assert person.answer("x = ").text
    assert [status.state for status in person.statuses][-1] != "error"


def test_a_model_that_is_switched_off_or_replaced() -> None:
    person = EditSimulation()
    edit = person.edit()
    person.work(pieces=3)
    person.service.host.send(Reload())
    person.work(until=edit.done)
    assert edit.result(0).edits
    person.service.set_enabled(False)
    assert reason_of(person.edit_answer(text=TEXT + "#")) == "off"
