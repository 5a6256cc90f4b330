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

from fastcoder_lsp.cli.numbers import at_least, share, weight
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
        help="tune a model, or train a drafter for it, on your code",
        description="Tune a model on your code with CLLM or SDSAT, which writes an ordinary model's folder for "
        "--model. Or train a drafter and leave the model unchanged. See docs/training.md. LoRA needs an extra: "
        "pip install 'fastcoder-lsp[train]'.",
        epilog="Example: fastcoder-lsp train sdsat --data ~/src/mine --out tuned --max-minutes 60",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    sdsat = actions.add_parser(
        "sdsat",
        help="teach a model adaptive tokens that guess ahead; decode with --drafter sdsat",
        description="SDSAT: training replaces some text by adaptive tokens. Decoding appends these tokens to the text, "
        "and the model's guesses at them are verified in the next pass. To resume an interrupted run, give the same "
        "command again.",
        epilog="Example: fastcoder-lsp train sdsat --data ~/src/mine --out tuned --max-minutes 60",
    )
    _add_common(sdsat)
    sdsat.add_argument(
        "--longest", type=at_least(1), default=5, metavar="L", help="longest run of adaptive tokens; default: 5"
    )
    sdsat.add_argument(
        "--weight", type=weight, default=1.0, metavar="W", help="weight of the masked stream's loss; default: 1"
    )
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
        help="teach a model to guess several tokens at once; decode with --drafter jacobi or lookahead",
        description="CLLM: collect the model's Jacobi trajectories on your code, then teach it to predict the end of a "
        "trajectory from each of its states. To resume an interrupted run, give the same command again.",
        epilog="Example: fastcoder-lsp train cllm --data ~/src/mine --out tuned --max-minutes 60",
    )
    _add_common(cllm)
    cllm.add_argument("--block", type=at_least(2), default=16, metavar="N", help="tokens guessed at once; default: 16")
    cllm.add_argument(
        "--weight", type=weight, default=1.0, metavar="W", help="weight of the autoregressive loss; default: 1"
    )
    cllm.add_argument(
        "--consistency",
        choices=("global", "local"),
        default="global",
        help="the loss: towards the end of a trajectory, or its next state; default: global",
    )
    cllm.add_argument(
        "--trajectories",
        type=at_least(1),
        metavar="N",
        help="trajectories to collect; default: as many as the machine allows",
    )
    cllm.add_argument("--blocks", type=at_least(1), default=6, metavar="N", help="blocks in a trajectory; default: 6")
    cllm.add_argument(
        "--correct", type=share, default=0.2, metavar="SHARE", help="share of wrong tokens to correct; default: 0.2"
    )
    cllm.set_defaults(run=_cllm)
    add_drafter_parsers(actions, _source, _watched)
    add_self_parser(actions, _source)
    export = actions.add_parser(
        "export",
        help="write a run's newest checkpoint as a model's folder",
        description="Merge the newest checkpoint of a run into its base model, and write an ordinary model's folder. "
        "`train` does this at its end. Use `export` while a run continues, or to write to another folder.",
        epilog="Example: fastcoder-lsp train export tuned --to ~/models/mine",
    )
    export.add_argument("out", type=Path, metavar="FOLDER", help="the run's folder, as given to --out")
    export.add_argument("--to", type=Path, metavar="FOLDER", help="where to write; default: FOLDER/model")
    export.add_argument("--model", help="the model that was tuned, if its name no longer finds it")
    export.set_defaults(run=_export)


def _add_common(parser: argparse.ArgumentParser) -> None:
    add_model_and_data(parser, "what to tune")
    add_amounts(parser, each="windows or trajectories", text="window")
    add_tuning(parser)
    parser.add_argument("--rank", type=at_least(1), metavar="R", help="rank of LoRA; default: 16")
    parser.add_argument("--device", default="auto", help="device to train on: cpu, cuda or cuda:N; default: auto")


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
        print("Stopped before the first step. To resume, give the same command again.")
        return 130 if interrupted else 0
    done = "done" if outcome.finished else "stopped; to resume, give the same command again"
    print(f"{outcome.step} steps in {outcome.seconds / 60:.1f} minutes, {done}.")
    ends = {name: value for name, value in record.figures.items() if name.startswith("held_out_")}
    for name in sorted({name.rpartition("_")[0] for name in ends}):
        term = name.removeprefix("held_out_")
        print(f"{term} loss on held-out text: {ends[name + '_first']:.3f} → {ends[name + '_last']:.3f}")
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
        print("\nStopping after this step. Press Ctrl-C again to stop now.", file=sys.stderr)

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
