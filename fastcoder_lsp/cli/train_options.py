"""The options that trainings share: model, data, folder, and how much is done."""

import argparse
from collections.abc import Callable
from pathlib import Path


def at_least(least: int) -> Callable[[str], int]:
    """A kind of argument: a whole number that is not below `least`."""

    def number(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"{value} is less than {least}")
        return value

    number.__name__ = "whole number"  # so that argparse says what else is none
    return number


def add_model_and_data(parser: argparse.ArgumentParser, model: str) -> None:
    """Add `--model`, which is `model` in words, `--data` and `--out`."""
    parser.add_argument("--model", default="auto", help=f"{model}: as for `complete`")
    parser.add_argument(
        "--data",
        nargs="+",
        required=True,
        metavar="SOURCE",
        help="folders, archives, code files, corpus:NAME (see `corpus list`), or stdlib",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="the run's folder; the same goes on")


def add_amounts(parser: argparse.ArgumentParser, *, each: str, text: str) -> None:
    """Add how long and how much: a step takes several of `each`, in words, and a `text` is cut to a length."""
    parser.add_argument("--max-minutes", type=float, metavar="M", help="stop then; without --steps, plan for it")
    parser.add_argument("--steps", type=at_least(1), metavar="N", help="default: published, or what the machine allows")
    parser.add_argument("--batch", type=at_least(1), metavar="N", help=f"{each} a step")
    parser.add_argument("--length", type=at_least(2), metavar="TOKENS", help=f"of a {text}")
    parser.add_argument("--rate", type=float, metavar="LR", help="highest learning rate")
    parser.add_argument("--precision", choices=("fp32", "bf16"), help="bf16: mixed; default: what is faster here")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="the same seed, the same weights")
    parser.add_argument("--restart", action="store_true", help="begin anew where a run is in --out already")


def add_samples(parser: argparse.ArgumentParser) -> None:
    """Add how many texts are collected."""
    parser.add_argument(
        "--samples", type=at_least(1), metavar="N", help="texts that are learnt from; default: by the machine"
    )


def add_tuning(parser: argparse.ArgumentParser) -> None:
    """Add how a model's own weights are tuned."""
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--lora", dest="tuning", action="store_const", const="lora", help="tune by LoRA (peft)")
    way.add_argument("--full", dest="tuning", action="store_const", const="full", help="tune all weights")
