"""From a snapshot and a cursor to the tokens of a prompt, so that consecutive prompts share all they can.

Owns one anchor per document, and which code of other files is to go along next. The only stateful part of this package;
used by one thread.
"""

from dataclasses import dataclass, replace
from itertools import groupby

from fastcoder_lsp.core import Snapshot
from fastcoder_lsp.documents import LatestDocuments
from fastcoder_lsp.engine.prefix import common_prefix
from fastcoder_lsp.prompt import anchor as anchors
from fastcoder_lsp.prompt.account import Shown
from fastcoder_lsp.prompt.anchor import UNTOLD, Anchor, Told, prefix_start, suffix_end
from fastcoder_lsp.prompt.context import NO_CONTEXT, Context, told
from fastcoder_lsp.prompt.healing import heal_start
from fastcoder_lsp.prompt.templates import Template, template_of
from fastcoder_lsp.tokenizer import Tokenizer, printable

_BLOCK = 16
"""Lines whose anchors share the start of a window."""
_MARKS = 4
"""Tokens of a prompt that are no text."""


@dataclass(frozen=True, slots=True)
class PromptOptions:
    """Budgets in tokens, all inside `limit`; what they leave is for the typed part and the control tokens.

    Attributes:
        limit: the longest prompt, context included.
        prefix_share: share of what the context leaves for the text before the anchor.
        refill_share: share of the prefix budget that a new window fills, so that it can grow before it must move.
        suffix_share: the same for the text after the cursor.
        context_tokens: budget for snippets of other files.
        context_later: whether a document's first prompt for who types on goes without them.
        lines_above: lines above the cursor's that a new anchor leaves after the middle mark.
        typed_lines, typed_tokens: the anchor moves once more than this stands after the middle mark.
        anchored: False for the plain order, the whole text before the cursor in the prefix part.
        documents: for how many documents an anchor is remembered.
    """

    limit: int = 1400
    prefix_share: float = 0.56
    refill_share: float = 0.75
    suffix_share: float = 0.20
    context_tokens: int = 0
    context_later: bool = False
    lines_above: int = 8
    typed_lines: int = 24
    typed_tokens: int = 320
    anchored: bool = True
    documents: int = 32

    @property
    def prefix_tokens(self) -> int:
        """The budget of the text before the anchor."""
        return max(1, int((self.limit - self.context_tokens) * self.prefix_share))

    @property
    def suffix_tokens(self) -> int:
        """The budget of the text after the cursor."""
        return max(0, int((self.limit - self.context_tokens) * self.suffix_share))


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the model is given.

    Attributes:
        tokens: never empty.
        healing: the bytes of text before the cursor that generated tokens must spell first.
        typed: the text after the middle mark, the healed part not included.
        template: the name of the family's form.
    """

    tokens: tuple[int, ...]
    healing: bytes
    typed: str
    template: str


class PromptBuilder:
    """Builds the prompts of all documents for one model.

    Args:
        tokenizer: of the model.
        options: the budgets; snippets of other files are shown only where they have one.
        context: finds those snippets; asked for a document's first prompt, in a pause and by `plan`, else those of the
            last prompt stay.
    """

    def __init__(
        self, tokenizer: Tokenizer, options: PromptOptions | None = None, context: Context = NO_CONTEXT
    ) -> None:
        self.options = options or PromptOptions()
        self._context = context
        self.template: Template = template_of(tokenizer.control)
        self._tokenizer = tokenizer
        self._anchors: LatestDocuments[Anchor] = LatestDocuments(self.options.documents)
        self._plans: LatestDocuments[Anchor] = LatestDocuments(self.options.documents)
        self._built: LatestDocuments[Prompt] = LatestDocuments(self.options.documents)

    def build(self, snapshot: Snapshot, offset: int, *, hurried: bool = False, room: int | None = None) -> Prompt:
        """The prompt for what comes at `offset` of `snapshot`.

        Args:
            snapshot: the document; its neighbours stand before its text.
            offset: the cursor, in characters of `snapshot.text`.
            hurried: the user types on: a first prompt goes without code of other files that takes long to read.
            room: tokens that may be read while somebody waits; a prompt at a new place has a shorter window, and no
                code of other files, where more of it is new. None: no limit.
        """
        self._context.observe(snapshot)
        text, offset = _whole(snapshot, offset)
        anchor = self._anchor_at(snapshot, text, offset, hurried=hurried, room=room)
        return self._made(snapshot.uri, anchor, text, offset)

    def settle(self, snapshot: Snapshot, offset: int) -> Prompt:
        """The user pauses: anchor here, so that the next keystrokes find everything computed. Returns the prompt.

        Other code goes along where it is worth it by now, but never in the middle of a line: who goes on there soon is
        to find everything as it was.
        """
        text, offset = _whole(snapshot, offset)
        last = self._shown_still(snapshot.uri)
        anchor = self._anchored(snapshot, text, offset, last, exchange=not begun(text, offset))
        return self._made(snapshot.uri, anchor, text, offset)

    def is_short(self, uri: str) -> bool:
        """Whether a document's prompt has a smaller window than it may, because somebody waited for it."""
        anchor = self._anchors.get(uri)
        return anchor is not None and anchor.short

    def is_partial(self, uri: str) -> bool:
        """Whether a document's prompt lacks a part that was left for later, and no plan has it yet."""
        anchor = self._anchors.get(uri)
        if anchor is None or uri in self._plans:
            return False
        return anchor.short or not (anchor.told.looked or not self.options.context_tokens)

    def is_interim(self, uri: str) -> bool:
        """Whether another prompt is to take the place of a document's: the whole one, or one with other code."""
        return uri in self._plans or self.is_partial(uri)

    def plan(self, snapshot: Snapshot, offset: int) -> None:
        """Plan the prompt that `build` makes here of a document that it does not know; nothing for no prompt.

        So a text made after a pause is the one that a first question at this place gets.
        """
        text, offset = _whole(snapshot, offset)
        last = self._shown_still(snapshot.uri)
        if last is None:
            return
        anchor = self._anchored(snapshot, text, offset, None, exchange=True)
        if not last.told.looked:
            self._anchors.put(snapshot.uri, replace(last, told=replace(last.told, looked=True)))
        here = self._anchor_at(snapshot, text, offset)
        if self._prompt(anchor, text, offset) == self._prompt(here, text, offset):
            self._anchors.put(snapshot.uri, replace(here, short=False))
            self._plans.forget(snapshot.uri)
        else:
            self._plans.put(snapshot.uri, anchor)

    def planned(self, snapshot: Snapshot, offset: int) -> Prompt | None:
        """The prompt here that is planned to take the place of the present one; None where there is no such plan."""
        text, offset = _whole(snapshot, offset)
        anchor = self._planned(snapshot, text, offset)
        return None if anchor is None else self._prompt(anchor, text, offset)

    def exchange(self, snapshot: Snapshot, offset: int) -> Prompt:
        """The planned prompt takes the place of the present one, if it still may; the prompt here."""
        text, offset = _whole(snapshot, offset)
        anchor = self._planned(snapshot, text, offset) or self._anchor_at(snapshot, text, offset)
        self._plans.forget(snapshot.uri)
        return self._made(snapshot.uri, anchor, text, offset)

    def shown(self, uri: str) -> Shown | None:
        """The prompt that was built last for a document, for a person to look at; None where there is none."""
        built, anchor = self._built.get(uri), self._anchors.get(uri)
        if built is None or anchor is None:
            return None
        names = {number: name for name, number in self._tokenizer.control.items()}
        parts: list[str] = []
        for special, run in groupby(built.tokens, key=lambda token: token in names):
            tokens = list(run)
            parts.append("".join(names[token] for token in tokens) if special else self._tokenizer.decode(tokens))
        return Shown("".join(parts), len(built.tokens), anchor.told.found)

    def context_of(self, uri: str) -> tuple[str, ...]:
        """The places of other code that a document's prompt shows, as PATH:LINE, the nearest to the text last."""
        anchor = self._anchors.get(uri)
        pieces = anchor.told.found.snippets if anchor is not None else ()
        return tuple(f"{one.path}:{one.line}" if one.line else one.path for one in reversed(pieces))

    def forget(self, uri: str) -> None:
        """The document is closed."""
        self._anchors.forget(uri)
        self._plans.forget(uri)
        self._built.forget(uri)

    def rename(self, old: str, new: str) -> None:
        """The document has a new name; its prompt goes on as it was."""
        self._anchors.rename(old, new)
        if old != new:
            self._plans.forget(new)
        self._plans.rename(old, new)
        self._built.rename(old, new)

    def _made(self, uri: str, anchor: Anchor, text: str, offset: int) -> Prompt:
        prompt = self._prompt(anchor, text, offset)
        self._anchors.put(uri, anchor)
        self._built.put(uri, prompt)
        return prompt

    def _anchor_at(
        self, snapshot: Snapshot, text: str, offset: int, *, hurried: bool = False, room: int | None = None
    ) -> Anchor:
        """The document's anchor, moved with its text, or a new one where it holds no more."""
        last = self._shown_still(snapshot.uri)
        if last is not None and (moved := self._moved(last, text, offset)) is not None:
            return moved
        lean = hurried and self.options.context_later
        anchor = self._anchored(snapshot, text, offset, last, exchange=False, lean=lean)
        if room is None or self._new(snapshot.uri, anchor, text, offset) <= room:
            return anchor
        if last is None and anchor.told.tokens:
            anchor = replace(anchor, told=UNTOLD)
            if self._new(snapshot.uri, anchor, text, offset) <= room:
                return anchor
        return self._shortened(anchor, text, offset, room)

    def _moved(self, anchor: Anchor, text: str, offset: int) -> Anchor | None:
        """The anchor where it stands in `text`; None where it holds no more."""
        shift = anchors.holds(anchor, text, offset)
        if shift is None or not self._typed_fits(text[anchor.at + shift : offset]):
            return None
        return replace(anchor, start=anchor.start + shift, at=anchor.at + shift, length=len(text))

    def _new(self, uri: str, anchor: Anchor, text: str, offset: int) -> int:
        """Tokens of the prompt by `anchor` that the document's last prompt does not begin with."""
        tokens, built = self._prompt(anchor, text, offset).tokens, self._built.get(uri)
        return len(tokens) - (common_prefix(built.tokens, tokens) if built is not None else 0)

    def _shortened(self, anchor: Anchor, text: str, offset: int, room: int) -> Anchor:
        """The anchor with as much of its window as `room` tokens hold; a quarter of that is for the text below."""
        typed = len(self._tokenizer.encode(text[anchor.at : offset]))
        left = max(room - typed - _MARKS, room // 2)
        below = min(left // 4, len(anchor.suffix_tokens))
        start = max(anchor.start, prefix_start(self._tokenizer, text[: anchor.at], left - below))
        begin = offset + anchors.closers(text[offset:])
        end = begin + suffix_end(self._tokenizer, text[begin : begin + len(anchor.suffix)], below)
        if (start, end) == (anchor.start, begin + len(anchor.suffix)):
            return anchor
        return replace(
            anchor,
            start=start,
            prefix=text[start : anchor.at],
            suffix=text[begin:end],
            whole=end == len(text),
            prefix_tokens=tuple(self._tokenizer.encode(self.template.lead + text[start : anchor.at])),
            suffix_tokens=tuple(self._tokenizer.encode(text[begin:end])),
            told=UNTOLD,
            short=True,
        )

    @property
    def _stays(self) -> bool:
        """Whether an anchor may stay where it is while text is typed behind it."""
        return self.options.anchored and bool(self.template.middle)

    def _typed_fits(self, typed: str) -> bool:
        """Whether what stands after the middle mark is short enough to stay there."""
        options = self.options
        if not self._stays:
            return False
        if typed.count("\n") > options.typed_lines or len(typed) > options.typed_tokens * 12:
            return False
        return len(typed) <= options.typed_tokens or len(self._tokenizer.encode(typed)) <= options.typed_tokens

    def _anchored(
        self, snapshot: Snapshot, text: str, offset: int, last: Anchor | None, *, exchange: bool, lean: bool = False
    ) -> Anchor:
        """A new anchor at the cursor; the last one's window start and context stay where they can.

        Args:
            snapshot: the document.
            text: its whole text.
            offset: the cursor in that.
            last: the anchor so far, if what it shows of other files may be shown still.
            exchange: whether other code may go along than did so far.
            lean: whether none is looked for where none went along so far.
        """
        options, tokenizer = self.options, self._tokenizer
        at = anchors.place(text, offset, min(options.lines_above, options.typed_lines // 3), 2 * options.typed_tokens)
        if not self._stays:
            at = max(heal_start(tokenizer, text[:offset]), 0)
        start = self._kept_start(last, text, at)
        if start is None:
            start = self._start(text, at)
        begin = offset + anchors.closers(text[offset:])
        end = begin + suffix_end(tokenizer, text[begin:], options.suffix_tokens)
        if last is not None and not exchange:
            shown = last.told
        elif lean:
            shown = UNTOLD
        else:
            shown = self._told(replace(snapshot, text=text), offset, (start, end), last.told if last else None)
        return Anchor(
            start=start,
            at=at,
            prefix=text[start:at],
            suffix=text[begin:end],
            whole=end == len(text),
            length=len(text),
            prefix_tokens=tuple(tokenizer.encode(self.template.lead + text[start:at])),
            suffix_tokens=tuple(tokenizer.encode(text[begin:end])),
            told=shown,
        )

    def _told(self, snapshot: Snapshot, offset: int, window: tuple[int, int], kept: Told | None) -> Told:
        """Code that goes along; `kept` itself, where an exchange would gain too little."""
        budget = self.options.context_tokens
        if not budget:
            return replace(UNTOLD, looked=True)
        found = self._context.find(snapshot, offset, window, kept.found if kept is not None else None)
        if kept is not None and found is kept.found:
            return replace(kept, looked=True)
        return Told(*told(self._tokenizer, self.template, found, language=snapshot.language, budget=budget))

    def _shown_still(self, uri: str) -> Anchor | None:
        """The document's anchor, if all that it shows may be shown still: rules hold at the moment of use."""
        anchor = self._anchors.get(uri)
        return anchor if anchor is not None and self._may_show(anchor.told) else None

    def _planned(self, snapshot: Snapshot, text: str, offset: int) -> Anchor | None:
        """The planned anchor as it stands in `text`, if it holds and all of it may be shown still."""
        planned = self._plans.get(snapshot.uri)
        if planned is None:
            return None
        moved = self._moved(planned, text, offset)
        if moved is None and not self._stays:  # a form without anchors: the other code alone is planned
            moved = replace(self._anchor_at(snapshot, text, offset), told=planned.told)
        if moved is None or not self._may_show(planned.told):
            self._plans.forget(snapshot.uri)
            return None
        return moved

    def _may_show(self, told: Told) -> bool:
        sources = {snippet.source for snippet in told.found.snippets if snippet.source}
        return not sources or self._context.may_show(sources)

    def _start(self, text: str, at: int) -> int:
        """Where a new window begins: the same for all anchors of a block of lines, so that it stays in the KV cache."""
        lines = text[:at].split("\n")
        block = at - len("\n".join(lines[len(lines) - 1 - (len(lines) - 1) % _BLOCK :]))
        budget = int(self.options.prefix_tokens * self.options.refill_share)
        start = prefix_start(self._tokenizer, text[:block], budget)
        if len(self._tokenizer.encode(text[start:at])) > self.options.prefix_tokens:
            return prefix_start(self._tokenizer, text[:at], budget)
        return start

    def _kept_start(self, last: Anchor | None, text: str, at: int) -> int | None:
        """The last window's start, if a prefix from there is neither too long nor much shorter than it could be."""
        if last is None or not last.start <= at or text[last.start : last.start + 64] != last.prefix[:64]:
            return None
        budget = self.options.prefix_tokens
        if at - last.start > budget * 12:
            return None
        tokens = len(self._tokenizer.encode(text[last.start : at]))
        enough = last.start == 0 or tokens >= budget // 3
        return last.start if enough and tokens <= budget else None

    def _prompt(self, anchor: Anchor, text: str, offset: int) -> Prompt:
        template, control, tokenizer = self.template, self._tokenizer.control, self._tokenizer
        typed = text[anchor.at : offset]
        healed = heal_start(tokenizer, typed)
        if not template.middle:
            body = [*anchor.told.tokens, *anchor.prefix_tokens, *tokenizer.encode(typed[:healed])]
        else:
            body = [
                *anchor.told.tokens,
                control[template.prefix],
                *anchor.prefix_tokens,
                control[template.suffix],
                *anchor.suffix_tokens,
                control[template.middle],
                *tokenizer.encode(typed[:healed]),
            ]
        tokens = (*tokenizer.start_ids, *body) or tuple(sorted(tokenizer.end_ids)[:1])
        return Prompt(tokens, printable(typed[healed:]).encode(), typed[:healed], template.name)


def begun(text: str, offset: int) -> bool:
    """Whether the cursor's line has text before it."""
    return bool(text[text.rfind("\n", 0, offset) + 1 : offset].strip())


def _whole(snapshot: Snapshot, offset: int) -> tuple[str, int]:
    """The text with its neighbours before it, and the cursor in that."""
    if not snapshot.neighbours:
        return snapshot.text, offset
    above = "".join(text.rstrip("\n") + "\n\n" for text in snapshot.neighbours)
    return above + snapshot.text, len(above) + offset
