"""`rewrite`: drafts an answer that repeats most of a known text, as edit models' answers do.

A hidden Markov model over places in the old text: a state says whether the answer copies the old text, writes new text
in its place, quotes earlier text, or replaces again what was replaced before. The forward algorithm keeps the
probabilities of the likeliest states as tokens come. They predict the next token, so that a tree of the likeliest paths
grows from them: the copy in the middle of the old text, and after a change also the places where the answer may come
back to it. The constants are shares counted in recorded answers of six edit models.
"""

import heapq
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from typing_extensions import override

from fastcoder_lsp.core import NO_DRAFT, Draft, DraftContext, Rewrite, StepCosts
from fastcoder_lsp.core.differences import changed
from fastcoder_lsp.draft.base import FROM_PROMPT, Drafter, Source, Specification

FROM_REWRITE = Source("rewrite", "prompt")

_COPY, _WRITE, _QUOTE, _REPLACE = range(4)
_LEAVING, _LEAST_LEAVING = 0.2, 0.01
"""Probability of leaving the old text: the first over one more than the tokens copied in a row, at least the second."""
_DELETED: Final = 0.12  # probability that the line is left out, if the answer leaves the old text at its start
_BACK, _BACK_AT_LINE = 0.35, 0.6  # probability of coming back to the old text after a new token, and after a new line
_SKIPPED: Final = ((0, 0.3), (1, 0.3), (2, 0.1), (3, 0.05))
"""Tokens of the old text that new ones stand for, if the answer comes back within the line; the first: an insertion."""
_AS_MANY: Final = 0.2  # probability that they stand for as many
_LINES: Final = (0.45, 0.35, 0.13, 0.07)
"""Lines down from the one that was left, if the answer comes back at a line's start."""
_OPENED, _UNOPENED, _STILL_INDENTED = 0.35, 0.02, 0.6
"""Probability that an old line is indented more: after a new line that opens a block, another one, such an old line."""
_QUOTED: Final = (0.15, 0.35, 0.5, 0.6, 0.75, 0.9)
"""Probability that new text continues as after the longest match, by `_size` of the match…"""
_QUOTED_ON: Final = (0.7, 0.8, 0.88, 0.93, 0.96, 0.98)
"""…and that it goes on so after another token."""
_HERE, _BEFORE, _ELSEWHERE = 0.5, 0.35, 0.25
"""Probability that a replacement is repeated: this answer's, an earlier change's; the factor after another token."""
_ON: Final = 0.95  # probability that a repeated replacement goes on
_UNKNOWN, _ANYWHERE = 0.004, 0.001
"""Probability that the next token is new text, and that it continues elsewhere in the old text, near the place left."""
_STATES, _BRANCHES, _PLACES, _MATCH = 10, 4, 64, 24
"""States that are kept, quotes that are followed, places that are searched for them, and the longest match of one."""
_VARIED: Final = 8  # the shortest quote that may go on after another token
_LONGEST_OLD, _LONGEST_NEW = 8, 24  # longest sides of a replacement that is repeated
_CHANGES, _PAIRS = 16, 4096
"""Latest changes that are searched for replacements, and pairs of equal tokens that are compared in each."""
_LEAST = 1e-4  # paths less probable than this are not drafted
_LEAST_SHARE, _LEAST_KEPT = 0.02, 0.004
"""States less probable than this are left out below a guess, and after a token of the answer."""
_NOWHERE = Rewrite(())


@dataclass(frozen=True, slots=True)
class RewriteParameters:
    """Parameters of `rewrite`. `window`: newest tokens of the prompt that are searched for quotes."""

    window: int = 8192


REWRITE = Specification(
    "rewrite",
    "the old text that the answer repeats, changes made before, and the longest matches in prompt and output",
    RewriteParameters(),
    lambda parameters, parts: RewriteDrafter(parts.piece, parameters),
    sources=(FROM_REWRITE, FROM_PROMPT),
)


class RewriteDrafter(Drafter):
    """Drafts the likeliest paths of an `Alignment`.

    `piece` gives the bytes of a token. A tree ends where one more row would cost more than it gains, by the engine's
    `costs`; None: it is filled.
    """

    def __init__(
        self, piece: Callable[[int], bytes], parameters: RewriteParameters | None = None, costs: StepCosts | None = None
    ) -> None:
        super().__init__(REWRITE)
        self._piece, self._window = piece, (parameters or RewriteParameters()).window
        self._costs, self._ms = costs, list[float]()
        self._alignment = Alignment(_NOWHERE, (), piece)
        self._seen = 0

    @override
    def begin(self, context: DraftContext) -> None:
        self._seen = context.prompt_length
        prompt = context.tokens[max(self._seen - self._window, 0) : self._seen]
        self._alignment = Alignment(context.rewrite or _NOWHERE, prompt, self._piece)

    @override
    def propose(self, context: DraftContext, nodes: int) -> Draft:
        self._alignment.follow(context.tokens[self._seen :])
        self._seen = len(context.tokens)
        if self._costs is not None and len(self._ms) <= nodes:
            self._ms = [self._costs.step_ms(1 + drafts) for drafts in range(nodes + 1)]
        grown = self._alignment.grow(nodes, self._ms[: nodes + 1])
        if not grown:
            return NO_DRAFT
        tokens, parents, states = zip(*((node.token, node.parent, node.state) for node in grown), strict=True)
        sources = tuple((FROM_PROMPT if state.mode == _QUOTE else FROM_REWRITE).name for state in states)
        return Draft(tokens, parents, sources, tuple(state.match or state.run for state in states))


class AlignedState(NamedTuple):
    """How the answer stands to the old text."""

    mode: int
    place: int  # the next token of the old text; unless it copies, the one where the answer left it
    run: int = 0  # tokens copied in a row, or written since the answer left
    at: int = 0
    """Copying: 1 if lines are indented more than before; quoting: the place in the running text of the next token;
    replacing: the number of the replacement."""
    match: int = 0  # the length of a quote's match


Belief = Mapping[AlignedState, float]  # probabilities of states


class PredictedToken(NamedTuple):
    """A node of a tree: its parent (-1: the root), the probability of its path, and its likeliest state."""

    token: int
    parent: int
    likely: float
    state: AlignedState


class _Replacement(NamedTuple):
    """`old` became `new` after the token `before`; `likely`: the probability that this is repeated."""

    before: int
    old: list[int]
    new: list[int]
    likely: float


class _Quoted(NamedTuple):
    """A place in the running text that may be quoted from, the length of its match, and its probability."""

    at: int
    match: int
    likely: float


class _Outlook:
    """The possible next tokens, or `only` one, each with its probability and the states it leads to."""

    def __init__(self, only: int | None = None) -> None:
        self.only = only
        self.likely: dict[int, float] = {}
        self.states: dict[int, dict[AlignedState, float]] = {}

    def add(self, token: int, state: AlignedState, likely: float) -> None:
        self.likely[token] = self.likely.get(token, 0.0) + likely
        states = self.states.setdefault(token, {})
        states[state] = states.get(state, 0.0) + likely


class _Pieces(dict[int, bytes]):
    """The bytes of tokens, each asked for once."""

    def __init__(self, piece: Callable[[int], bytes]) -> None:
        self._piece = piece

    def __missing__(self, token: int) -> bytes:
        found = self[token] = self._piece(token)
        return found


class Alignment:
    """Where the answer stands in the old text, and what it may say next.

    `prompt`: the tokens before the answer that are searched for quotes; `piece` gives the bytes of a token.
    """

    def __init__(self, rewrite: Rewrite, prompt: Sequence[int], piece: Callable[[int], bytes]) -> None:
        self._old, self._ends = [*rewrite.old, *rewrite.ends[:1]], rewrite.ends[1:]
        self._pieces = _Pieces(piece)
        self._text = list[int]()
        self._places = defaultdict[int, list[int]](list)
        """The places of each token in the running text…"""
        self._in_old = defaultdict[int, list[int]](list)
        """…and in the old text."""
        for place, token in enumerate(self._old):
            self._in_old[token].append(place)
        self._lines, self._line_of = self._split_lines()
        known = {*self._old, *prompt}
        self._white = {self._pieces[token]: token for token in known if _is_indentation(self._pieces[token])}
        self._unit = self._indentation()
        self._replacements = list[_Replacement]()
        self._by_first = defaultdict[int, list[int]](list)
        for old, new in rewrite.changes[-_CHANGES:]:
            for start, end, first, last in changed(old, new, most=_PAIRS):
                self._learn(old, start, end, new[first:last], _BEFORE)
        self._belief: Belief = {AlignedState(_COPY, 0): 1.0}
        self._left: tuple[int, int] | None = None
        """Where the answer left the old text: the place there, and in the running text."""
        self._sure = 0, len(prompt)  # the latest place up to which it surely copied, and its place in the running text
        self._quotes: Sequence[_Quoted] = ()
        for token in prompt:
            self._append(token)
        self._last = -1
        self._begin_quotes()

    def follow(self, tokens: Sequence[int]) -> None:
        """Advance over the answer's next tokens."""
        for token in tokens:
            belief = self._after(token)
            likeliest = heapq.nlargest(_STATES, belief.items(), key=lambda item: item[1])
            whole = sum(likely for _, likely in likeliest)
            shares = ((state, likely / whole) for state, likely in likeliest)
            self._belief = {state: share for state, share in shares if share >= _LEAST_KEPT}
            self._append(token)
            self._last = token
            self._note_replacement(likeliest[0][0])
            self._begin_quotes()
            self._belief = {
                state._replace(at=self._rewound(state.at)) if state.mode == _QUOTE else state: share
                for state, share in self._belief.items()
            }

    def grow(self, nodes: int, ms: Sequence[float] = ()) -> list[PredictedToken]:
        """The `nodes` likeliest nodes of the tree of continuations, likeliest first.

        `ms`: the time of a step with 0…`nodes` of them, which sizes the tree as `auto` sizes its own; empty: all.
        """
        expected, best, fastest = 1.0, 0, 1.0 / ms[0] if ms else 0.0
        grown = list[PredictedToken]()
        waiting = list[tuple[float, int, int, int, float, Belief]]()

        def look(belief: Belief, last: int, parent: int, path: float, quotes: Sequence[_Quoted]) -> None:
            outlook = self._outlook(belief, last, quotes)
            for token, likely in outlook.likely.items():
                if path * likely >= _LEAST:
                    entry = -path * likely, len(grown), token, parent, likely, outlook.states[token]
                    heapq.heappush(waiting, entry)

        if nodes > 0:
            look(self._belief, self._last, -1, 1.0, self._quotes)
        while waiting:
            path, _, token, parent, likely, states = heapq.heappop(waiting)
            drafts = len(grown)
            if ms and all(
                (expected - path * (more - drafts)) / ms[more] <= fastest for more in range(drafts + 1, nodes + 1)
            ):
                break
            expected -= path
            if ms and expected / ms[drafts + 1] > fastest:
                best, fastest = drafts + 1, expected / ms[drafts + 1]
            grown.append(PredictedToken(token, parent, -path, max(states, key=states.__getitem__)))
            if len(grown) == nodes:
                break
            likely_states = ((state, share / likely) for state, share in states.items())
            belief = {state: share for state, share in likely_states if share >= _LEAST_SHARE}
            look(belief, token, len(grown) - 1, -path, ())
        return grown[:best] if ms else grown

    def _after(self, token: int) -> dict[AlignedState, float]:
        outlook = self._outlook(self._belief, self._last, self._quotes, token)
        belief = outlook.states.get(token, {})
        same = self._in_old.get(token, [])
        for state, likely in self._belief.items():
            if state.mode == _COPY and state.place < len(self._old) and self._old[state.place] == token:
                continue
            place = min(state.place, max(len(self._old) - 1, 0))
            new = likely * _new(state)
            written = AlignedState(_WRITE, place, 1 if state.mode == _COPY else state.run + 1)
            belief[written] = belief.get(written, 0.0) + new * _UNKNOWN
            if state.mode == _QUOTE and state.match >= _VARIED:  # one token of the quote is another one
                quoting = AlignedState(_QUOTE, place, state.run + 1, state.at + 1, state.match // 2)
                belief[quoting] = belief.get(quoting, 0.0) + new * _UNKNOWN / 2
            at = bisect_left(same, place)
            for other in same[max(at - _BRANCHES, 0) : at + 2 * _BRANCHES]:
                back = AlignedState(_COPY, other + 1, 1)
                distance = (other - place) if other >= place else 2 * (place - other)
                belief[back] = belief.get(back, 0.0) + new * _ANYWHERE / (1 + distance / 8)
        return belief

    def _outlook(self, belief: Belief, last: int, quotes: Sequence[_Quoted], only: int | None = None) -> _Outlook:
        """The possible next tokens after `last` (-1: the answer begins)."""
        outlook, at_line = _Outlook(only), last < 0 or self._ends_line(last)
        for state, likely in belief.items():
            if state.mode == _COPY:
                self._copying(outlook, state, likely, quotes, at_line=at_line)
            elif state.mode == _REPLACE:
                self._replacing(outlook, state, likely * _ON)
            else:
                new = likely
                if state.mode == _QUOTE and state.at < len(self._text):
                    new *= _new(state)
                    following = AlignedState(_QUOTE, state.place, state.run + 1, state.at + 1, state.match + 1)
                    outlook.add(self._text[state.at], following, likely - new)
                self._returning(outlook, state, new, last, at_line=at_line)
                new *= 1 - (_BACK_AT_LINE if at_line else _BACK)
                self._quoting(outlook, state.place, state.run, new, quotes)
        return outlook

    def _copying(
        self, outlook: _Outlook, state: AlignedState, likely: float, quotes: Sequence[_Quoted], *, at_line: bool
    ) -> None:
        """The next old token, what replaces it, the next line, or new text."""
        place, old = state.place, self._old
        if place >= len(old):
            self._quoting(outlook, max(len(old) - 1, 0), 0, likely, quotes)
            return
        left = 1.0
        for number in self._by_first.get(old[place], ()):
            before, replaced, new, share = self._replacements[number]
            if old[place : place + len(replaced)] != replaced:
                continue
            share *= 1.0 if before == (old[place - 1] if place else -1) else _ELSEWHERE
            share = min(share, left - 0.1)
            if share > 0:
                left -= share
                if new:
                    self._replacing(outlook, AlignedState(_REPLACE, place, 0, number), likely * share)
                elif place + len(replaced) < len(old):
                    self._repeat(outlook, place + len(replaced), likely * share)
        likely *= left
        leaving = likely * _leaving(state.run)
        indented = (_STILL_INDENTED if at_line else 1.0) if state.at else 0.0
        self._repeat(outlook, place, likely - leaving, state.run, indented, at_line=at_line)
        if place == len(old) - 1:
            for end in self._ends:
                outlook.add(end, AlignedState(_COPY, place + 1, state.run + 1), leaving / len(self._ends) / 2)
        if at_line and (following := self._line_below(place, 1)) is not None:
            self._repeat(outlook, following, leaving * _DELETED)
        self._quoting(outlook, place, 0, leaving, quotes)

    def _repeat(
        self,
        outlook: _Outlook,
        place: int,
        likely: float,
        count: int = 0,
        indented: float = 0.0,
        *,
        at_line: bool = False,
    ) -> None:
        """Copy the old token at `place`, at a line's start perhaps with more indentation than before."""
        if indented and at_line and not self._is_blank(place):
            if (white := self._more_white(place)) is not None:
                token, following = white
                outlook.add(token, AlignedState(_COPY, following, count + 1, 1), likely * indented)
                likely *= 1 - indented
            indented = 0.0
        if outlook.only is None or outlook.only == self._old[place]:
            state = AlignedState(_COPY, place + 1, count + 1, 1 if indented else 0)
            outlook.add(self._old[place], state, likely)

    def _replacing(self, outlook: _Outlook, state: AlignedState, likely: float) -> None:
        _, replaced, new, _ = self._replacements[state.at]
        done = state.run + 1
        following = AlignedState(_COPY, state.place + len(replaced), 1)
        if done < len(new):
            following = AlignedState(_REPLACE, state.place, done, state.at)
        outlook.add(new[state.run], following, likely)

    def _returning(self, outlook: _Outlook, state: AlignedState, likely: float, last: int, *, at_line: bool) -> None:
        """The places where the answer may come back to the old text."""
        if at_line:
            opened = _OPENED if self._opens(last) else _UNOPENED
            for down, share in enumerate(_LINES):
                if (place := self._line_below(state.place, down)) is not None:
                    self._repeat(outlook, place, likely * _BACK_AT_LINE * share, 0, opened, at_line=True)
            return
        for skipped, share in (*_SKIPPED, (state.run, _AS_MANY)):
            if state.place + skipped < len(self._old):
                self._repeat(outlook, state.place + skipped, likely * _BACK * share)

    def _quoting(self, outlook: _Outlook, place: int, count: int, likely: float, quotes: Sequence[_Quoted]) -> None:
        for at, match, share in quotes:
            if outlook.only is None or outlook.only == self._text[at]:
                state = AlignedState(_QUOTE, place, count + 1, at + 1, match + 1)
                outlook.add(self._text[at], state, likely * share)

    def _begin_quotes(self) -> None:
        """Find the longest matches of the running text's end; places with the same next token count together."""
        text, found = self._text, dict[int, tuple[float, int, int]]()
        matches = [
            (self._matched(place), place + 1)
            for place in reversed(self._places.get(text[-1], ())[-_PLACES - 1 : -1] if text else ())
        ]
        longest = max((match for match, _ in matches), default=0)
        for match, place in matches:
            if match > longest - _BRANCHES:
                weight, best, at = found.get(text[place], (0.0, 0, 0))
                best, at = max((best, at), (match, place))
                found[text[place]] = weight + 2.5 ** (match - longest), best, at
        whole = sum(weight for weight, _, _ in found.values())
        best_first = heapq.nlargest(_BRANCHES, found.values(), key=lambda one: one[0])
        chance = _QUOTED[_size(longest)] / whole if whole else 0.0
        self._quotes = [_Quoted(self._rewound(at), match, chance * weight) for weight, match, at in best_first]

    def _rewound(self, at: int) -> int:
        """Where a quote that is about to reach the text's end goes on: a period earlier, if the text is a loop."""
        text = self._text
        period = len(text) - at
        while 0 < period <= at and len(text) - at < _MATCH and text[at - period : at] == text[at : at + period]:
            at -= period
        return at

    def _matched(self, place: int) -> int:
        text, match = self._text, 1
        while match < _MATCH and place >= match and text[place - match] == text[-1 - match]:
            match += 1
        return match

    def _append(self, token: int) -> None:
        self._places[token].append(len(self._text))
        self._text.append(token)

    def _note_replacement(self, state: AlignedState) -> None:
        """Learn what the answer replaced, once it copies again."""
        if state.mode != _COPY:
            self._left = self._left or self._sure
            return
        if self._left is not None and state.run == 2:
            (start, begun), end = self._left, state.place - 2
            self._learn(self._old, start, end, self._text[begun:-2], _HERE)
        if state.run >= 2:
            self._left, self._sure = None, (state.place, len(self._text))

    def _learn(self, old: Sequence[int], start: int, end: int, new: Sequence[int], likely: float) -> None:
        """Learn that `new` stands for `old[start:end]`; an insertion is learnt with the token after it."""
        if start == end < len(old):
            new, end = [*new, old[end]], end + 1
        if not start < end <= start + _LONGEST_OLD or len(new) > _LONGEST_NEW:
            return
        one = _Replacement(old[start - 1] if start else -1, list(old[start:end]), list(new), likely)
        if all(one[:3] != known[:3] for known in self._replacements):
            self._by_first[one.old[0]].append(len(self._replacements))
            self._replacements.append(one)

    def _opens(self, last: int) -> bool:
        """Whether the line that `last` ends, at the end of the answer or of a guess, opens a block."""
        line = self._pieces[last].rstrip() if last >= 0 else b""
        if not line and last == self._last:
            line = b"".join(self._pieces[token] for token in self._text[-3:]).rstrip()
        return line[-1:] in _OPENERS

    def _ends_line(self, token: int) -> bool:
        return self._pieces[token].endswith(b"\n")

    def _split_lines(self) -> tuple[list[int], list[int]]:
        lines, line_of = [0], list[int]()
        for place, token in enumerate(self._old):
            line_of.append(len(lines) - 1)
            if self._ends_line(token) and place + 1 < len(self._old):
                lines.append(place + 1)
        return lines, line_of

    def _line_below(self, place: int, down: int) -> int | None:
        line = self._line_of[place] + down if self._old else len(self._lines)
        return self._lines[line] if line < len(self._lines) else None

    def _indentation(self) -> bytes:
        lines = b"".join(self._pieces[token] for token in self._old).split(b"\n")
        if any(line.startswith(b"\t") for line in lines):
            return b"\t"
        widths = sorted({0, *(len(line) - len(line.lstrip(b" ")) for line in lines if line.strip())})
        steps = [wide - narrow for narrow, wide in pairwise(widths) if wide - narrow > 1]
        return b" " * min(steps, default=4)

    def _more_white(self, place: int) -> tuple[int, int] | None:
        """The first token of the old line at `place` with one unit more, and the old place after it; None: unknown."""
        piece, unit = self._pieces[self._old[place]], self._unit
        longer, following = (unit + piece, place + 1) if _is_indentation(piece) else (unit, place)
        token = self._white.get(longer) if following > place or piece[:1] in (b" ", b"\t") else None
        return None if token is None else (token, following)

    def _is_blank(self, place: int) -> bool:
        return not self._pieces[self._old[place]].strip(b"\r\n")


_OPENERS: Final = (b":", b"{", b"(", b"[")


def _is_indentation(piece: bytes) -> bool:
    return bool(piece) and (not piece.strip(b" ") or not piece.strip(b"\t"))


def _leaving(copied: int) -> float:
    return max(_LEAVING / (1 + copied), _LEAST_LEAVING)


def _new(state: AlignedState) -> float:
    """The probability that the state does not go on as it does."""
    if state.mode == _COPY:
        return _leaving(state.run)
    if state.mode == _QUOTE:
        return 1 - _QUOTED_ON[_size(state.match)]
    return 1 - _ON if state.mode == _REPLACE else 1.0


def _size(match: int) -> int:
    """1, 2, 3, 4–7, 8–15, 16 and more."""
    return min(match, 3) - 1 if match < 4 else min(match.bit_length(), 5)
