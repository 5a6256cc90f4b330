"""`fastcoder-lsp train …`: tune a model, or a drafter for it, on your own code, to say several tokens at once."""

import argparse
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from fastcoder_lsp.cli.options import above_zero, at_least, filled, share, weight
from fastcoder_lsp.cli.start import whole_path
from fastcoder_lsp.config import cache_folder
from fastcoder_lsp.core.controls import counted

if TYPE_CHECKING:
    from fastcoder_lsp.papers.train.session import TrainingSession

Actions: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001 no public name

_RESUME = "To resume an interrupted run, give the same command again."
_TRAIN = "Example: fastcoder-lsp train"


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its actions."""
    parser = commands.add_parser(
        "train",
        help="tune a model, or train a drafter for it, on your code",
        description="Tune a model on your code with CLLM or SDSAT, which writes an ordinary model's folder for "
        "--model. Or train a drafter and leave the model unchanged. Or make an edit model from the model and your "
        "commits. See docs/training.md. LoRA needs an extra: "
        "pip install 'fastcoder-lsp[train]'.",
        epilog=f"{_TRAIN} sdsat --data ~/src/mine --out tuned --max-minutes 60",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    for add in (
        _add_sdsat,
        _add_cllm,
        _add_medusa,
        _add_eagle,
        _add_distill,
        _add_edits,
        _add_import,
        _add_self,
    ):
        add(actions)
    _add_export(actions)


def _add_sdsat(actions: Actions) -> None:
    sdsat = actions.add_parser(
        "sdsat",
        help="teach a model adaptive tokens that guess ahead; decode with --drafter sdsat",
        description="SDSAT: training replaces some text by adaptive tokens. Decoding appends these tokens to the text, "
        f"and the model's guesses at them are verified in the next pass. {_RESUME}",
        epilog=f"{_TRAIN} sdsat --data ~/src/mine --out tuned --max-minutes 60",
    )
    _add_tuned(sdsat)
    _add_count(sdsat, "--longest", "L", "longest run of adaptive tokens", default=5)
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
    sdsat.add_argument(
        "--starts",
        type=share,
        default=0.1,
        metavar="SHARE",
        help="share of positions where a run of adaptive tokens begins; default: 0.1, as published",
    )
    sdsat.add_argument("--distinct", action="store_true", help="SDSAT-D: L different adaptive tokens")
    sdsat.set_defaults(run=_sdsat)


def _sdsat(arguments: argparse.Namespace) -> int:
    from fastcoder_lsp.papers.train.sdsat import SdsatSettings
    from fastcoder_lsp.papers.train.tuning import SdsatSession

    return _run(SdsatSession, arguments, filled(SdsatSettings, arguments))


def _add_cllm(actions: Actions) -> None:
    cllm = actions.add_parser(
        "cllm",
        help="teach a model to guess several tokens at once; decode with --drafter jacobi or lookahead",
        description="CLLM: collect the model's Jacobi trajectories on your code, then teach it to predict the end of a "
        f"trajectory from each of its states. {_RESUME}",
        epilog=f"{_TRAIN} cllm --data ~/src/mine --out tuned --max-minutes 60",
    )
    _add_tuned(cllm)
    _add_count(cllm, "--block", "N", "tokens guessed at once", least=2, default=16)
    cllm.add_argument(
        "--weight",
        type=weight,
        default=10.0,
        metavar="W",
        help="weight of the autoregressive loss; default: 10, as published",
    )
    cllm.add_argument(
        "--consistency",
        choices=("global", "local"),
        default="global",
        help="the loss: towards the end of a trajectory, or its next state; default: global",
    )
    _add_count(cllm, "--trajectories", "N", "trajectories to collect; default: as many as the machine allows")
    _add_count(cllm, "--blocks", "N", "blocks in a trajectory", default=6)
    cllm.add_argument(
        "--correct", type=share, default=0.2, metavar="SHARE", help="share of wrong tokens to correct; default: 0.2"
    )
    cllm.set_defaults(run=_cllm)


def _cllm(arguments: argparse.Namespace) -> int:
    from fastcoder_lsp.papers.train.cllm import CllmSettings
    from fastcoder_lsp.papers.train.tuning import CllmSession

    # --batch counts the trajectories in a step, not those collected at once.
    return _run(CllmSession, arguments, filled(CllmSettings, arguments, but="batch"))


_ONCE = "The int8 engine reads your code once, and {} from the hidden states. " + _RESUME


def _add_medusa(actions: Actions) -> None:
    parser = actions.add_parser(
        "medusa",
        help="train Medusa's heads; decode with --drafter medusa:weights=FOLDER",
        description="Medusa: heads on the model's last hidden state, each of which guesses a token further ahead. "
        + _ONCE.format("the heads learn")
        + " The model stays unchanged. With --lora or --full, the model is tuned together with its heads (Medusa-2): "
        "the result is a new model with other answers.",
        epilog=f"{_TRAIN} medusa --data ~/src/mine --out heads --max-minutes 60",
    )
    _add_drafter(parser)
    _add_count(parser, "--heads", "K", "number of heads", default=4)
    _add_count(parser, "--blocks", "N", "residual blocks in a head", default=1)
    parser.add_argument(
        "--own-heads",
        dest="own",
        action="store_true",
        help="give each head a vocabulary projection of its own, as published, instead of the model's",
    )
    _add_tuning(parser)
    parser.set_defaults(run=_medusa)


def _medusa(arguments: argparse.Namespace) -> int:
    from fastcoder_lsp.errors import UsageError
    from fastcoder_lsp.papers.train.drafters import JointSession, MedusaSession
    from fastcoder_lsp.papers.train.medusa import MedusaSettings

    jointly = arguments.tuning is not None
    if jointly and (arguments.own or arguments.samples is not None or arguments.said):
        raise UsageError(
            "--own-heads, --samples and --said cannot be combined with --lora or --full, which tune the model",
            "Leave out one or the other.",
        )
    return _run(JointSession if jointly else MedusaSession, arguments, filled(MedusaSettings, arguments))


def _add_eagle(actions: Actions) -> None:
    parser = actions.add_parser(
        "eagle",
        help="train EAGLE's layer; decode with --drafter eagle:weights=FOLDER",
        description="EAGLE: one layer that predicts the model's next features. --version 3 reads the features of three "
        "layers; --version 1 reads the last layer's and starts from their best linear fit. "
        + _ONCE.format("the layer learns"),
        epilog=f"{_TRAIN} eagle --data ~/src/mine --out layer --max-minutes 60",
    )
    _add_drafter(parser)
    parser.add_argument(
        "--version", type=int, choices=(1, 3), default=3, help="1: EAGLE and EAGLE-2; 3: EAGLE-3; default: 3"
    )
    _add_count(parser, "--test-steps", "N", "steps of training-time test (published: 7; EAGLE: 1)", default=4)
    _add_count(parser, "--inner", "N", "width of the inner layer; default: the model's")
    parser.set_defaults(run=_eagle)


def _eagle(arguments: argparse.Namespace) -> int:
    from fastcoder_lsp.papers.train.drafters import EagleSession
    from fastcoder_lsp.papers.train.eagle import EagleSettings

    own = EagleSettings(arguments.test_steps, arguments.version, arguments.inner or 0)
    return _run(EagleSession, arguments, own)


def _add_distill(actions: Actions) -> None:
    parser = actions.add_parser(
        "distill",
        help="tune a smaller model on the model's answers; for --drafter draft-distilled --draft-model FOLDER",
        description="DistillSpec: the int8 engine continues your code with the model, and a smaller model with the "
        f"same tokenizer learns to continue it alike. {_RESUME}",
        epilog=f"{_TRAIN} distill --student ~/small --data ~/src/mine --out student --steps 200",
    )
    _add_common(parser, "the model to draft for", each="texts", text="text")
    _add_samples(parser)
    parser.add_argument(
        "--boost",
        action="extend",
        nargs="+",
        default=[],
        metavar="MODEL",
        help="students tuned earlier: learn only the tokens that all of them miss (SpecInfer's boost-tuning)",
    )
    parser.add_argument("--student", required=True, help="the smaller model: as for `complete --model`")
    _add_count(
        parser, "--said", "TOKENS", "tokens that the model adds to the first half of each text", least=0, default=64
    )
    _add_tuning(parser)
    parser.set_defaults(run=_distill)


def _distill(arguments: argparse.Namespace) -> int:
    from fastcoder_lsp.papers.train.distill import DistillSettings
    from fastcoder_lsp.papers.train.tuning import DistillSession

    own = DistillSettings(arguments.student, arguments.said, tuple(arguments.boost))
    return _run(DistillSession, arguments, own)


def _add_edits(actions: Actions) -> None:
    parser = actions.add_parser(
        "edits",
        help="make a model that suggests next edits, from a repository's commits; for the setting edits.model",
        description="The model learns from the commits of repositories what changes next. The latest commits are held "
        "out. Files that are ignored or look secret today are left out, and lines that look like secrets too. "
        f"{_RESUME}",
        epilog=f"{_TRAIN} edits --repo ~/src/mine --out edits --max-minutes 60",
    )
    parser.add_argument(
        "--repo",
        dest="data",
        action="append",
        required=True,
        metavar="DIR",
        help="the top folder of a git repository; may be given again",
    )
    _add_count(parser, "--commits", "N", "newest commits to read of each", default=2000)
    parser.add_argument("--commit", metavar="ID", help="the newest commit to read; default: HEAD")
    _add_tuned(parser, data=False)
    parser.set_defaults(run=_edits)


def _edits(arguments: argparse.Namespace) -> int:
    from fastcoder_lsp.papers.train.edits import EditsSession, EditsSettings

    before = os.umask(0o077)  # the weights know the repository's text
    try:
        return _run(EditsSession, arguments, filled(EditsSettings, arguments))
    finally:
        os.umask(before)


def _add_import(actions: Actions) -> None:
    parser = actions.add_parser(
        "import",
        help="convert a published checkpoint of EAGLE, EAGLE-3 or Medusa to a drafter",
        description="Convert a published drafter (config.json and weights in one folder) to this program's format, and "
        "check it against the model that it drafts for.",
        epilog=f"{_TRAIN} import ~/EAGLE3-Model --model ~/Model --to ~/eagle3",
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="the checkpoint's folder")
    parser.add_argument("--model", default="auto", help="the model that it drafts for: as for `complete`")
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER", help="where to write")
    parser.set_defaults(run=_import)


def _import(arguments: argparse.Namespace) -> int:
    from fastcoder_lsp.papers.train.published import bring_in

    record = bring_in(arguments.folder, arguments.model, arguments.to, cache_folder())
    print(f"{arguments.to}: {record.method} for {record.target_name}")
    print(f"Use it: --drafter {record.method}:weights={shlex.quote(str(arguments.to))}")
    return 0


def _add_self(actions: Actions) -> None:
    parser = actions.add_parser(
        "self",
        help="choose the layers that the model skips when it drafts for itself; decode with --drafter self",
        description="Draft & Verify: the model drafts for itself, without some of its attention and inner layers. "
        "This command searches for the best ones to skip on your code, and stores them for the model. It trains "
        "nothing, and takes minutes.",
        epilog=f"{_TRAIN} self --data ~/src/mine",
    )
    parser.add_argument("--model", default="auto", help="as for `complete`")
    parser.add_argument(
        "--data",
        nargs="+",
        required=True,
        metavar="SOURCE",
        help="folders, archives, code files, corpus:NAME (see `corpus list`), or stdlib",
    )
    _add_count(parser, "--places", "N", "places in the code to measure at", default=24)
    _add_count(parser, "--rounds", "N", "sets of layers to try", default=100)
    _add_count(parser, "--seed", "N", "random seed; the same seed gives the same set", least=0, default=0)
    parser.set_defaults(run=_self)


def _self(arguments: argparse.Namespace) -> int:
    from fastcoder_lsp.papers.train.skipped import search_skipped

    def progress(tried: int, speed: float) -> None:
        if tried % 10 == 0:
            print(f"{tried} sets tried, the best is {speed:.2f} times as fast", file=sys.stderr)

    found, path = search_skipped(
        arguments.model,
        _sources(arguments),
        cache_folder(),
        places=arguments.places,
        rounds=arguments.rounds,
        seed=arguments.seed,
        progress=progress,
    )
    attention = sorted(part // 2 for part in found.skipped if part % 2 == 0)
    inner = sorted(part // 2 for part in found.skipped if part % 2)
    print(f"Skipped: attention of layers {attention}, inner layers {inner}.")
    print(f"Estimated on this code: {found.speed:.2f} times as fast as plain decoding. Stored in {path}.")
    return 0


def _add_export(actions: Actions) -> None:
    export = actions.add_parser(
        "export",
        help="write a run's newest checkpoint as a model's folder",
        description="Merge the newest checkpoint of a run into its base model, and write an ordinary model's folder. "
        "`train` does this at its end. Use `export` while a run continues, or to write to another folder.",
        epilog=f"{_TRAIN} export tuned --to ~/models/mine",
    )
    export.add_argument("out", type=Path, metavar="FOLDER", help="the run's folder, as given to --out")
    export.add_argument("--to", type=Path, metavar="FOLDER", help="where to write; default: FOLDER/model")
    export.add_argument("--model", help="the model that was tuned, if its name no longer finds it")
    export.set_defaults(run=_export)


def _export(arguments: argparse.Namespace) -> int:
    from fastcoder_lsp.papers.train.tuning import export_run

    record = export_run(arguments.out, arguments.model, arguments.to, cache_folder())
    place = arguments.to or arguments.out / "model"
    print(f"{place}: {record.method} of {record.base}, {counted(int(record.figures['steps']), 'step')}")
    return 0


def _add_common(parser: argparse.ArgumentParser, model: str, *, each: str, text: str, data: bool = True) -> None:
    parser.add_argument("--model", default="auto", help=f"{model}: as for `complete`")
    if data:
        parser.add_argument(
            "--data",
            nargs="+",
            required=True,
            metavar="SOURCE",
            help="code to learn from: folders, archives, code files, corpus:NAME (see `corpus list`), or stdlib",
        )
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="the folder of the run; naming it again resumes the run",
    )
    parser.add_argument(
        "--max-minutes", type=above_zero, metavar="M", help="stop after M minutes; without --steps, plan for that time"
    )
    _add_count(parser, "--steps", "N", "training steps; default: as published, or as many as the machine allows")
    _add_count(parser, "--batch", "N", f"{each} in a step")
    _add_count(parser, "--length", "TOKENS", f"{text} length in tokens", least=2)
    parser.add_argument("--rate", type=above_zero, metavar="LR", help="highest learning rate")
    parser.add_argument(
        "--precision",
        choices=("fp32", "bf16"),
        help="precision of the computation (bf16: mixed); default: the faster one here",
    )
    _add_count(parser, "--seed", "N", "random seed; the same seed gives the same weights", least=0, default=0)
    parser.add_argument("--restart", action="store_true", help="discard the run that is in --out, and start again")


def _add_tuned(parser: argparse.ArgumentParser, *, data: bool = True) -> None:
    each, text = ("windows or trajectories", "window") if data else ("examples", "longest example's")
    _add_common(parser, "what to tune", each=each, text=text, data=data)
    _add_tuning(parser)
    _add_count(parser, "--rank", "R", "rank of LoRA; default: 16")
    parser.add_argument("--device", default="auto", help="device to train on: cpu, cuda or cuda:N; default: auto")


def _add_drafter(parser: argparse.ArgumentParser) -> None:
    _add_common(parser, "the model to draft for", each="texts", text="text")
    _add_samples(parser)
    _add_count(
        parser,
        "--said",
        "TOKENS",
        "let the model continue the first half of each text by this many tokens, and learn from that; default: 0, "
        "learn from the text itself",
        least=0,
        default=0,
    )
    _add_count(parser, "--vocabulary", "N", "number of different tokens that the drafter can guess", default=16_384)


def _add_samples(parser: argparse.ArgumentParser) -> None:
    _add_count(parser, "--samples", "N", "texts to learn from; default: as many as the machine allows")


def _add_tuning(parser: argparse.ArgumentParser) -> None:
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--lora", dest="tuning", action="store_const", const="lora", help="tune by LoRA (peft)")
    way.add_argument("--full", dest="tuning", action="store_const", const="full", help="tune all weights")


def _add_count(
    parser: argparse.ArgumentParser, flag: str, metavar: str, text: str, *, least: int = 1, default: int | None = None
) -> None:
    help_text = f"{text}; default: {default}" if default else text
    parser.add_argument(flag, type=at_least(least), default=default, metavar=metavar, help=help_text)


def _sources(arguments: argparse.Namespace) -> tuple[str, ...]:
    """The sources, resolved where the command was started; a path comes before a known name."""
    places = [
        Path(name) if arguments.here is None else whole_path(Path(name), arguments.here) for name in arguments.data
    ]
    return tuple(str(place) if place.exists() else name for name, place in zip(arguments.data, places, strict=True))


def _run(session: "type[TrainingSession]", arguments: argparse.Namespace, own: Any) -> int:
    from fastcoder_lsp.cli.train_progress import tell, watched
    from fastcoder_lsp.papers.train.options import RequestedOptions, SampleOptions
    from fastcoder_lsp.papers.train.session import TrainingJob

    job = TrainingJob(
        model=arguments.model,
        data=_sources(arguments),
        out=arguments.out,
        asked=filled(RequestedOptions, arguments),
        own=own,
        collected=filled(SampleOptions, arguments),
        device=getattr(arguments, "device", "cpu"),
        restart=arguments.restart,
    )
    result, interrupted = watched(lambda listener, stop: session(job, cache_folder(), stop, listener).run())
    tell(result)
    return 130 if interrupted else 0
