"""Parts of a runtime that know nothing: a token is a byte, and a prompt is what a function makes of the text.

They are subclasses of the real parts, so that a type checker compares what they take and give.
"""

from collections.abc import Callable

from fastcoder_lsp.core import Snapshot
from fastcoder_lsp.prompt import Prompt, PromptBuilder, PromptOptions
from fastcoder_lsp.tokenizer import Tokenizer

END = 0


class Letters(Tokenizer):
    """A token is a byte; 0 ends the text."""

    def __init__(self) -> None:
        self.end_ids = frozenset({END})

    def piece(self, token: int) -> bytes:
        return bytes([token])

    def encode(self, text: str) -> list[int]:
        return list(text.encode("utf-8", "surrogatepass"))


class ToyPrompts(PromptBuilder):
    """`tokens` of the text before the cursor; remembers what else it was asked for."""

    def __init__(self, tokens: Callable[[str], tuple[int, ...]], options: PromptOptions | None = None) -> None:
        self.options = options or PromptOptions()
        self._tokens_of = tokens
        self.calls: list[tuple[str, str]] = []

    def build(self, snapshot: Snapshot, offset: int, *, hurried: bool = False, room: int | None = None) -> Prompt:
        return Prompt(self._tokens_of(snapshot.text[:offset]), healing=b"", typed="", template="toy")

    def settle(self, snapshot: Snapshot, offset: int) -> Prompt:
        self.calls.append(("settle", snapshot.uri))
        return self.build(snapshot, offset)

    def is_short(self, uri: str) -> bool:
        return False

    def context_of(self, uri: str) -> tuple[str, ...]:
        return ()

    def is_interim(self, uri: str) -> bool:
        return False

    def is_partial(self, uri: str) -> bool:
        return False

    def plan(self, snapshot: Snapshot, offset: int) -> None:
        """No code goes along."""

    def planned(self, snapshot: Snapshot, offset: int) -> None:
        """No code goes along."""

    def forget(self, uri: str) -> None:
        self.calls.append(("forget", uri))

    def rename(self, old: str, new: str) -> None:
        self.calls.append(("rename", new))
