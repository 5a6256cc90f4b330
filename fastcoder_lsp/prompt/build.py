"""From a snapshot and a cursor to the tokens of a prompt, such that consecutive prompts share a long beginning.

It keeps one anchor for each document, and a plan of the code of other files to show next. Used by one thread.
"""

from dataclasses import dataclass, replace
from itertools import groupby

from fastcoder_lsp.core import Pieces, Snapshot, at_once
from fastcoder_lsp.core.bounded import line_above, number_of_line
from fastcoder_lsp.core.differences import common_prefix
from fastcoder_lsp.documents import LatestDocuments
from fastcoder_lsp.prompt import anchor as anchors
from fastcoder_lsp.prompt.anchor import NO_CONTEXT_YET, Anchor, EncodedContext, heal_start, prefix_start, suffix_end
from fastcoder_lsp.prompt.context import NO_CONTEXT, Context, encode_context
from fastcoder_lsp.prompt.retrieval import LatestPrompt
from fastcoder_lsp.prompt.templates import Template, template_of
from fastcoder_lsp.tokenizer import Tokenizer, printable

_BLOCK = 16  # lines whose anchors share the start of a window
_MARKS = 4  # control tokens of a prompt


@dataclass(frozen=True, slots=True)
class PromptOptions:
    """Budgets in tokens, all inside `limit`; the rest is for the typed part and the control tokens."""

    limit: int = 1400  # the longest prompt, context included
    prefix_share: float = 0.56  # share of the tokens without context for the text before the anchor
    refill_share: float = 0.75
    """Share of the prefix budget that a new window fills, so that it can grow before it must move."""
    suffix_share: float = 0.20  # the same for the text after the cursor
    context_tokens: int = 0  # budget for snippets of other files
    context_later: bool = False  # whether a document's first prompt omits them while the user types on
    lines_above: int = 8  # lines above the cursor's that a new anchor leaves after the middle mark
    typed_lines: int = 24
    typed_tokens: int = 320
    """`typed_lines`, `typed_tokens`: the anchor moves when more than this follows the middle mark."""
    anchored: bool = True  # False for the plain order, with all text before the cursor in the prefix part
    documents: int = 32  # how many documents' anchors are kept

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
    """The model's input, never empty, by the family's `template`."""

    tokens: tuple[int, ...]
    healing: bytes  # the bytes before the cursor that the first generated tokens must spell
    typed: str  # the text after the middle mark, without those
    template: str


class PromptBuilder:
    """Builds the prompts of all documents for one model.

    `context` finds snippets for a document's first prompt, in a pause, and for `plan`, if `options` have a budget for
    them; otherwise those of the last prompt stay.
    """

    def __init__(
        self, tokenizer: Tokenizer, options: PromptOptions | None = None, context: Context = NO_CONTEXT
    ) -> None:
        self.options = options or PromptOptions()
        self._context = context
        self.template: Template = template_of(tokenizer)
        self._tokenizer = tokenizer
        self._anchors: LatestDocuments[Anchor] = LatestDocuments(self.options.documents)
        self._plans: LatestDocuments[Anchor] = LatestDocuments(self.options.documents)
        self._built: LatestDocuments[Prompt] = LatestDocuments(self.options.documents)

    def build(
        self, snapshot: Snapshot, offset: int, *, hurried: bool = False, room: int | None = None
    ) -> Pieces[Prompt]:
        """The prompt for a completion at `offset` of `snapshot`, whose neighbours precede its text.

        Args:
            snapshot: the document.
            offset: the cursor, in characters of `snapshot.text`.
            hurried: whether the user types on: a first prompt then omits code of other files, which takes long to read.
            room: tokens that may be read while a request waits; if more of a prompt at a new place is new, it gets a
                shorter window and no code of other files. None: no limit.
        """
        self._context.observe(snapshot)
        text, offset = _whole(snapshot, offset)
        anchor = yield from self._anchor_at(snapshot, text, offset, hurried=hurried, room=room)
        return self._store(snapshot.uri, anchor, text, offset)

    def move_anchor(self, snapshot: Snapshot, offset: int) -> Pieces[Prompt]:
        """Set the anchor here in a pause, so that the next keystrokes find everything computed; returns the prompt.

        Other code may be exchanged, but never in the middle of a line: a user who continues there soon finds the prompt
        unchanged.
        """
        text, offset = _whole(snapshot, offset)
        last = self._valid_anchor(snapshot.uri)
        anchor = yield from self._anchored(snapshot, text, offset, last, exchange=not begun(text, offset))
        return self._store(snapshot.uri, anchor, text, offset)

    def is_short(self, uri: str) -> bool:
        """Whether a document's prompt has a smaller window than allowed, because a request waited for it."""
        anchor = self._anchors.get(uri)
        return anchor is not None and anchor.short

    def is_partial(self, uri: str) -> bool:
        """Whether a document's prompt lacks a part that was left for later and is not planned yet."""
        anchor = self._anchors.get(uri)
        if anchor is None or uri in self._plans:
            return False
        return anchor.short or not (anchor.context.searched or not self.options.context_tokens)

    def is_interim(self, uri: str) -> bool:
        """Whether a document's prompt will be replaced: by a complete one, or one with other code."""
        return uri in self._plans or self.is_partial(uri)

    def plan(self, snapshot: Snapshot, offset: int) -> Pieces[None]:
        """Plan the prompt that `build` would make here for an unknown document, so that a pause changes nothing."""
        text, offset = _whole(snapshot, offset)
        if self._valid_anchor(snapshot.uri) is None:
            return
        anchor = yield from self._anchored(snapshot, text, offset, None, exchange=True)
        last = self._valid_anchor(snapshot.uri)  # another prompt may have been built meanwhile
        if last is not None and not last.context.searched:
            self._anchors.put(snapshot.uri, replace(last, context=replace(last.context, searched=True)))
        here = yield from self._anchor_at(snapshot, text, offset)
        if self._prompt(anchor, text, offset) == self._prompt(here, text, offset):
            self._anchors.put(snapshot.uri, replace(here, short=False))
            self._plans.forget(snapshot.uri)
        else:
            self._plans.put(snapshot.uri, anchor)

    def planned(self, snapshot: Snapshot, offset: int) -> Prompt | None:
        """The planned prompt here; None if there is no plan."""
        text, offset = _whole(snapshot, offset)
        anchor = self._planned(snapshot, text, offset)
        return None if anchor is None else self._prompt(anchor, text, offset)

    def exchange(self, snapshot: Snapshot, offset: int) -> Prompt:
        """Replace the present prompt by the planned one, if that is still allowed; returns the prompt here."""
        text, offset = _whole(snapshot, offset)
        anchor = self._planned(snapshot, text, offset) or at_once(self._anchor_at(snapshot, text, offset))
        self._plans.forget(snapshot.uri)
        return self._store(snapshot.uri, anchor, text, offset)

    def shown(self, uri: str) -> LatestPrompt | None:
        """The latest prompt of a document, for the user; None if there is none."""
        built, anchor = self._built.get(uri), self._anchors.get(uri)
        if built is None or anchor is None:
            return None
        names = {number: name for name, number in self._tokenizer.control.items()}
        parts: list[str] = []
        for special, run in groupby(built.tokens, key=lambda token: token in names):
            tokens = list(run)
            parts.append("".join(names[token] for token in tokens) if special else self._tokenizer.decode(tokens))
        return LatestPrompt("".join(parts), len(built.tokens), anchor.context.found)

    def context_of(self, uri: str) -> tuple[str, ...]:
        """The places of other code in a document's prompt, as PATH:LINE; the nearest to the text is last."""
        anchor = self._anchors.get(uri)
        pieces = anchor.context.found.snippets if anchor is not None else ()
        return tuple(f"{one.path}:{one.line}" if one.line else one.path for one in reversed(pieces))

    def may_show(self, uri: str) -> bool:
        """Whether the rules still allow the code of other files in a document's prompt."""
        anchor = self._anchors.get(uri)
        return anchor is None or self._may_show(anchor.context)

    def forget(self, uri: str) -> None:
        """Drop everything about a closed document."""
        self._anchors.forget(uri)
        self._plans.forget(uri)
        self._built.forget(uri)

    def rename(self, old: str, new: str) -> None:
        """Move a document's prompt to its new URI."""
        self._anchors.rename(old, new)
        if old != new:
            self._plans.forget(new)
        self._plans.rename(old, new)
        self._built.rename(old, new)

    def _store(self, uri: str, anchor: Anchor, text: str, offset: int) -> Prompt:
        prompt = self._prompt(anchor, text, offset)
        self._anchors.put(uri, anchor)
        self._built.put(uri, prompt)
        return prompt

    def _anchor_at(
        self, snapshot: Snapshot, text: str, offset: int, *, hurried: bool = False, room: int | None = None
    ) -> Pieces[Anchor]:
        """The document's anchor, moved with its text, or a new one if it is void."""
        last = self._valid_anchor(snapshot.uri)
        if last is not None and (moved := self._moved(last, text, offset)) is not None:
            return moved
        lean = hurried and self.options.context_later
        anchor = yield from self._anchored(snapshot, text, offset, last, exchange=False, lean=lean)
        if room is None or self._new(snapshot.uri, anchor, text, offset) <= room:
            return anchor
        if last is None and anchor.context.tokens:
            anchor = replace(anchor, context=NO_CONTEXT_YET)
            if self._new(snapshot.uri, anchor, text, offset) <= room:
                return anchor
        return self._shortened(anchor, text, offset, room)

    def _moved(self, anchor: Anchor, text: str, offset: int) -> Anchor | None:
        shift = anchors.shift_of(anchor, text, offset)
        if shift is None or not self._typed_fits(text[anchor.at + shift : offset]):
            return None
        return replace(anchor, start=anchor.start + shift, at=anchor.at + shift, length=len(text))

    def _new(self, uri: str, anchor: Anchor, text: str, offset: int) -> int:
        """Tokens of the prompt by `anchor` after its common beginning with the document's last prompt."""
        tokens, built = self._prompt(anchor, text, offset).tokens, self._built.get(uri)
        return len(tokens) - (common_prefix(built.tokens, tokens) if built is not None else 0)

    def _shortened(self, anchor: Anchor, text: str, offset: int, room: int) -> Anchor:
        """The anchor with as much of its window as fits `room` tokens, a quarter of that below the cursor."""
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
            context=NO_CONTEXT_YET,
            short=True,
        )

    @property
    def _is_anchored(self) -> bool:
        return self.options.anchored and bool(self.template.marks)

    def _typed_fits(self, typed: str) -> bool:
        options = self.options
        if not self._is_anchored:
            return False
        if typed.count("\n") > options.typed_lines or len(typed) > options.typed_tokens * 12:
            return False
        return len(typed) <= options.typed_tokens or len(self._tokenizer.encode(typed)) <= options.typed_tokens

    def _anchored(
        self, snapshot: Snapshot, text: str, offset: int, last: Anchor | None, *, exchange: bool, lean: bool = False
    ) -> Pieces[Anchor]:
        """A new anchor at the cursor; it keeps the last one's window start and context if possible.

        `last`: the anchor so far, if its code of other files may still be shown. `exchange`: that code may change.
        `lean`: search for none if there was none so far.
        """
        options, tokenizer = self.options, self._tokenizer
        at = anchors.place(text, offset, min(options.lines_above, options.typed_lines // 3), 2 * options.typed_tokens)
        if not self._is_anchored:
            at = max(heal_start(tokenizer, text[:offset]), 0)
        start = self._kept_start(last, text, at)
        if start is None:
            start = self._start(text, at)
        begin = offset + anchors.closers(text[offset:])
        end = begin + suffix_end(tokenizer, text[begin:], options.suffix_tokens)
        if last is not None and not exchange:
            shown = last.context
        elif lean:
            shown = NO_CONTEXT_YET
        else:
            shown = yield from self._encode_context(
                replace(snapshot, text=text), offset, (start, end), last.context if last else None
            )
        return Anchor(
            start=start,
            at=at,
            prefix=text[start:at],
            suffix=text[begin:end],
            whole=end == len(text),
            length=len(text),
            prefix_tokens=tuple(tokenizer.encode(self.template.lead + text[start:at])),
            suffix_tokens=tuple(tokenizer.encode(text[begin:end])),
            context=shown,
        )

    def _encode_context(
        self, snapshot: Snapshot, offset: int, window: tuple[int, int], kept: EncodedContext | None
    ) -> Pieces[EncodedContext]:
        """Code of other files for a prompt; `kept` itself if an exchange would gain too little."""
        budget = self.options.context_tokens
        if not budget:
            return replace(NO_CONTEXT_YET, searched=True)
        found = yield from self._context.find(snapshot, offset, window, kept.found if kept is not None else None)
        if kept is not None and found is kept.found:
            shown = replace(kept, searched=True)
        else:
            encoded = encode_context(self._tokenizer, self.template, found, language=snapshot.language, budget=budget)
            shown = EncodedContext(*(yield from encoded))
        return shown if self._may_show(shown) else NO_CONTEXT_YET  # the rules may have changed during the search

    def _valid_anchor(self, uri: str) -> Anchor | None:
        anchor = self._anchors.get(uri)
        return anchor if anchor is not None and self._may_show(anchor.context) else None

    def _planned(self, snapshot: Snapshot, text: str, offset: int) -> Anchor | None:
        """The planned anchor, moved to its place in `text`, if it holds and its code may still be shown."""
        planned = self._plans.get(snapshot.uri)
        if planned is None:
            return None
        moved = self._moved(planned, text, offset)
        if moved is None and not self._is_anchored:  # without anchors only the code of other files is planned
            moved = replace(at_once(self._anchor_at(snapshot, text, offset)), context=planned.context)
        if moved is None or not self._may_show(planned.context):
            self._plans.forget(snapshot.uri)
            return None
        return moved

    def _may_show(self, context: EncodedContext) -> bool:
        sources = {snippet.source for snippet in context.found.snippets if snippet.source}
        return not sources or self._context.may_show(sources)

    def _start(self, text: str, at: int) -> int:
        """Start of a new window, the same for all anchors of a block of lines, so that it stays in the KV cache."""
        block = line_above(text, at, number_of_line(text, at) % _BLOCK)
        budget = int(self.options.prefix_tokens * self.options.refill_share)
        start = prefix_start(self._tokenizer, text[:block], budget)
        if len(self._tokenizer.encode(text[start:at])) > self.options.prefix_tokens:
            return prefix_start(self._tokenizer, text[:at], budget)
        return start

    def _kept_start(self, last: Anchor | None, text: str, at: int) -> int | None:
        """The last window's start, if a prefix from there is neither too long nor much shorter than possible."""
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
        context, prefix = anchor.context.tokens, anchor.prefix_tokens
        if context and template.shows_in_prefix:
            alone = tokenizer.encode(anchor.prefix) if template.lead else prefix
            context, prefix = (), (*tokenizer.encode(template.lead), *context, *alone)
        parts = {template.prefix: prefix, template.suffix: anchor.suffix_tokens, template.middle: ()}
        marked = [token for mark in template.marks for token in (control[mark], *parts[mark])]
        body = [*context, *(marked or prefix), *tokenizer.encode(typed[:healed])]
        tokens = (*tokenizer.start_ids, *body) or tuple(sorted(tokenizer.end_ids)[:1])
        return Prompt(tokens, printable(typed[healed:]).encode(), typed[:healed], template.name)


def begun(text: str, offset: int) -> bool:
    """Whether the cursor's line has text before it."""
    return bool(text[text.rfind("\n", 0, offset) + 1 : offset].strip())


def _whole(snapshot: Snapshot, offset: int) -> tuple[str, int]:
    if not snapshot.neighbours:
        return snapshot.text, offset
    above = "".join(text.rstrip("\n") + "\n\n" for text in snapshot.neighbours)
    return above + snapshot.text, len(above) + offset
