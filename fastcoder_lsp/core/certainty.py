"""How sure the model was of its output: probabilities of single bytes, from the likeliest tokens of every row.

Token boundaries fall anywhere in a text, so a question about the next character considers all likely tokens that agree
with the text before it. Probabilities are relative to the `LIKELY` best tokens.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, log

LIKELY = 8  # best tokens of each row that are considered


@dataclass(frozen=True, slots=True)
class Row:
    """A token of the output, as bytes, and the likeliest tokens in its place with their relative probabilities."""

    token: bytes
    likely: tuple[tuple[bytes, float], ...]


@dataclass(frozen=True, slots=True)
class Certainty:
    """How sure the model was of the tokens in `rows`; the first of them spell the bytes `healing` before the text."""

    rows: Sequence[Row]
    healing: bytes

    def at(self, offset: int) -> float | None:
        """The probability of the text's byte at `offset`, given all before it; None if no likely token reaches it."""
        for row, start in self._placed():
            if start <= offset < start + len(row.token):
                length = offset - start
                reached = [one for one in row.likely if len(one[0]) > length and one[0][:length] == row.token[:length]]
                agreed = sum(share for piece, share in reached if piece[length] == row.token[length])
                return agreed / sum(share for _, share in reached) if reached else None
        return None

    def log_probabilities(self) -> tuple[float, ...]:
        """Of each token, given all before it; minus infinity where it was not among the likely ones."""
        shares = (dict(row.likely).get(row.token, 0.0) for row in self.rows)
        return tuple(log(share) if share > 0 else -inf for share in shares)

    def of_first(self, length: int, offset: int = 0) -> float:
        """The probability of the tokens that hold the text's bytes `offset` to `length`; 0 if one was not likely.

        Of the token that holds the byte before `offset`, only the rest counts.
        """
        product = 1.0
        for row, start in self._placed():
            if start < offset < start + len(row.token):
                product *= self.at(offset) or 0.0
            elif start < length and (start >= offset or not offset):
                product *= dict(row.likely).get(row.token, 0.0)
        return product

    def of_longer_word(self, offset: int = 0, begun: int = 0) -> float | None:
        """The probability that the word before byte `offset`, of bytes `begun`, goes on; None if unexpected."""
        left, reached, longer, ended, found = self.healing, 1.0, 0.0, 0.0, not offset
        for number, (row, start) in enumerate(self._placed()):
            if not found and start + len(row.token) <= offset - begun:
                continue
            if not found:  # the token that holds the word's first byte, or a byte before it
                found, left = True, b"".join(one.token for one in self.rows[number : number + begun + 1])
                left = left[: offset - start]
            for piece, share in row.likely:
                if len(piece) > len(left) and piece.startswith(left):
                    longer, ended = _added(longer, ended, reached * share, in_word=wordy(piece[len(left) :]))
                elif left and piece == left and piece != row.token:
                    ended += reached * share
            if not left.startswith(row.token) or not left:
                break
            left, reached = left[len(row.token) :], reached * dict(row.likely).get(row.token, 0.0)
        return longer / (longer + ended) if longer + ended > 0 else None

    def _placed(self) -> Iterator[tuple[Row, int]]:
        start = -len(self.healing)
        for row in self.rows:
            yield row, start
            start += len(row.token)


def _added(longer: float, ended: float, share: float, *, in_word: bool) -> tuple[float, float]:
    return (longer + share, ended) if in_word else (longer, ended + share)


def wordy(piece: bytes) -> bool:
    """Whether a token goes on with a word that ends before it; True for one that begins inside a character."""
    letter = piece.decode(errors="ignore")[:1]
    return letter.isalnum() or letter == "_" or not letter
