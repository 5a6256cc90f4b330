"""When suggestions that nobody asked for by key stay away: the settings `quiet.*` and `where.*`, and snoozing.

Rules about one question, without state. `SuggestionCache` applies them.
"""

from dataclasses import dataclass, fields
from typing import Any, Literal

from fastcoder_lsp.config import Settings
from fastcoder_lsp.core.bounds import Natural
from fastcoder_lsp.syntax import Region

Where = Literal["always", "invoked", "never"]

_RESTING_MS = 700
"""The shortest rest of the mode `resting`: longer than between two keys of a word, and than a glance at the screen."""


@dataclass(frozen=True, slots=True)
class Quiet:
    """The rules for a question; by default there are none.

    Attributes:
        delay_ms: how long to rest after a key.
        invoked: whether only requests by key are answered.
        snoozed: the same, for as long as the user said.
        lines: the most lines; 0: no limit.
        min_characters: the fewest characters, without blanks.
        deletions: whether nothing comes after a deletion.
        comments, strings, prose: whether to suggest there.
        also_by_key: whether all of this holds for a key as well, because the client does not tell it from typing.
    """

    delay_ms: Natural = 0
    invoked: bool = False
    snoozed: bool = False
    lines: Natural = 0
    min_characters: Natural = 0
    deletions: bool = False
    comments: Where = "always"
    strings: Where = "always"
    prose: Where = "always"
    also_by_key: bool = False

    @property
    def silent(self) -> bool:
        """Whether nothing appears by itself at all."""
        return self.invoked or self.snoozed

    @property
    def by_region(self) -> bool:
        """Whether the kind of text around the cursor matters."""
        return {self.comments, self.strings, self.prose} != {"always"}

    def for_key(self) -> "Quiet":
        """What is left of the rules for a request by key: the places where nothing is ever suggested."""
        if self.also_by_key:
            return self
        never: dict[str, Any] = {one.name: "never" for one in fields(self) if getattr(self, one.name) == "never"}
        return Quiet(**never)

    def forbids(self, region: Region) -> bool:
        """Whether nothing is suggested in such text."""
        return {"comment": self.comments, "string": self.strings, "prose": self.prose}.get(region, "always") != "always"

    def is_short(self, text: str) -> bool:
        """Whether a text is too short to be worth showing."""
        return len("".join(text.split())) < self.min_characters


def quiet_of(settings: Settings, *, snoozed: bool = False) -> Quiet:
    """The rules that settings ask for."""
    resting = _RESTING_MS if settings.quiet_mode == "resting" else 0
    where: dict[str, Any] = {name: getattr(settings, f"where_{name}") for name in ("comments", "strings", "prose")}
    return Quiet(
        delay_ms=max(settings.quiet_delay_ms, resting),
        invoked=settings.quiet_mode == "invoked",
        snoozed=snoozed,
        lines=settings.quiet_lines,
        min_characters=settings.quiet_min_characters,
        deletions=settings.quiet_deletions,
        **where,
    )
