"""Drafters as the command line of a benchmark names them, and what tables call them.

The one door to the drafters' registry. Owns the groups: names that stand for several drafters.
"""

from collections.abc import Mapping

from fastcoder_lsp.draft.base import Trained
from fastcoder_lsp.draft.registry import SPECIFICATIONS, DrafterParts, make, require_smaller, require_tuned, warm_up

__all__ = ["DrafterParts", "make", "require_smaller", "require_tuned", "warm_up"]

ABLATION: Mapping[str, str] = {
    "fastcoder-paper:repository=false,skip=false,missing=false,cache=false": "REST with D_c",
    "fastcoder-paper:skip=false,missing=false,cache=false": "+ D_r",
    "fastcoder-paper:cache=false": "+ skip token, missing table",
    "fastcoder-paper": "fastcoder-paper (+ CACHE)",
}
"""The steps of the FastCoder paper's ablation, and what it calls them; the last one is the whole method."""
GROUPS: Mapping[str, tuple[str, ...]] = {
    "ablation": tuple(ABLATION),
    "sweep-fastcoder": (
        "fastcoder-paper",
        *(f"fastcoder-paper:cache_minimum={l}" for l in (1, 10, 25, 100, 200)),
        *(f"fastcoder-paper:skip_probability={p}" for p in (0.0, 0.25, 0.75, 1.0)),
        *(f"fastcoder-paper:repository_weight={weight}" for weight in (0.25, 4.0, 16.0)),
        *(f"fastcoder-paper:n_max={n}" for n in (2, 4, 8, 32)),
        *(f"fastcoder-paper:max_hits={hits}" for hits in (16, 256)),
        "fastcoder-paper:skip_reading=next",
    ),
    "sweep-cacheback": (
        "cacheback",
        *(f"cacheback:leader_length={length}" for length in (2, 3)),
        *(f"cacheback:follower_length={length}" for length in (1, 2, 4, 6)),
        *(f"cacheback:follower_capacity={capacity}" for capacity in (8, 32, 512)),
        *(f"cacheback:continuation_reserve={reserve}" for reserve in (0, 32, 64)),
        "cacheback-dynamic",
        "cacheback-frozen",
    ),
}
"""Names that stand for several drafters: the paper's ablation, and parameters swept one at a time."""


def drafter_names(text: str) -> list[str]:
    """Drafters by `,`; a part that holds no name but `key=value` belongs to the drafter before it.

    A name of `GROUPS` stands for the drafters in it.
    """
    names: list[str] = []
    for part in text.split(","):
        if part in GROUPS:
            names += GROUPS[part]
        elif names and "=" in part and ":" not in part:
            names[-1] += f",{part}"
        else:
            names.append(part)
    return names


def all_names(trained: Trained, smaller: int = 0) -> list[str]:
    """Every drafter that can draft on a model tuned for `trained`, with so many smaller ones."""
    able = {
        name: known
        for name, known in SPECIFICATIONS.items()
        if (smaller or not known.smaller) and not known.own_weights  # their folders have to be named
    }
    return [name for name, known in able.items() if trained.suits(known.tuned_by)]


def label(name: str) -> str:
    return ABLATION.get(name, name)
