"""The ways of computing what stands between the products, by name: torch's kernels, ours, ours launched early.

Owns the names and what they mean; launches nothing. Any of our kernels can be left to torch: "fused without attend".
"""

from dataclasses import dataclass

TORCH, FUSED, OVERLAPPED = "torch", "fused", "overlapped"
OPERATIONS = ("norm", "attend", "activate", "best", "follow")
"""What can be left to torch by itself: norms, attention with rotation and storing, activations, best ids, and following
what the rows say with moving what is accepted, which torch leaves to the host."""
_WITHOUT = " without "


@dataclass(frozen=True, slots=True)
class Way:
    """`fused`: by our kernels; `overlapped`: by programmatic dependent launch; `without`: operations left to torch."""

    fused: bool
    overlapped: bool = False
    without: frozenset[str] = frozenset()


def way(name: str) -> Way:
    """What a name means; raises ValueError where it means nothing."""
    base, separator, rest = name.partition(_WITHOUT)
    left_out = frozenset(part.strip() for part in rest.split(",")) if separator else frozenset()
    if base not in (TORCH, FUSED, OVERLAPPED) or not left_out <= set(OPERATIONS) or (base == TORCH and separator):
        raise ValueError(
            f"{name!r} is none of {TORCH}, {FUSED}, {OVERLAPPED}, or without some of {', '.join(OPERATIONS)}"
        )
    return Way(base != TORCH, base == OVERLAPPED, left_out)


def without(name: str, *operations: str) -> str:
    """The name of the same way with some operations left to torch."""
    return f"{name}{_WITHOUT}{', '.join(operations)}" if operations else name
