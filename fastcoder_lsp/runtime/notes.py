"""The latest events as snippets for a prompt: diagnostics of the document, and the user's last changes.

Both change often, so they follow the code of other files, and a prompt keeps its own until it is planned anew: no key
recomputes it. A diagnostic holds while its line is in the document. Lines that look like secrets are left out.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from fastcoder_lsp.core import Change, Diagnostic, Snapshot
from fastcoder_lsp.core.bounded import near, number_of_line
from fastcoder_lsp.edits.minimal import Patch
from fastcoder_lsp.edits.prompts import lines_of
from fastcoder_lsp.prompt import ContextSnippet
from fastcoder_lsp.workspace.languages import language_of
from fastcoder_lsp.workspace.secret_lines import tells_secret, without_secrets

MOST_DIAGNOSTICS: Final = 4
NEAR_LINES: Final = 40
"""Errors and warnings further from the cursor than this are left out; unused code counts as far as `near` reads."""
MOST_MESSAGE: Final = 160  # characters of a message
SHOWN_CHANGES: Final = 3
MOST_CHANGED: Final = 500  # characters of both sides of a change; a longer one is left out
DIAGNOSTICS: Final = ".diagnostics"
CHANGES: Final = ".diff"  # suffix of a file's name, for the model and for users
_SHIFT: Final = 40  # lines that a line may have moved since the diagnostic
_UNUSED: Final = 4
_KINDS: Final = {1: "error", 2: "warning", _UNUSED: "unused"}


def diagnostics_note(here: Snapshot, offset: int) -> ContextSnippet | None:
    """The diagnostics near the cursor, the nearest last and each message once; `here` has its path below the folder."""
    cursor = number_of_line(here.text, offset)
    found = [
        (abs(at - cursor), one.message, text)
        for at, one, text in _current(here, offset)
        if at != cursor and (abs(at - cursor) <= NEAR_LINES or one.severity == _UNUSED)
    ]
    found.sort(key=lambda entry: entry[0])
    texts: dict[str, str] = {}
    for _, message, text in found:
        texts.setdefault(message, text)
    if not texts:
        return None
    shown = "\n".join(reversed(list(texts.values())[:MOST_DIAGNOSTICS]))
    return ContextSnippet(f"{here.path}{DIAGNOSTICS}", shown, reason="reported by the editor's other servers")


def still_hold(notes: Iterable[ContextSnippet], here: Snapshot, offset: int) -> bool:
    """Whether a prompt may keep its notes: none of their diagnostics is settled."""
    told = [note for note in notes if note.reason]
    if not told:
        return True
    now = {text for _, _, text in _current(here, offset)}
    for note in told:
        lines = note.text.split("\n")
        pairs = ("\n".join(lines[number : number + 2]) for number in range(0, len(lines), 2))
        if not (set(pairs) <= now if note.path.endswith(DIAGNOSTICS) else here.changes):
            return False
    return True


def change_notes(here: Snapshot, offset: int, root: Path) -> Iterator[ContextSnippet]:
    """The user's last changes below `root`, the newest first.

    At the cursor only removed lines are shown, since the prompt has the typed ones; and in the document no removed line
    that is there again, or was only typed on.
    """
    present = "\n".join(["", *map(str.strip, near(here.text, offset)[1].split("\n"))])
    cursor, here_changed, shown = number_of_line(here.text, offset), False, 0
    for path, patch in reversed(_together(here.changes)):
        old, new = patch.old, patch.new
        if patch.size() > 2 * MOST_CHANGED:
            continue
        if path == here.path:
            old = tuple(line for line in old if f"\n{line.strip()}" not in present)
            if not here_changed and patch.line - 1 <= cursor <= patch.line + len(new) + 1:
                new = ()
            here_changed = True  # the places of earlier changes may have moved
        text = "\n".join(f"{sign}{line}" for sign, side in (("-", old), ("+", new)) for line in side if line.strip())
        language = language_of(PurePosixPath(path))
        if not any(map(str.isalnum, text)) or len(text) > MOST_CHANGED or not _is_clean(patch, language):
            continue
        source = "" if path == here.path else str(root / path)
        yield ContextSnippet(f"{path}{CHANGES}", text, source=source, reason="changed lately")
        shown += 1
        if shown == SHOWN_CHANGES:
            return


def _current(here: Snapshot, offset: int) -> Iterator[tuple[int, Diagnostic, str]]:
    """The diagnostics whose line is still there and no secret: that line's number, and two lines for the prompt."""
    begin, text = near(here.text, offset)
    first, lines = number_of_line(here.text, begin), [line.strip() for line in text.split("\n")]
    for one in here.diagnostics:
        at = _place(one, first, lines)
        message = one.message if len(one.message) <= MOST_MESSAGE else f"{one.message[:MOST_MESSAGE]}…"
        if at is not None and not tells_secret(one.message, one.source, frozenset()):
            yield at, one, f"{_KINDS.get(one.severity, 'warning')}: {message}\n    {one.source}"


def _place(one: Diagnostic, first: int, lines: Sequence[str]) -> int | None:
    """Where the line of a diagnostic is now, the stripped lines from `first` on given; None if it is gone."""
    for distance in range(_SHIFT + 1):
        for at in (one.line + distance, one.line - distance):
            if 0 <= at - first < len(lines) and lines[at - first] == one.source:
                return at
    return None


def _together(changes: Sequence[Change]) -> list[tuple[str, Patch]]:
    """Path and patch of the changes, oldest first; those of one place are one, ordered by their last."""
    found: list[tuple[str, Patch]] = []
    for change in changes:
        path = PurePosixPath(change.path)
        if path.is_absolute() or ".." in path.parts:
            continue
        patch = Patch(change.line, tuple(lines_of(change.old)), tuple(lines_of(change.new)))
        last = next((number for number in range(len(found) - 1, -1, -1) if found[number][0] == change.path), None)
        both = found[last][1].followed_by(patch) if last is not None else None
        if last is not None and both is not None:
            del found[last]
            patch = both.trimmed()
        if not patch.is_empty:
            found.append((change.path, patch))
    return found


def _is_clean(patch: Patch, language: str) -> bool:
    return all(text == without_secrets(text, language) for text in ("\n".join(patch.old), "\n".join(patch.new)))
