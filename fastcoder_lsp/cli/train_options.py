"""The options that trainings share: model, data, folder, and how much is done."""

import argparse
from pathlib import Path

from fastcoder_lsp.cli.numbers import above_zero, at_least


def add_model_and_data(parser: argparse.ArgumentParser, model: str) -> None:
    """Add `--model`, which is `model` in words, `--data` and `--out`."""
    parser.add_argument("--model", default="auto", help=f"{model}: as for `complete`")
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


def add_amounts(parser: argparse.ArgumentParser, *, each: str, text: str) -> None:
    """Add how long and how much: a step takes several of `each`, in words, and a `text` is cut to a length."""
    parser.add_argument(
        "--max-minutes", type=above_zero, metavar="M", help="stop after M minutes; without --steps, plan for that time"
    )
    parser.add_argument(
        "--steps",
        type=at_least(1),
        metavar="N",
        help="training steps; default: as published, or as many as the machine allows",
    )
    parser.add_argument("--batch", type=at_least(1), metavar="N", help=f"{each} in a step")
    parser.add_argument("--length", type=at_least(2), metavar="TOKENS", help=f"{text} length in tokens")
    parser.add_argument("--rate", type=above_zero, metavar="LR", help="highest learning rate")
    parser.add_argument(
        "--precision",
        choices=("fp32", "bf16"),
        help="precision of the computation (bf16: mixed); default: the faster one here",
    )
    parser.add_argument(
        "--seed", type=at_least(0), default=0, metavar="N", help="random seed; the same seed gives the same weights"
    )
    parser.add_argument("--restart", action="store_true", help="discard the run that is in --out, and start again")


def add_samples(parser: argparse.ArgumentParser) -> None:
    """Add how many texts are collected."""
    parser.add_argument(
        "--samples", type=at_least(1), metavar="N", help="texts to learn from; default: as many as the machine allows"
    )


def add_tuning(parser: argparse.ArgumentParser) -> None:
    """Add how a model's own weights are tuned."""
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--lora", dest="tuning", action="store_const", const="lora", help="tune by LoRA (peft)")
    way.add_argument("--full", dest="tuning", action="store_const", const="full", help="tune all weights")
