"""The terminal during training: progress on stderr, a stop by Ctrl-C, and the closing summary."""

import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fastcoder_lsp.cli.terminal import erase_line
from fastcoder_lsp.core.controls import counted
from fastcoder_lsp.model.drafter_files import DrafterRecord
from fastcoder_lsp.papers.train.loop import TrainingProgress
from fastcoder_lsp.papers.train.session import Listener, Result

LINES_EVERY_SECONDS = 20.0


def watched(work: Callable[[Listener, Callable[[], bool]], Result]) -> tuple[Result, bool]:
    """The result of `work`, and whether the user stopped it."""
    shown = _ProgressLine()
    with _stop_asked() as should_stop:
        result = work(Listener(shown.note, shown.collected, shown.status), should_stop)
    shown.end()
    return result, should_stop()


def tell(result: Result) -> None:
    """Print the losses before and after on held-out text, and the commands that use the result."""
    outcome, record = result.outcome, result.record
    if record is None:
        print("Stopped before the first step. To resume, give the same command again.")
        return
    done = "done" if outcome.finished else "stopped; to resume, give the same command again"
    print(f"{counted(outcome.step, 'step')} in {outcome.seconds / 60:.1f} minutes, {done}.")
    for name in sorted(name for name in record.figures if name.startswith("held_out_") and name.endswith("_last")):
        term = name.removeprefix("held_out_").removesuffix("_last")
        first = record.figures[f"held_out_{term}_first"]
        print(f"{term} loss on held-out text: {first:.3f} → {record.figures[name]:.3f}")
    if "tokens_a_pass" in record.figures:
        print(f"tokens per pass on held-out text, 16 rows: {record.figures['tokens_a_pass']:.2f}")
    model = shlex.quote(result.model)
    folder, losses = shlex.quote(str(result.folder)), shlex.quote(str(result.folder.parent / "losses.svg"))
    if isinstance(record, DrafterRecord):
        print(f"Drafter: {folder}  (losses: {losses})")
        print(f"Use it: fastcoder-lsp complete FILE --model {model} --drafter {record.method}:weights={folder}")
    elif record.method == "distill":
        print(f"Model: {folder}  (losses: {losses})")
        print(f"Use it: --model {model} --draft-model {folder} --drafter draft-distilled")
    elif record.method == "edits":
        print(f"Model: {folder}  (losses: {losses})")
        print(f"Use it: set `edits.model` to {folder} in your editor's settings")
    else:
        drafter = "sdsat" if record.method == "sdsat" else "jacobi"
        print(f"Model: {folder}  (losses: {losses})")
        print(f"Measure it: fastcoder-lsp bench trained --model {folder} --before {model}")
        print(f"Use it: fastcoder-lsp complete FILE --model {folder} --drafter {drafter}")


@contextmanager
def _stop_asked() -> Iterator[Callable[[], bool]]:
    """Whether the user asked to stop (Ctrl-C, or SIGTERM); asked twice, the training stops at once."""
    asked: list[int] = []

    def ask(number: int, _frame: object) -> None:
        asked.append(number)
        if len(asked) > 1:
            raise KeyboardInterrupt
        print("\nStopping after this step. Press Ctrl-C again to stop now.", file=sys.stderr)

    kinds = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(kind, ask) for kind in kinds]
    try:
        yield lambda: bool(asked)
    finally:
        for kind, handler in zip(kinds, before, strict=True):
            signal.signal(kind, handler)


class _ProgressLine:
    """Notes and one live line on stderr; without a terminal, a line every now and then."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._last = 0.0
        self._open = False

    def note(self, text: str) -> None:
        self.end()
        print(text, file=sys.stderr, flush=True)

    def collected(self, done: int, wanted: int) -> None:
        self._line(f"collected {done}/{wanted}", last=done == wanted)

    def status(self, status: TrainingProgress) -> None:
        losses = "  ".join(f"{name} {loss:.3f}" for name, loss in status.losses.items())
        left = (status.steps - status.step) * status.step_seconds
        minutes, seconds = divmod(int(left), 60)
        text = f"step {status.step}/{status.steps}  {losses}  rate {status.rate:.1e}  {status.step_seconds:.2f} s/step"
        self._line(f"{text}  {minutes}:{seconds:02} left", last=status.step == status.steps)

    def end(self) -> None:
        if self._open:
            print(file=sys.stderr)
            self._open = False

    def _line(self, text: str, *, last: bool) -> None:
        now = time.monotonic()
        if self._live:
            erase_line()
            print(text, end="", file=sys.stderr, flush=True)
            self._open = True
        elif last or now - self._last > LINES_EVERY_SECONDS:
            self._last = now
            print(text, file=sys.stderr, flush=True)
