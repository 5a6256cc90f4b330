"""The user's recent changes, in memory only, as models see them.

Successive changes within 8 lines form one entry; a pause of a second, an accepted suggestion or a change elsewhere
begins the next (Zed and cursortab group alike). Changes that together leave the text as it was, such as typing and
deleting, or a change and its undo, are forgotten. Everything is bounded, since a client may send megabyte lines, or a
thousand changes a second.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias

from fastcoder_lsp.core import Change
from fastcoder_lsp.core.bounds import MOST_CHANGES
from fastcoder_lsp.core.differences import common_ends
from fastcoder_lsp.documents import LatestDocuments
from fastcoder_lsp.edits.gate import EditFacts, Inserted
from fastcoder_lsp.edits.minimal import NEAR_LINES, Patch

PAUSE_MS: Final = 1_000.0  # a pause that ends an entry
MOST_CHARACTERS: Final = 6_144
"""Of an entry with its surrounding lines; Zed's bound for a diff. Larger changes are not recorded."""
MOST_AGE_MS: Final = 30 * 60_000.0  # older entries say little of what comes next
_MOST_ENTRIES: Final = MOST_CHANGES
_MOST_TEXT: Final = 4_000_000  # characters of a text whose changes are recorded
_MOST_SPLIT: Final = 262_144  # characters of a change that is searched for unchanged lines
_MOST_HUNKS: Final = 8  # entries of one change: an editor's rename may touch hundreds of places
_AROUND: Final = 3  # lines on each side of an entry
_MOST_BELOW: Final = 1_000  # characters below a change that these lines are taken from
_ABOVE: Final = 8_000  # characters above a change that are kept: entries merge with them, and secrets begin there
_MOST_UNDONE: Final = 16  # entries of a file that are searched for undone ones
_MOST_RECENT: Final = 64
_MOST_DOCUMENTS: Final = 256

Judge: TypeAlias = Callable[[str, str, Sequence[str]], Sequence[bool]]
"""(uri, text above, lines) → whether each of `lines` looks like a secret or the beginning of one."""


@dataclass(slots=True, eq=False)
class _HistoryEntry:
    """One entry; `above` is text from up to `_ABOVE` characters above, `below` up to three lines."""

    uri: str
    path: str
    folder: str
    at_ms: float
    accepted: bool
    patch: Patch
    above: str
    below: tuple[str, ...]
    change: Change | str | None = ""  # the entry as others see it, None if they may not; "" until it has been judged


class EditHistory:
    """The changes of all documents, oldest first.

    `may_read`: uri → whether the rules allow reading the document. `is_secret` judges lines, unfinished ones, too.
    """

    def __init__(self, may_read: Callable[[str], bool], is_secret: Judge) -> None:
        self._may_read, self._is_secret = may_read, is_secret
        self._entries: list[_HistoryEntry] = []
        self._open: _HistoryEntry | None = None
        self._allowed: LatestDocuments[bool] = LatestDocuments(_MOST_DOCUMENTS)
        self._modified: LatestDocuments[deque[Inserted]] = LatestDocuments(_MOST_DOCUMENTS)

    def note(
        self, uri: str, path: str, before: str, after: str, at_ms: float, *, accepted: bool = False, folder: str = ""
    ) -> None:
        """Record a change of a document, which may have `accepted` a suggestion; `path` lies below `folder`."""
        if before == after:
            return
        recent = self._modified.get(uri)
        recent = deque(maxlen=_MOST_RECENT) if recent is None else recent
        self._modified.put(uri, recent)
        if max(len(before), len(after)) > _MOST_TEXT:
            recent.append(Inserted(at_ms, max(len(after) - len(before), 0), 0, accepted=accepted))
            self._open = None
            return
        start, end = common_ends(before, after)
        stop = len(after) - end
        recent.append(Inserted(at_ms, stop - start, after.count("\n", start, stop), accepted=accepted))
        allowed = self._is_allowed(uri)
        hunks = _hunks(before, after, start, end) if allowed else ()
        if not hunks:
            self._open = None
        for patch, at, below in hunks:
            above = _above(after, min(at, len(after)))
            if at > len(after):  # the last lines were deleted: the line above has no end in the text
                above += "\n"
            self._add(_HistoryEntry(uri, path, folder, at_ms, accepted, patch, above, below))

    def changes(self, now_ms: float, folder: str = "") -> tuple[Change, ...]:
        """The changes in a folder, oldest first, without secrets; those that may no longer be read are dropped."""
        self._allowed.clear()  # an ignore file may have changed
        kept = [entry for entry in self._entries if now_ms - entry.at_ms <= MOST_AGE_MS and self._is_allowed(entry.uri)]
        if len(kept) < len(self._entries):
            self._keep(kept)
        seen = (self._seen(entry) for entry in self._entries if entry.folder == folder)
        return tuple(change for change in seen if change is not None)

    def facts(self, uri: str, now_ms: float) -> EditFacts:
        """The gate's facts about a document."""
        recent = self._modified.get(uri)
        return EditFacts(now_ms, modified=recent is not None, inserted=tuple(recent or ()))

    def forget(self, uri: str) -> None:
        """Drop all changes of a document."""
        self._keep([entry for entry in self._entries if entry.uri != uri])
        for known in (self._modified, self._allowed):
            known.forget(uri)

    def rename(self, old: str, new: str, path: str, folder: str = "") -> None:
        """The document `old` is now `new`, at `path` below `folder`; its changes go if it may not be read there."""
        moved = [entry for entry in self._entries if entry.uri == old]
        self._modified.rename(old, new)
        if moved and not self._is_allowed(new):
            self._keep([entry for entry in self._entries if entry.uri != old])
            return
        for entry in moved:
            entry.uri, entry.path, entry.folder, entry.change = new, path, folder, ""

    def rules_changed(self) -> None:
        """Drop the changes that the rules no longer allow to read, and judge the others again."""
        self._allowed.clear()
        self._keep([entry for entry in self._entries if self._is_allowed(entry.uri)])
        for entry in self._entries:
            entry.change = ""

    def clear(self) -> None:
        """Drop everything."""
        self._keep([])
        for known in (self._modified, self._allowed):
            known.clear()

    def _is_allowed(self, uri: str) -> bool:
        if (allowed := self._allowed.get(uri)) is None:
            allowed = self._may_read(uri)
            self._allowed.put(uri, allowed)
        return allowed

    def _keep(self, entries: list[_HistoryEntry]) -> None:
        self._entries = entries
        if self._open is not None and (not entries or entries[-1] is not self._open):
            self._open = None

    def _add(self, entry: _HistoryEntry) -> None:
        last, self._open = self._open, entry
        if last is not None and (merged := _merged(last, entry)) is not None:
            self._entries.pop()
            self._open = entry = replace(merged, above=_above(merged.above, len(merged.above)))
        if entry.patch.size() > MOST_CHARACTERS:
            self._open = None
            return
        self._entries.append(entry)
        self._drop_undone()
        if len(self._entries) > _MOST_ENTRIES:
            del self._entries[0]

    def _drop_undone(self) -> None:
        own = [entry for entry in self._entries if entry.uri == self._entries[-1].uri]
        undone = sorted(_undone(own[: -_MOST_UNDONE - 1 : -1]), key=own.index, reverse=True)
        for removed in undone:  # later entries now follow a text without it
            line = removed.patch.line
            for later in own[own.index(removed) + 1 :]:
                if later in undone:
                    continue
                if later.patch.line < line:
                    line += later.patch.grows
                else:
                    later.patch = later.patch._replace(line=max(later.patch.line - removed.patch.grows, 0))
                    later.change = ""
        if undone:
            self._keep([entry for entry in self._entries if entry not in undone])

    def _seen(self, entry: _HistoryEntry) -> Change | None:
        if isinstance(entry.change, str):
            entry.change = self._without_secrets(entry)
        return entry.change

    def _without_secrets(self, entry: _HistoryEntry) -> Change | None:
        """The entry without the lines that look like secrets; None if that would change its meaning."""
        above = tuple(entry.above.split("\n")[:-1])
        patch, below = entry.patch, entry.below
        old, new = self._judged(entry.uri, above, patch.old, below), self._judged(entry.uri, above, patch.new, below)
        if old.hidden != new.hidden and patch.old and patch.new:
            return None
        if old.shown == new.shown or ((old.hidden or new.hidden) and not _says(old.shown + new.shown)):
            return None
        return Change(
            entry.path,
            patch.line,
            _text(old.shown),
            _text(new.shown),
            _text([line for line in old.above if line in new.above]),
            _text([line for line in old.below if line in new.below]),
            accepted=entry.accepted,
        )

    def _judged(self, uri: str, above: tuple[str, ...], lines: tuple[str, ...], below: tuple[str, ...]) -> "_Judged":
        around = above[-_AROUND:]
        everything = (*around, *lines, *below)
        secret = self._is_secret(uri, _text(above[: len(above) - len(around)]), everything)
        first, end = len(around), len(around) + len(lines)

        def part(start: int, stop: int, *, hidden: bool) -> tuple[str, ...]:
            return tuple(everything[number] for number in range(start, stop) if secret[number] is hidden)

        return _Judged(
            part(0, first, hidden=False),
            part(first, end, hidden=False),
            part(first, end, hidden=True),
            part(end, len(everything), hidden=False),
        )


class _Judged(NamedTuple):
    """One side of an entry: the lines around it that may be shown, its own, and those that may not."""

    above: tuple[str, ...]
    shown: tuple[str, ...]
    hidden: tuple[str, ...]
    below: tuple[str, ...]


def _says(lines: Sequence[str]) -> bool:
    return any(character.isalnum() for line in lines for character in line)


def _text(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _above(text: str, at: int) -> str:
    """The whole lines above a place, within reach."""
    start = max(at - _ABOVE, 0)
    return text[text.find("\n", start, at) + 1 or start if start else 0 : at]


def _merged(last: _HistoryEntry, entry: _HistoryEntry) -> _HistoryEntry | None:
    """The open entry `last` together with the next one; None if that is an entry of its own."""
    if (last.uri, last.folder) != (entry.uri, entry.folder) or entry.at_ms - last.at_ms >= PAUSE_MS:
        return None
    if last.accepted or entry.accepted:
        return None
    first, then = last.patch, entry.patch
    below, over = then.line - first.line - len(first.new), first.line - then.line - len(then.old)
    if max(below, over) > NEAR_LINES:
        return None
    if below > 0:
        between = _last_lines(entry.above, below)
        then = Patch(then.line - below, (*between, *then.old), (*between, *then.new))
    elif over > 0:
        between = _last_lines(last.above, over)
        then = Patch(then.line, (*then.old, *between), (*then.new, *between))
    if (both := first.followed_by(then)) is None:
        return None
    patch = both.trimmed()
    if patch.size() > MOST_CHARACTERS:
        return None
    head = both.new[: patch.line - both.line]
    tail = both.new[len(head) + len(patch.new) :]
    last_below = entry.below if then.line + len(then.old) >= first.line + len(first.new) else last.below
    above = (last.above if first.line <= then.line else entry.above) + _text(head)
    return replace(entry, patch=patch, above=above, below=(*tail, *last_below)[:_AROUND])


def _undone(entries: Sequence[_HistoryEntry]) -> list[_HistoryEntry]:
    """The newest of `entries` (of one file, newest first), composed from the newest back, and those it undoes."""
    places: list[tuple[Patch, list[_HistoryEntry]]] = []
    for entry in entries:
        whole, of, apart = entry.patch, [entry], list[tuple[Patch, list[_HistoryEntry]]]()
        for patch, members in sorted(places, key=lambda place: -place[0].line):
            if not entry.patch.meets(patch):
                apart.append((patch.without(entry.patch), members))
                continue
            composed = whole.followed_by(patch)
            if composed is None:
                return []
            whole, of = composed, [*members, *of]
        whole = whole.trimmed()
        if whole.is_empty:
            return of
        places = [*apart, (whole, of)]
    return []


def _last_lines(above: str, count: int) -> tuple[str, ...]:
    return tuple(above.removesuffix("\n").rsplit("\n", count)[-count:])


def _hunks(before: str, after: str, start: int, end: int) -> list[tuple[Patch, int, tuple[str, ...]]]:
    """Patches with their places in `after` (or one past the end) and the lines below; `start`, `end` are common."""
    first = before.rfind("\n", 0, start) + 1
    stop = before.find("\n", len(before) - end)
    new_stop = after.find("\n", len(after) - end)
    stop, new_stop = stop if stop >= 0 else len(before), new_stop if new_stop >= 0 else len(after)
    if stop - first + new_stop - first > _MOST_SPLIT:
        return []
    old, new = before[first:stop].split("\n"), after[first:new_stop].split("\n")
    first_line = before.count("\n", 0, first)
    following = before[stop + 1 : stop + 1 + _MOST_BELOW].split("\n")
    if not following[-1] or stop + 1 + _MOST_BELOW < len(before):
        following.pop()  # the end of the last line, or a part of one
    found = []
    for i, i_end, j, j_end in _regions(old, new)[:_MOST_HUNKS]:
        patch = Patch(j, tuple(old[i:i_end]), tuple(new[j:j_end])).trimmed()
        if patch.is_empty:
            continue
        at = first + sum(map(len, new[: patch.line])) + patch.line
        old_end = i + patch.line - j + len(patch.old)
        below = [line[:_MOST_BELOW] for line in old[old_end : old_end + _AROUND]] + following
        if stop == len(before) and below and not below[-1]:
            below.pop()
        found.append((patch._replace(line=first_line + patch.line), at, tuple(below[:_AROUND])))
    return found


def _regions(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int, int, int]]:
    """(start, end, start, end) of each difference; over `NEAR_LINES` lines, one of them unique, separate two."""
    if min(len(old), len(new)) <= NEAR_LINES:
        return [(0, len(old), 0, len(new))]
    once: dict[str, int] = {}
    for number, line in enumerate(new):
        once[line] = -1 if line in once else number
    regions, i, j, number = [], 0, 0, 0
    while number < len(old):
        top, new_top = number, once.get(old[number], -1)
        number += 1
        if new_top < j:
            continue
        end, new_end = top, new_top
        while end < len(old) and new_end < len(new) and old[end] == new[new_end]:
            end, new_end = end + 1, new_end + 1
        while top > i and new_top > j and old[top - 1] == new[new_top - 1]:
            top, new_top = top - 1, new_top - 1
        if end - top > NEAR_LINES:
            regions.append((i, top, j, new_top))
            i, j, number = end, new_end, end
    regions.append((i, len(old), j, len(new)))
    return regions
