"""`fastcoder-lsp train …`: tune a model, or a drafter for it, on your own code, to say several tokens at once."""

import argparse
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from fastcoder_lsp.cli.start import whole_path
from fastcoder_lsp.cli.terminal import erase_line
from fastcoder_lsp.cli.train_drafter import add_drafter_parsers
from fastcoder_lsp.cli.train_options import add_amounts, add_model_and_data, add_tuning
from fastcoder_lsp.cli.train_self import add_self_parser

if TYPE_CHECKING:
    from fastcoder_lsp.train.loop import Status
    from fastcoder_lsp.train.session import Job, Listener, Result

Done = TypeVar("Done")
LINES_EVERY_SECONDS = 20.0


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its actions."""
    parser = commands.add_parser(
        "train",
        help="tune a model on your code so that it says several tokens at once",
        description="Tune a model on your own code by CLLM or SDSAT: the result is an ordinary model's folder, to be "
        "named with --model. Or train a drafter for a model that stays as it is (docs/training.md). What tunes a model "
        "by LoRA needs the extra: pip install 'fastcoder-lsp[train]'.",
        epilog="Example: fastcoder-lsp train sdsat --data ~/src/mine --out tuned --max-minutes 60",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    sdsat = actions.add_parser(
        "sdsat",
        help="teach one token that stands for words to come; decode with --drafter sdsat",
        description="SDSAT: adaptive tokens stand in place of text in training; decoding appends them and reads off "
        "guesses for the next tokens, which the next pass verifies. Interrupted, the same command goes on.",
        epilog="Example: fastcoder-lsp train sdsat --data ~/src/mine --out tuned --max-minutes 60",
    )
    _add_common(sdsat)
    sdsat.add_argument("--longest", type=int, default=5, metavar="L", help="longest run of adaptive tokens; default: 5")
    sdsat.add_argument("--weight", type=float, default=1.0, metavar="W", help="of the masked stream; default: 1")
    sdsat.add_argument(
        "--stream",
        choices=("improved", "basic", "branches"),
        default="improved",
        help="how adaptive tokens are shown: the paper's two streams, its basic one, or beside one plain text "
        "(less work for the same loss); default: improved",
    )
    sdsat.add_argument("--distinct", action="store_true", help="SDSAT-D: L different adaptive tokens")
    sdsat.set_defaults(run=_sdsat)
    cllm = actions.add_parser(
        "cllm",
        help="teach the model to jump to the end of its own Jacobi iteration; decode with --drafter jacobi, lookahead",
        description="CLLM: collect the model's own Jacobi trajectories on your code, then teach it to say from any "
        "state what it says at the end. Interrupted, the same command goes on.",
        epilog="Example: fastcoder-lsp train cllm --data ~/src/mine --out tuned --max-minutes 60",
    )
    _add_common(cllm)
    cllm.add_argument("--block", type=int, default=16, metavar="N", help="tokens guessed at once; default: 16")
    cllm.add_argument("--weight", type=float, default=1.0, metavar="W", help="of the autoregressive loss; default: 1")
    cllm.add_argument("--consistency", choices=("global", "local"), default="global", help="default: global")
    cllm.add_argument("--trajectories", type=int, metavar="N", help="how many are collected; default: by the machine")
    cllm.add_argument("--blocks", type=int, default=6, metavar="N", help="blocks of a trajectory; default: 6")
    cllm.add_argument(
        "--correct", type=float, default=0.2, metavar="SHARE", help="of wrong tokens corrected; default: 0.2"
    )
    cllm.set_defaults(run=_cllm)
    add_drafter_parsers(actions, _source, _watched)
    add_self_parser(actions, _source)
    export = actions.add_parser(
        "export",
        help="write a run's newest checkpoint as a model's folder",
        description="Merge the newest checkpoint of a run into its base model and write that in the ordinary format. "
        "`train` does it at its end; this is for runs that are still going, or for another place.",
        epilog="Example: fastcoder-lsp train export tuned --to ~/models/mine",
    )
    export.add_argument("out", type=Path, metavar="FOLDER", help="the run's folder, as given to --out")
    export.add_argument("--to", type=Path, metavar="FOLDER", help="where to write; default: FOLDER/model")
    export.add_argument("--model", help="the model that was tuned, where it is not found under its name any more")
    export.set_defaults(run=_export)


def _add_common(parser: argparse.ArgumentParser) -> None:
    add_model_and_data(parser, "what to tune")
    add_amounts(parser, each="windows or trajectories", text="window")
    add_tuning(parser)
    parser.add_argument("--rank", type=int, metavar="R", help="of LoRA; default: 16")
    parser.add_argument("--device", default="auto", help="cpu, cuda, cuda:N; default: auto")


def _sdsat(arguments: argparse.Namespace) -> int:
    from fastcoder_lsp.train.sdsat import SdsatSettings
    from fastcoder_lsp.train.session import Job

    settings = SdsatSettings(
        longest=arguments.longest, weight=arguments.weight, stream=arguments.stream, distinct=arguments.distinct
    )
    return _run(Job(method="sdsat", sdsat=settings, **_common(arguments)))


def _cllm(arguments: argparse.Namespace) -> int:
    from fastcoder_lsp.train.cllm import CllmSettings
    from fastcoder_lsp.train.session import Job

    settings = CllmSettings(
        block=arguments.block,
        weight=arguments.weight,
        consistency=arguments.consistency,
        correct=arguments.correct,
        trajectories=arguments.trajectories,
        blocks=arguments.blocks,
    )
    return _run(Job(method="cllm", cllm=settings, **_common(arguments)))


def _source(name: str, here: Path | None) -> str:
    """A source as it was meant where the command was started: what is there comes before the names that we know."""
    path = whole_path(Path(name), here) if here is not None else Path(name)
    return str(path) if path.exists() else name


def _common(arguments: argparse.Namespace) -> dict[str, Any]:
    from fastcoder_lsp.train.options import Asked

    asked = Asked(
        tuning=arguments.tuning,
        steps=arguments.steps,
        length=arguments.length,
        batch=arguments.batch,
        rate=arguments.rate,
        rank=arguments.rank,
        precision=arguments.precision,
        seed=arguments.seed,
        max_minutes=arguments.max_minutes,
    )
    return {
        "model": arguments.model,
        "data": tuple(_source(name, arguments.here) for name in arguments.data),
        "out": arguments.out,
        "asked": asked,
        "device": arguments.device,
        "restart": arguments.restart,
    }


def _export(arguments: argparse.Namespace) -> int:
    from fastcoder_lsp.config import cache_folder
    from fastcoder_lsp.train.session import export_run

    record = export_run(arguments.out, arguments.model, arguments.to, cache_folder())
    place = arguments.to or arguments.out / "model"
    print(f"{place}: {record.method} of {record.base}, {record.figures['steps']:.0f} steps")
    return 0


def _run(job: "Job") -> int:
    from fastcoder_lsp.config import cache_folder
    from fastcoder_lsp.train.session import train

    result, interrupted = _watched(lambda listener, should_stop: train(job, cache_folder(), should_stop, listener))
    return _tell(result, job.model, interrupted=interrupted)


def _watched(work: "Callable[[Listener, Callable[[], bool]], Done]") -> "tuple[Done, bool]":
    """What `work` gives, under the eyes of the user, who may stop it; and whether that happened."""
    from fastcoder_lsp.train.session import Listener

    shown = _Shown()
    with _stop_asked() as should_stop:
        result = work(Listener(shown.note, shown.collected, shown.status), should_stop)
    shown.end()
    return result, should_stop()


def _tell(result: "Result", model: str, *, interrupted: bool) -> int:
    outcome, record = result.outcome, result.record
    if record is None:
        print("Stopped before the first step; the same command goes on.")
        return 130 if interrupted else 0
    done = "done" if outcome.finished else "stopped; the same command goes on"
    print(f"{outcome.step} steps in {outcome.seconds / 60:.1f} minutes, {done}.")
    ends = {name: value for name, value in record.figures.items() if name.startswith("held_out_")}
    for name in sorted({name.rpartition("_")[0] for name in ends}):
        term = name.removeprefix("held_out_")
        print(f"{term} loss on text not trained on: {ends[name + '_first']:.3f} → {ends[name + '_last']:.3f}")
    print(f"Model: {result.folder}  (losses: {result.folder.parent / 'losses.svg'})")
    drafter = "sdsat" if record.method == "sdsat" else "jacobi"
    folder, before = shlex.quote(str(result.folder)), shlex.quote(model)
    print(f"Measure it: fastcoder-lsp bench trained --model {folder} --before {before}")
    print(f"Use it: fastcoder-lsp complete FILE --model {folder} --drafter {drafter}")
    return 130 if interrupted else 0


@contextmanager
def _stop_asked() -> Iterator[Callable[[], bool]]:
    """Whether the user asked to stop (Ctrl-C, or SIGTERM); asked twice, it stops at once."""
    asked: list[int] = []

    def ask(number: int, _frame: object) -> None:
        asked.append(number)
        if len(asked) > 1:
            raise KeyboardInterrupt
        print("\nstopping after this step; again to stop at once", file=sys.stderr)

    kinds = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(kind, ask) for kind in kinds]
    try:
        yield lambda: bool(asked)
    finally:
        for kind, handler in zip(kinds, before, strict=True):
            signal.signal(kind, handler)


class _Shown:
    """Notes and one live line on stderr; where nobody watches, a line every now and then."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._last = 0.0
        self._open = False

    def note(self, text: str) -> None:
        self.end()
        print(text, file=sys.stderr, flush=True)

    def collected(self, done: int, wanted: int) -> None:
        self._line(f"collected {done}/{wanted}", last=done == wanted)

    def status(self, status: "Status") -> None:
        losses = "  ".join(f"{name} {loss:.3f}" for name, loss in status.losses.items())
        left = (status.steps - status.step) * status.step_seconds
        minutes, seconds = divmod(int(left), 60)
        text = f"step {status.step}/{status.steps}  {losses}  rate {status.rate:.1e}  {status.step_seconds:.2f} s/step"
        self._line(f"{text}  {minutes}:{seconds:02} left", last=status.step == status.steps)

    def end(self) -> None:
        """End the live line, so that what is printed next begins on a line of its own."""
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
