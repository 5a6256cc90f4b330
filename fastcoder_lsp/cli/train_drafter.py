"""`fastcoder-lsp train medusa`: weights of a drafter's own, for a model that stays as it is."""

import argparse
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastcoder_lsp.cli.numbers import at_least
from fastcoder_lsp.cli.train_options import add_amounts, add_model_and_data, add_samples, add_tuning

if TYPE_CHECKING:
    from fastcoder_lsp.train.drafter_session import DrafterJob, DrafterResult
    from fastcoder_lsp.train.medusa import MedusaSettings
    from fastcoder_lsp.train.options import Asked
    from fastcoder_lsp.train.session import Listener

Run = Callable[[Callable[["Listener", Callable[[], bool]], Any]], tuple[Any, bool]]
"""Runs a training under the eyes of the user: its outcome, and whether it was interrupted."""


Source = Callable[[str, Path | None], str]
"""A source of data as it was meant where the command was started."""
_ONCE = (
    "The int8 engine reads your code once, and {} from the hidden states. To resume an interrupted run, give the same "
    "command again."
)
_TARGET = "the model to draft for"


def add_drafter_parsers(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]", source: Source, run: Run
) -> None:
    """Add an action for each drafter that has weights."""
    _add_medusa(actions).set_defaults(run=lambda arguments: _medusa(arguments, source, run))
    _add_eagle(actions).set_defaults(run=lambda arguments: _eagle(arguments, source, run))
    _add_dflash(actions).set_defaults(run=lambda arguments: _dflash(arguments, source, run))
    _add_distill(actions).set_defaults(run=lambda arguments: _distill(arguments, source, run))
    _add_import(actions).set_defaults(run=_import)


def _add_medusa(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    parser = actions.add_parser(
        "medusa",
        help="train Medusa's heads; decode with --drafter medusa:weights=FOLDER",
        description="Medusa: heads on the model's last hidden state, each of which guesses a token further ahead. "
        + _ONCE.format("the heads learn")
        + " The model stays unchanged. With --lora or --full, the model is tuned together with its heads (Medusa-2): "
        "the result is a new model with other answers.",
        epilog="Example: fastcoder-lsp train medusa --data ~/src/mine --out heads --max-minutes 60",
    )
    _add_common(parser)
    parser.add_argument("--heads", type=at_least(1), default=4, metavar="K", help="number of heads; default: 4")
    parser.add_argument(
        "--blocks", type=at_least(1), default=1, metavar="N", help="residual blocks in a head; default: 1"
    )
    parser.add_argument(
        "--own-heads",
        action="store_true",
        help="give each head a vocabulary projection of its own, as published, instead of the model's",
    )
    add_tuning(parser)
    return parser


def _add_eagle(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    parser = actions.add_parser(
        "eagle",
        help="train EAGLE's layer; decode with --drafter eagle:weights=FOLDER",
        description="EAGLE: one layer that predicts the model's next features. --version 3 reads the features of three "
        "layers; --version 1 reads the last layer's and starts from their best linear fit. "
        + _ONCE.format("the layer learns"),
        epilog="Example: fastcoder-lsp train eagle --data ~/src/mine --out layer --max-minutes 60",
    )
    _add_common(parser)
    parser.add_argument(
        "--version", type=int, choices=(1, 3), default=3, help="1: EAGLE and EAGLE-2; 3: EAGLE-3; default: 3"
    )
    parser.add_argument(
        "--test-steps",
        type=at_least(1),
        default=4,
        metavar="N",
        help="steps of training-time test (published: 7; EAGLE: 1); default: 4",
    )
    parser.add_argument("--inner", type=at_least(1), metavar="N", help="width of the inner layer; default: the model's")
    return parser


def _add_dflash(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    parser = actions.add_parser(
        "dflash",
        help="train DFlash's small model; decode with --drafter dflash:weights=FOLDER",
        description="DFlash: a small model that guesses a block at once from features of several layers of the model. "
        + _ONCE.format("the small model learns"),
        epilog="Example: fastcoder-lsp train dflash --data ~/src/mine --out block --max-minutes 60",
    )
    _add_common(parser)
    parser.add_argument("--layers", type=at_least(1), default=2, metavar="N", help="layers (published: 5); default: 2")
    parser.add_argument(
        "--block", type=at_least(2), default=8, metavar="N", help="tokens in a block (published: 16); default: 8"
    )
    parser.add_argument(
        "--anchors", type=at_least(1), default=12, metavar="N", help="anchors of a text in one step; default: 12"
    )
    return parser


def _add_distill(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    parser = actions.add_parser(
        "distill",
        help="tune a smaller model on the model's answers; for --drafter draft-distilled --draft-model FOLDER",
        description="DistillSpec: the int8 engine continues your code with the model, and a smaller model with the "
        "same tokenizer learns to continue it alike. To resume an interrupted run, give the same command again.",
        epilog="Example: fastcoder-lsp train distill --student ~/small --data ~/src/mine --out student --steps 200",
    )
    add_model_and_data(parser, _TARGET)
    add_amounts(parser, each="texts", text="text")
    add_samples(parser)
    parser.add_argument(
        "--boost",
        action="extend",
        nargs="+",
        default=[],
        metavar="MODEL",
        help="students tuned earlier: learn only the tokens that all of them miss (SpecInfer's boost-tuning)",
    )
    parser.add_argument("--student", required=True, help="the smaller model: as for `complete --model`")
    parser.add_argument(
        "--said",
        type=at_least(0),
        default=64,
        metavar="TOKENS",
        help="tokens that the model adds to the first half of each text; default: 64",
    )
    add_tuning(parser)
    return parser


def _add_import(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    parser = actions.add_parser(
        "import",
        help="convert a published checkpoint of EAGLE, EAGLE-3, Medusa or DFlash to a drafter",
        description="Convert a published drafter (config.json and weights in one folder) to this program's format, and "
        "check it against the model that it drafts for.",
        epilog="Example: fastcoder-lsp train import ~/EAGLE3-Model --model ~/Model --to ~/eagle3",
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="the checkpoint's folder")
    parser.add_argument("--model", default="auto", help="the model that it drafts for: as for `complete`")
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER", help="where to write")
    return parser


def _add_common(parser: argparse.ArgumentParser) -> None:
    add_model_and_data(parser, _TARGET)
    add_amounts(parser, each="texts", text="text")
    add_samples(parser)
    parser.add_argument(
        "--said",
        type=at_least(0),
        default=0,
        metavar="TOKENS",
        help="let the model continue the first half of each text by this many tokens, and learn from that; default: 0, "
        "learn from the text itself",
    )
    parser.add_argument(
        "--vocabulary",
        type=at_least(1),
        default=16_384,
        metavar="N",
        help="number of different tokens that the drafter can guess; default: 16384",
    )


def _medusa(arguments: argparse.Namespace, source: Source, run: Run) -> int:
    from fastcoder_lsp.train.medusa import MedusaSettings

    settings = MedusaSettings(arguments.heads, arguments.blocks, own=arguments.own_heads)
    if arguments.tuning is not None:
        return _medusa_joint(arguments, source, run, settings)
    return _train(_job("medusa", arguments, source, settings), run)


def _medusa_joint(arguments: argparse.Namespace, source: Source, run: Run, heads: "MedusaSettings") -> int:
    from fastcoder_lsp.config import cache_folder
    from fastcoder_lsp.errors import UsageError
    from fastcoder_lsp.train.medusa_session import JointJob, train_joint

    if arguments.own_heads or arguments.samples is not None or arguments.said:
        raise UsageError(
            "--own-heads, --samples and --said cannot be combined with --lora or --full, which tune the model",
            "Leave out one or the other.",
        )
    job = JointJob(
        model=arguments.model,
        data=tuple(source(name, arguments.here) for name in arguments.data),
        out=arguments.out,
        asked=_asked(arguments),
        heads=heads,
        vocabulary=arguments.vocabulary,
        restart=arguments.restart,
    )
    result, interrupted = run(lambda listener, should_stop: train_joint(job, cache_folder(), should_stop, listener))
    return _told(result, "medusa", str(result.folder.parent / "model"), interrupted=interrupted)


def _eagle(arguments: argparse.Namespace, source: Source, run: Run) -> int:
    from fastcoder_lsp.train.eagle import EagleSettings

    settings = EagleSettings(arguments.test_steps, arguments.version, arguments.inner or 0)
    return _train(_job("eagle", arguments, source, settings), run)


def _dflash(arguments: argparse.Namespace, source: Source, run: Run) -> int:
    from fastcoder_lsp.train.dflash import DflashSettings

    settings = DflashSettings(arguments.layers, arguments.block, arguments.anchors)
    return _train(_job("dflash", arguments, source, settings), run)


def _distill(arguments: argparse.Namespace, source: Source, run: Run) -> int:
    from fastcoder_lsp.config import cache_folder
    from fastcoder_lsp.train.distill import DistillSettings
    from fastcoder_lsp.train.distill_session import DistillJob, distil

    job = DistillJob(
        model=arguments.model,
        data=tuple(source(name, arguments.here) for name in arguments.data),
        out=arguments.out,
        asked=_asked(arguments),
        distill=DistillSettings(arguments.student, arguments.said, tuple(arguments.boost)),
        samples=arguments.samples,
        restart=arguments.restart,
    )
    result, interrupted = run(lambda listener, should_stop: distil(job, cache_folder(), should_stop, listener))
    record = result.record
    if record is None:
        print("Stopped before the first step. To resume, give the same command again.")
        return 130 if interrupted else 0
    print(f"{result.outcome.step} steps in {result.outcome.seconds / 60:.1f} minutes.")
    _tell_losses(record.figures)
    place = shlex.quote(str(result.folder))
    print(f"Use it: --model {shlex.quote(job.model)} --draft-model {place} --drafter draft-distilled")
    return 130 if interrupted else 0


def _import(arguments: argparse.Namespace) -> int:
    from fastcoder_lsp.config import cache_folder
    from fastcoder_lsp.train.published import bring_in

    record = bring_in(arguments.folder, arguments.model, arguments.to, cache_folder())
    print(f"{arguments.to}: {record.method} for {record.target_name}")
    print(f"Use it: --drafter {record.method}:weights={shlex.quote(str(arguments.to))}")
    return 0


def _job(method: Any, arguments: argparse.Namespace, source: Source, own: object) -> "DrafterJob":
    from fastcoder_lsp.train.drafter_session import DrafterJob
    from fastcoder_lsp.train.drafter_settings import Collected

    return DrafterJob(
        method=method,
        model=arguments.model,
        data=tuple(source(name, arguments.here) for name in arguments.data),
        out=arguments.out,
        asked=_asked(arguments),
        own=own,
        collected=Collected(arguments.samples, arguments.said, arguments.vocabulary),
        restart=arguments.restart,
    )


def _asked(arguments: argparse.Namespace) -> "Asked":
    from fastcoder_lsp.train.options import Asked

    return Asked(
        tuning=getattr(arguments, "tuning", None),
        steps=arguments.steps,
        length=arguments.length,
        batch=arguments.batch,
        rate=arguments.rate,
        precision=arguments.precision,
        seed=arguments.seed,
        max_minutes=arguments.max_minutes,
    )


def _train(job: "DrafterJob", run: Run) -> int:
    from fastcoder_lsp.config import cache_folder
    from fastcoder_lsp.train.drafter_session import train_drafter

    result: DrafterResult
    result, interrupted = run(lambda listener, should_stop: train_drafter(job, cache_folder(), should_stop, listener))
    return _told(result, job.method, job.model, interrupted=interrupted)


def _told(result: "DrafterResult", method: str, model: str, *, interrupted: bool) -> int:
    """Say what came out, and how to use it."""
    record = result.record
    if record is None:
        print("Stopped before the first step. To resume, give the same command again.")
        return 130 if interrupted else 0
    done = "done" if result.outcome.finished else "stopped; to resume, give the same command again"
    print(f"{result.outcome.step} steps in {result.outcome.seconds / 60:.1f} minutes, {done}.")
    figures = record.figures
    _tell_losses(figures)
    if "tokens_a_pass" in figures:
        print(f"tokens per pass on held-out text, 16 rows: {figures['tokens_a_pass']:.2f}")
    place = shlex.quote(str(result.folder))
    print(f"Drafter: {place}  (losses: {shlex.quote(str(result.folder.parent / 'losses.svg'))})")
    print(f"Use it: fastcoder-lsp complete FILE --model {shlex.quote(model)} --drafter {method}:weights={place}")
    return 130 if interrupted else 0


def _tell_losses(figures: Mapping[str, float]) -> None:
    for name in sorted(name for name in figures if name.startswith("held_out_") and name.endswith("_last")):
        term = name.removeprefix("held_out_").removesuffix("_last")
        print(f"{term} loss on held-out text: {figures[f'held_out_{term}_first']:.3f} → {figures[name]:.3f}")
