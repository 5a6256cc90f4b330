"""Numbers in messages."""


def counted(number: int, noun: str, plural: str = "") -> str:
    """`number` with its noun, as in "1 step" and "1,200 steps"; `plural` where it is not the noun and an "s"."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
