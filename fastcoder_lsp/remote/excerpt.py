"""Which documents may be sent to a server, and which part: lines around the cursor, without those that look secret.

A server that reads a prompt gets whole lines from a start that moves rarely, so that its KV cache serves the next
question. Our own server post-processes the answer, and so gets as much text as a front sees: with less, brackets that
close further down would look open.
"""

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final

from fastcoder_lsp.completion import reasons
from fastcoder_lsp.completion.question import Question
from fastcoder_lsp.config import Settings, cache_folder
from fastcoder_lsp.core import Reason, Snapshot, at_once
from fastcoder_lsp.decode.stop import LineRule, stop_rule
from fastcoder_lsp.documents import LatestDocuments
from fastcoder_lsp.postprocess.text_around import FAR
from fastcoder_lsp.remote.failures import NotSentError, not_sent
from fastcoder_lsp.workspace import rules
from fastcoder_lsp.workspace.document import OpenTexts
from fastcoder_lsp.workspace.folders import workspace_of
from fastcoder_lsp.workspace.rules import ReadingRules
from fastcoder_lsp.workspace.secret_lines import MAX_LINE, in_secret, judge
from fastcoder_lsp.workspace.secret_lines import REACH as ABOVE

if TYPE_CHECKING:
    from fastcoder_lsp.host.workspace import FrontWorkspace
    from fastcoder_lsp.prompt import PromptContext

_MAX_RULES: Final = 16  # folders whose rules are cached; a workspace may have hundreds of folders


class SendingRules:
    """The reading rules of a document's folder, or of its repository without one; one thread, except `change`."""

    def __init__(self, settings: Settings, folders: Mapping[Path, Settings]) -> None:
        self.change(settings, folders)

    def change(self, settings: Settings, folders: Mapping[Path, Settings]) -> None:
        """Replace the settings and the folders."""
        self._state: tuple[Settings, dict[Path, Settings], dict[Path | None, ReadingRules]]
        self._state = settings, dict(folders), {}

    def why_not(self, snapshot: Snapshot, host: str) -> NotSentError | None:
        """The rule that forbids sending a document, by the current ignore files; None if it may be sent."""
        path = None if snapshot.path is None else Path(snapshot.path)
        rule = self._rules(path).may_send(path, snapshot.language)
        if rule is None:
            return None
        return not_sent(host, "secret" if rule is rules.ExclusionReason.SECRET else "ignored", rule.value)

    def _rules(self, path: Path | None) -> ReadingRules:
        settings, folders, kept = self._state
        holding = (root for root in folders if path is not None and path.is_relative_to(root))
        root = max(holding, key=lambda root: len(root.parts), default=None)
        roots, key = tuple(folders), root
        if path is not None and not folders:
            key = workspace_of(path, Path(path.anchor)) or path.parent
            roots = (key,)
        if key not in kept:
            if len(kept) >= _MAX_RULES:
                kept.clear()
            kept[key] = ReadingRules(roots, settings if root is None else folders[root])
        return kept[key]


BEFORE = 8_000  # characters before the cursor, at most
AFTER = 3_000  # characters after the cursor, at most
REACH = FAR + 1  # the same on both sides for our own server: one more than it reads shows that there is more
_STRIDE = 2_000  # the start moves by so many characters at a time
_SURROGATES = re.compile("[\ud800-\udfff]")
"""Halves of characters, which UTF-8 cannot encode: an edit may have split them."""
_MARK = re.compile(
    r"\[(?=(?:PREFIX|SUFFIX|MIDDLE)\])"
    r"|<(?=[|｜][^|｜<>\s]{1,40}[|｜]>|\[[^\[\]<>\s]{1,40}\]>|fim-\w{1,40}>|(?:fim|file|repo|gh|issue|jupyter|commit|empty|pr)_\w{1,40}>"
    r"|filename>|reponame>|/?s>|unk>|pad>|/?(?:PRE|SUF|MID|EOT)>)"
)
"""Control tokens of all families (`prompt.templates`, their tokenizers' special tokens)."""


@dataclass(frozen=True, slots=True)
class ExcerptSnippet:
    """Code of another file: its path in the workspace, and whole lines of it."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Excerpt:
    """All text of the user's that a question sends, with `snippets` of other files, the best last."""

    before: str
    after: str
    snippets: tuple[ExcerptSnippet, ...]
    name: str  # the file's, without folders
    language: str
    max_tokens: int
    one_line: bool = False
    """The answer ends with the cursor's line; if the server knows, it ends the response, and the connection is kept."""

    def with_escaped_marks(self) -> "Excerpt":
        """A copy for servers that interpret marks in a text: a blank splits each mark."""
        return replace(
            self,
            before=_escape_marks(self.before),
            after=_escape_marks(self.after),
            snippets=tuple(
                ExcerptSnippet(_escape_marks(snippet.name), _escape_marks(snippet.text)) for snippet in self.snippets
            ),
            name=_escape_marks(self.name),
        )


def take(
    question: Question, snippets: tuple[ExcerptSnippet, ...], max_tokens: int, *, postprocessed: bool = False
) -> Excerpt:
    """The excerpt of `question`, with `snippets` of other files; `postprocessed`: for our own server."""
    snapshot, place = question.request.snapshot, question.place
    above = "".join(text.rstrip("\n") + "\n\n" for text in snapshot.neighbours)
    all_before, all_after = above + place.before, place.after
    before, after = (
        (all_before[-REACH:], all_after[:REACH])
        if postprocessed
        else (_prefix_window(all_before), _suffix_window(all_after))
    )
    rule = stop_rule(place.before, place.after, snapshot.language)
    before, after = _without_secrets(all_before, all_after, (len(before), len(after)), snapshot.language)
    return Excerpt(
        _replace_surrogates(before),
        _replace_surrogates(after),
        tuple(
            ExcerptSnippet(_replace_surrogates(snippet.name), _replace_surrogates(snippet.text)) for snippet in snippets
        ),
        _replace_surrogates(PurePath(snapshot.path).name) if snapshot.path is not None else "",
        snapshot.language,
        max_tokens,
        isinstance(rule, LineRule) and rule.within,
    )


def withheld(question: Question) -> Reason | None:
    """Why nothing may be asked: the cursor's line looks like a secret left of the cursor, and would be sent."""
    before = question.place.before
    if question.policy.in_secrets or not in_secret(before, question.request.snapshot.language):
        return None
    long = len(before) - before.rfind("\n") - 1 > MAX_LINE
    return reasons.unread_line(MAX_LINE) if long else reasons.secret_line()


def _without_secrets(before: str, after: str, shown: tuple[int, int], language: str) -> tuple[str, str]:
    """The `shown` characters on each side of the cursor without secret lines; what is left of the cursor stays.

    Whole lines are judged, with the lines above them, and then cut to the part that is sent.
    """
    start = len(before) - shown[0]
    line = max(before.rfind("\n", 0, start) + 1, start - MAX_LINE)  # a longer line is secret anyway
    first = max(line - ABOVE, 0)
    start, cursor, stop = start - first, len(before) - first, len(before) - first + shown[1]
    text = before[first:] + after[: shown[1]] + after[shown[1] : shown[1] + MAX_LINE].partition("\n")[0]
    lines, at = text.split("\n"), 0
    kept_before, kept_after = list[str](), list[str]()
    for one, secret in zip(lines, judge(lines, language), strict=True):
        end = at + len(one) + 1
        left, right = text[max(at, start) : min(end, cursor)], text[max(at, cursor) : min(end, stop)]
        if not secret or at <= cursor < end:
            kept_before.append(left)
        if not secret:
            kept_after.append(right)
        elif at <= cursor < end:
            kept_after.append(right[right.find("\n") :] if "\n" in right else "")
        at = end
    return "".join(kept_before), "".join(kept_after)


def window(text: str, offset: int) -> tuple[int, int]:
    """The range of `text`, in characters, that is sent for a cursor at `offset`."""
    return offset - len(_prefix_window(text[:offset])), min(len(text), offset + AFTER)


def _escape_marks(text: str) -> str:
    return _MARK.sub(r"\g<0> ", text)


def _replace_surrogates(text: str) -> str:
    return _SURROGATES.sub("\ufffd", text)


def _suffix_window(after: str) -> str:
    near = after[:AFTER]
    return near[: near.rindex("\n") + 1] if len(near) < len(after) and "\n" in near else near


def _prefix_window(before: str) -> str:
    """The end of `before`, from the start of a line if possible."""
    too_many = len(before) - BEFORE
    if too_many <= 0:
        return before
    at = -(-too_many // _STRIDE) * _STRIDE
    line = before.find("\n", at, at + _STRIDE) + 1
    return before[line or at :]


MAX_CHARACTERS: Final = 6_000  # of all snippets of a question
_PAUSE_MS: Final = 2_000.0
"""After such a pause in typing a new search may replace the snippets; while there are none, after the last search."""


class SnippetFinder:
    """Finds code of other files to send with a question, as the reading rules of its folder allow.

    A question's snippets stay the same while the user types: new ones would invalidate the server's KV cache behind
    them. `find` reads the disk, so it runs in one thread of its own. `notice` shows a message to the user.
    """

    def __init__(self, folders: Mapping[Path, Settings], texts: OpenTexts, notice: Callable[[str], None]) -> None:
        self._lock = threading.Lock()
        self._folders, self._texts, self._notice = _without_auto_context(folders), texts, notice
        self._workspace: FrontWorkspace | None = None
        self._latest: LatestDocuments[tuple[PromptContext, float]] = LatestDocuments(16)

    def change(self, folders: Mapping[Path, Settings]) -> None:
        """Replace the folders and their settings; from any thread."""
        with self._lock:
            self._folders = _without_auto_context(folders)
            self._latest = LatestDocuments(16)
            if self._workspace is not None:
                self._workspace.change(self._folders)

    def enabled(self) -> bool:
        """Whether any folder's code may be sent."""
        return any(settings.context_enabled for settings in self._folders.values())

    def find(self, question: Question) -> tuple[ExcerptSnippet, ...]:
        """The snippets for `question`, the best last; empty if its folder's settings forbid them."""
        if not self.enabled():
            return ()
        latest = self._latest  # found by these settings
        context = self._open_workspace().surroundings(drafted_from=False).context
        snapshot, offset = question.request.snapshot, question.request.offset
        context.observe(snapshot)
        kept, since_ms = latest.get(snapshot.uri) or (None, 0.0)
        sources = {one.source for one in kept.snippets if one.source} if kept is not None else set()
        if kept is not None and not context.may_show(sources):
            kept = None
        if kept is None or question.asked_ms - since_ms > _PAUSE_MS:
            search = context.find(snapshot, offset, window(snapshot.text, offset), kept)
            kept, since_ms = at_once(search), question.asked_ms
        # An empty result may mean that indexing goes on: search again even without a pause in typing.
        latest.put(snapshot.uri, (kept, question.asked_ms if kept.snippets else since_ms))
        return _best_that_fit(kept)

    def close(self) -> None:
        """Close the workspace."""
        with self._lock:
            if self._workspace is not None:
                self._workspace.close(0.0)

    def _open_workspace(self) -> "FrontWorkspace":
        from fastcoder_lsp.host.workspace import FrontWorkspace  # noqa: PLC0415 brings a compiler along
        from fastcoder_lsp.workspace.shared_stores import SharedStores  # noqa: PLC0415

        with self._lock:
            if self._workspace is None:
                stores = SharedStores(cache_folder())
                self._workspace = FrontWorkspace(self._folders, stores, self._texts, lambda _: None, self._notice)
            return self._workspace


def _without_auto_context(folders: Mapping[Path, Settings]) -> dict[Path, Settings]:
    return {
        root: replace(settings, context_enabled=settings.context_enabled is True) for root, settings in folders.items()
    }


def _best_that_fit(found: "PromptContext") -> tuple[ExcerptSnippet, ...]:
    room, taken = MAX_CHARACTERS, list[ExcerptSnippet]()
    for snippet in sorted(found.snippets, key=lambda one: -one.score):
        if len(snippet.text) <= room and snippet.text.strip():
            room -= len(snippet.text)
            taken.append(ExcerptSnippet(snippet.path, snippet.text))
    return tuple(reversed(taken))
