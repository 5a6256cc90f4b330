"""What a model was tuned for, as far as drafters must know it.

Owns the plain value; the record beside the model's weights (`model.tuned`) is where it comes from.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fastcoder_lsp.model.tuned import read_record


@dataclass(frozen=True, slots=True)
class Trained:
    """What a model was tuned for.

    Attributes:
        adaptive: SDSAT's token ids; none on a model without.
        block: CLLM's n; 0 on a model without.
        digest: the hash of the model's weights; empty where nobody knows.
    """

    adaptive: tuple[int, ...] = ()
    block: int = 0
    digest: str = ""

    def suits(self, method: Literal["", "sdsat"]) -> bool:
        """Whether the model was tuned by `method`, or none is asked for ("")."""
        return not method or bool(self.adaptive)


UNTRAINED = Trained()


def load_trained(folder: Path, digest: str) -> Trained:
    """What the model in `folder`, whose weights have this hash, was tuned for.

    Raises:
        ModelInvalidError: its training record is damaged, or belongs to other weights.
    """
    record = read_record(folder, digest)
    return Trained(digest=digest) if record is None else Trained(record.adaptive, record.block, digest)
