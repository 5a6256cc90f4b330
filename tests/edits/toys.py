"""An edit model without weights: it replaces a word in the window of a Sweep v1 prompt. A token is a byte."""

from collections.abc import Callable, Sequence

from fastcoder_lsp.core import Engine, StepCosts, Tokens
from fastcoder_lsp.documents import Slots
from fastcoder_lsp.draft.rewrite import RewriteDrafter
from fastcoder_lsp.edits.formats import format_named
from fastcoder_lsp.engine.one_slot import OneSlot
from fastcoder_lsp.runtime.edit_model import EditModel, EditRuntime
from tests.completion.toys import QUICK, Letters
from tests.fake_engine import END, MARK, FakeEngine


class Marked(Letters):
    """Letters, and a mark before every text."""

    def __init__(self) -> None:
        super().__init__()
        self.control: dict[str, int] = {}
        self.start_ids = (MARK,)


class ReplacingEngine(FakeEngine):
    """Says the window with `old` replaced by `new`; `waits`: what each step does first."""

    def __init__(self, old: str, new: str, waits: Callable[[], object] = lambda: None) -> None:
        super().__init__(vocabulary=256, context=100_000, chunk=100_000, name="replacing")
        self._old, self._new, self._waits = old.encode(), new.encode(), waits

    def works(self, rows: int, *, prefill: bool) -> None:
        if not prefill:
            self._waits()

    def choose(self, tokens: Tokens, among: Sequence[int]) -> int:
        before, _, answer = bytes(tokens[1:]).rpartition(b"<|file_sep|>updated/")
        window = before.rpartition(b"<|file_sep|>current/")[2].partition(b"\n")[2]
        says, said = window.replace(self._old, self._new), answer.partition(b"\n")
        if not said[1]:
            return ord("\n")
        return says[len(said[2])] if len(said[2]) < len(says) else END

    def ranked(self, *_: object) -> None:
        """It never hesitates."""


def edit_runtime(
    engine: Engine, front: str = "front", costs: StepCosts = QUICK, *, files_tokens: int = 0
) -> EditRuntime:
    """A front's part of the edit model."""
    tokenizer = Marked()
    model = EditModel(
        OneSlot(engine),
        tokenizer,
        costs,
        format_named("sweep-v1"),
        lambda: RewriteDrafter(tokenizer.piece, costs=costs),
    )
    return EditRuntime(model, Slots(model.engines, front), model.make_drafter(), files_tokens)
