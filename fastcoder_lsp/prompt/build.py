"""From a snapshot and a cursor to the tokens of a prompt, so that consecutive prompts share all they can.

Owns one anchor per document, and which code of other files is to go along next. The only stateful part of this package;
used by one thread.
"""

from dataclasses import dataclass, replace
from itertools import groupby

from fastcoder_lsp.core import Snapshot
from fastcoder_lsp.documents import LatestDocuments
from fastcoder_lsp.prompt import anchor as anchors
from fastcoder_lsp.prompt.account import Shown
from fastcoder_lsp.prompt.anchor import UNTOLD, Anchor, Told
from fastcoder_lsp.prompt.context import NO_CONTEXT, Context, told
from fastcoder_lsp.prompt.healing import heal_start
from fastcoder_lsp.prompt.options import PromptOptions
from fastcoder_lsp.prompt.templates import Template, template_of
from fastcoder_lsp.prompt.window import prefix_start, suffix_end
from fastcoder_lsp.tokenizer import Tokenizer, printable


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
        self._plans: LatestDocuments[Told] = LatestDocuments(self.options.documents)
        self._built: LatestDocuments[Prompt] = LatestDocuments(self.options.documents)

    def build(self, snapshot: Snapshot, offset: int, *, hurried: bool = False) -> Prompt:
        """The prompt for what comes at `offset` of `snapshot`.

        Args:
            snapshot: the document; its neighbours stand before its text.
            offset: the cursor, in characters of `snapshot.text`.
            hurried: whoever waits types on: a first prompt goes without code of other files that takes long to read.
        """
        self._context.observe(snapshot)
        text, offset = _whole(snapshot, offset)
        return self._made(snapshot.uri, self._anchor_at(snapshot, text, offset, hurried=hurried), text, offset)

    def settle(self, snapshot: Snapshot, offset: int, *, exchange: bool = True) -> Prompt:
        """The user pauses: anchor here, so that the next keystrokes find everything computed. Returns the prompt.

        Other code goes along where it is worth it by now, but never in the middle of a line: who goes on there soon is
        to find everything as it was. `exchange`: False where that is prepared beside (`plan`).
        """
        text, offset = _whole(snapshot, offset)
        last = self._shown_still(snapshot.uri)
        anchor = self._anchored(
            snapshot, text, offset, last, exchange=exchange and not begun(text, offset), lean=not exchange
        )
        return self._made(snapshot.uri, anchor, text, offset)

    def looked(self, uri: str) -> bool:
        """Whether code of other files was looked for, for a document that has a prompt."""
        anchor = self._anchors.get(uri)
        return anchor is None or anchor.told.looked or not self.options.context_tokens

    def plan(self, snapshot: Snapshot, offset: int) -> None:
        """Look for code that is worth taking the place of what goes along, or is planned to; nothing for no prompt."""
        text, offset = _whole(snapshot, offset)
        anchor = self._shown_still(snapshot.uri)
        if anchor is None or not self.options.context_tokens:
            return
        here = self._anchor_at(snapshot, text, offset)
        ends = offset + anchors.closers(text[offset:]) + len(here.suffix)
        found = self._told(
            replace(snapshot, text=text), offset, (here.start, ends), self._planned(snapshot.uri) or here.told
        )
        if not anchor.told.looked:
            self._anchors.put(snapshot.uri, replace(anchor, told=replace(anchor.told, looked=True)))
        if found.tokens == here.told.tokens:
            self._plans.forget(snapshot.uri)
        else:
            self._plans.put(snapshot.uri, found)

    def planned(self, snapshot: Snapshot, offset: int) -> Prompt | None:
        """The prompt here with the code that is planned to go along; None where what goes along stays."""
        told = self._planned(snapshot.uri)
        if told is None:
            return None
        text, offset = _whole(snapshot, offset)
        return self._prompt(replace(self._anchor_at(snapshot, text, offset), told=told), text, offset)

    def exchange(self, snapshot: Snapshot, offset: int) -> Prompt:
        """What is planned goes along from now on, if it still may; the prompt here."""
        text, offset = _whole(snapshot, offset)
        anchor, told = self._anchor_at(snapshot, text, offset), self._planned(snapshot.uri)
        self._plans.forget(snapshot.uri)
        return self._made(snapshot.uri, replace(anchor, told=told or anchor.told), text, offset)

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

    def _anchor_at(self, snapshot: Snapshot, text: str, offset: int, *, hurried: bool = False) -> Anchor:
        """The document's anchor, moved with its text, or a new one where it holds no more."""
        anchor = self._shown_still(snapshot.uri)
        shift = anchors.holds(anchor, text, offset) if anchor else None
        if anchor is not None and shift is not None and self._typed_fits(text[anchor.at + shift : offset]):
            return replace(anchor, start=anchor.start + shift, at=anchor.at + shift, length=len(text))
        lean = hurried and self.options.context_later
        return self._anchored(snapshot, text, offset, anchor, exchange=False, lean=lean)

    def _typed_fits(self, typed: str) -> bool:
        """Whether what stands after the middle mark is short enough to stay there."""
        options = self.options
        if not options.anchored or not self.template.middle:
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
        if not options.anchored or not self.template.middle:
            at = max(heal_start(tokenizer, text[:offset]), 0)
        start = self._kept_start(last, text, at)
        if start is None:
            start = prefix_start(tokenizer, text[:at], int(options.prefix_tokens * options.refill_share))
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

    def _planned(self, uri: str) -> Told | None:
        """What is planned to go along, if all of it may be shown still."""
        planned = self._plans.get(uri)
        if planned is not None and not self._may_show(planned):
            self._plans.forget(uri)
            return None
        return planned

    def _may_show(self, told: Told) -> bool:
        sources = {snippet.source for snippet in told.found.snippets if snippet.source}
        return not sources or self._context.may_show(sources)

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
