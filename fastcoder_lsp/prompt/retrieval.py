"""Pieces of files that resemble the code at a cursor, ranked by BM25 over pieces of some lines; and imports above.

Pieces of the document outside its window take part. The caller decides which other files may be read. A piece that uses
the names at the cursor is worth more to a model than the head of their definition (docs/rejected.md). Imports are found
by the words that begin them in each language, and are the same at every place of a document, so that an exchange of
other pieces leaves them in place.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from fastcoder_lsp.core import Pieces, Snapshot, bounded
from fastcoder_lsp.core.arrays import Floats, Int32s
from fastcoder_lsp.core.controls import counted
from fastcoder_lsp.index.terms import LineTerms, Terms, words_of
from fastcoder_lsp.index.word_index import WordIndex
from fastcoder_lsp.prompt.context import ContextSnippet, PromptContext

STEP = 8  # lines between the starts of two pieces
PIECE = 2 * STEP  # lines of a piece
ABOVE, BELOW = 12, 6  # lines around the cursor that make up the query
CLOSE_ABOVE, CLOSE_BELOW = 5, 2
CLOSE = 1.5  # the factor of words in the closest lines
MAX_FILES = 8  # Files that are searched, in the word index' ranking. 16 files gave no better pieces.
MAX_RANKED = 6 * MAX_FILES  # files that the index ranks, since some may not be read
MAX_PIECES = 10
MAX_COMPARED = 10_000  # characters at each end of a file that are compared with the document
MOST_OF_A_FILE = 2
COPY = 0.9  # a file with this share of its lines in the document is a copy: of a build, a worktree, an older version
KNOWN = 0.8  # a piece with this share of its lines in the window and better pieces is not new
MAX_WORDS = 160  # of a query; those with the greatest weights are kept
MAX_OWN = 50_000  # characters of the document on each side of the cursor that pieces are made of
_COMMON = (
    "and as assert async await bool break case catch char class cls const continue def default define del delete "
    "dict do double elif else end enum except export extends false final finally float fn for from func function "
    "global go if impl implements import in include int interface is lambda len let list match mod mut new nil none "
    "not null number object of or package pass print private protected pub public raise range return self set "
    "static str string struct super switch then this throw true try tuple type typeof undefined union unsafe "
    "unsigned use var void where while with yield all also an any are at be but by can each has have it its no on "
    "one only other so than that the their them then there they to was what when which will"
)
"""Words without a topic. In a large folder their weights show that; in a small one they do not."""
MIN_WORTH = 0.2  # a piece that is worth less than this share of the best one shares words only by chance
_K1, _B = 0.6, 0.75
_MAX_CELLS = 1_000_000  # pieces times words of the query in one file


@dataclass(frozen=True, slots=True)
class FileWords:
    """A file's text, with line feeds as line ends, and its words."""

    text: str
    lines: LineTerms


Load = Callable[[str], Pieces[FileWords | None]]
"""Reads a file by its key in the index; None if it may not be read, or does not exist."""


@dataclass(frozen=True, slots=True)
class WordQuery:
    """Distinct words, sorted, and their weights."""

    terms_Q: Int32s
    weights_Q: Floats


@dataclass(frozen=True, slots=True)
class ScoredLines:
    """Lines `begin`…`end` (half open) of the file `key`, and their score for the query."""

    key: str
    begin: int
    end: int
    score: float


def retrieve(
    query: WordQuery,
    snapshot: Snapshot,
    offset: int,
    shown: tuple[int, int],
    index: WordIndex,
    terms: Terms,
    load: Load,
    near: Sequence[str] = (),
) -> Pieces[tuple[ContextSnippet, ...]]:
    """The document's imports above its window, and pieces of it and of other files that resemble the code at a cursor.

    Best first, with the index's keys as paths; those of the document have no source. `shown`: the window, characters
    from…to. `near`: files that are searched in any case.
    """
    ranked = dict.fromkeys((*near, *index.best(query.terms_Q, MAX_RANKED)))
    yield
    files = yield from _others(ranked, snapshot, offset, load, MAX_FILES + len(near))
    own = yield from _own(snapshot.text, offset, shown, terms)
    searched = {key: file for key, (_, file) in own.items()} | files  # of two equal pieces, the document's is taken
    known = _lines_in(snapshot.text[slice(*shown)])
    lines_of = cache(lambda key: searched[key].text.split("\n"))  # a file may have many candidates

    def is_new(piece: ScoredLines) -> bool:
        lines = _distinct(lines_of(piece.key)[piece.begin : piece.end])
        if len(lines & known) >= KNOWN * len(lines):
            return False
        known.update(lines)
        return True

    pieces = []
    for piece in best_pieces(query, {key: file.lines for key, file in searched.items()}, is_new=is_new):
        text, above = _without_empty(lines_of(piece.key)[piece.begin : piece.end])
        line = piece.begin + above + 1
        if piece.key in own:
            pieces.append(ContextSnippet(snapshot.path or "", text, piece.score, line=own[piece.key][0] + line))
        else:
            pieces.append(ContextSnippet(piece.key, text, piece.score, piece.key, line=line))
    imported = imports_above(snapshot.text, shown[0], snapshot.language)
    if imported:
        # Always nearest to the code, because it says where the window's names come from.
        best = max((piece.score for piece in pieces), default=0.0)
        pieces.insert(0, ContextSnippet(snapshot.path or "", imported, best + 1.0))
    return tuple(pieces)


def _others(
    ranked: Iterable[str], snapshot: Snapshot, offset: int, load: Load, most: int
) -> Pieces[dict[str, FileWords]]:
    """The first files that may be read and are not copies of the document or of each other."""
    files: dict[str, FileWords] = {}
    document = _lines_in(snapshot.text[max(offset - MAX_OWN, 0) : offset + MAX_OWN])
    for key in ranked:
        found = (yield from load(key)) if key != snapshot.path else None
        if found is not None and not _is_copy(found.text, document, files.values()):
            files[key] = found
        yield
        if len(files) >= most:
            break
    return files


def query_at(text: str, offset: int, index: WordIndex, terms: Terms) -> WordQuery:
    """The query of the lines at a cursor."""
    words, counts = np.unique(terms.of(around(text, offset, ABOVE, BELOW)), return_counts=True)
    close = np.isin(words, terms.of(around(text, offset, CLOSE_ABOVE, CLOSE_BELOW)))
    worth = index.weights(words) * np.sqrt(counts) * np.where(close, CLOSE, 1.0)
    kept = np.sort(np.argsort(-worth, kind="stable")[:MAX_WORDS])
    return WordQuery(words[kept], worth[kept].astype(np.float32))


def around(text: str, offset: int, above: int, below: int) -> str:
    """The line of a cursor, with some lines above and below it; only parts of lines that are too long."""
    first, text = bounded.near(text, offset)
    offset -= first
    begin = text.rfind("\n", 0, offset)
    for _ in range(above):
        begin = text.rfind("\n", 0, begin) if begin >= 0 else -1
    end = text.find("\n", offset)
    for _ in range(below):
        end = text.find("\n", end + 1) if end >= 0 else -1
    return text[begin + 1 : end if end >= 0 else len(text)]


def best_pieces(
    query: WordQuery,
    files: dict[str, LineTerms],
    most: int = MAX_PIECES,
    is_new: Callable[[ScoredLines], bool] = lambda _piece: True,
) -> list[ScoredLines]:
    """The best pieces, best first: a few of each file, without overlaps, for which `is_new` holds."""
    if not files or not len(query.terms_Q):
        return []
    keys, scores = list(files), _scores(query, list(files.values()))
    owner = np.repeat(np.arange(len(keys)), [len(one) for one in scores])
    begins = np.concatenate([np.arange(len(one)) * STEP for one in scores])
    together = np.concatenate(scores)
    taken: list[ScoredLines] = []
    for place in np.argsort(-together, kind="stable")[: 16 * most].tolist():
        key, begin, score = keys[owner[place]], int(begins[place]), float(together[place])
        if score <= 0 or len(taken) == most:
            break
        same = [one for one in taken if one.key == key]
        if len(same) < MOST_OF_A_FILE and all(abs(one.begin - begin) >= PIECE for one in same):
            piece = ScoredLines(key, begin, min(begin + PIECE, files[key].lines), score)
            if is_new(piece):
                taken.append(piece)
    return taken


def worth(query: WordQuery, texts: Sequence[str], terms: Terms) -> Pieces[float]:
    """The weights of all words of a query that some pieces contain together."""
    if not texts or not len(query.terms_Q):
        return 0.0
    held = []
    for text in texts:
        lines, _ = yield from terms.by_pieces(text)
        held.append(np.isin(query.terms_Q, lines.terms_W))
    return float(query.weights_Q @ np.any(held, axis=0))


def related(query: WordQuery, pieces: Sequence[ContextSnippet], terms: Terms) -> Pieces[tuple[ContextSnippet, ...]]:
    """Pieces without those that share little more than common words, such as `return`, with the cursor's lines."""
    distinctive = ~np.isin(query.terms_Q, terms.of(_COMMON))
    asked = WordQuery(query.terms_Q[distinctive], query.weights_Q[distinctive])
    worths = []
    for piece in pieces:
        value = yield from worth(asked, [piece.text], terms)
        worths.append(value)
    least = MIN_WORTH * max(worths, default=0.0)
    return tuple(piece for piece, value in zip(pieces, worths, strict=True) if not piece.line or value > least)


def _own(text: str, offset: int, shown: tuple[int, int], terms: Terms) -> Pieces[dict[str, tuple[int, FileWords]]]:
    """The document above and below its window, by a key, which is not a path; each with the number of lines above."""
    first = text.find("\n", max(offset - MAX_OWN, 0)) + 1 if offset > MAX_OWN else 0
    above, below = text[first : shown[0]], text[shown[1] : offset + MAX_OWN]
    after = below.find("\n") + 1
    parts = (("<above", first, above[: above.rfind("\n") + 1]), ("<below", shown[1] + after, below[after:]))
    own = {}
    for key, begin, part in parts:
        if part.strip():
            lines, _ = yield from terms.by_pieces(part)
            own[key] = text.count("\n", 0, begin), FileWords(part, lines)
    return own


def _is_copy(text: str, document: set[str], taken: Collection[FileWords]) -> bool:
    lines = _lines_in(text[:MAX_COMPARED]) | _lines_in(text[-MAX_COMPARED:])
    return len(lines & document) >= COPY * len(lines) or any(text == one.text for one in taken)


def _lines_in(text: str) -> set[str]:
    return _distinct(text.split("\n"))


def _distinct(lines: Iterable[str]) -> set[str]:
    return {line for line in map(str.strip, lines) if line}


def _without_empty(piece: Sequence[str]) -> tuple[str, int]:
    lines = "\n".join(piece)
    return lines.strip("\n"), len(lines) - len(lines.lstrip("\n"))


def _scores(query: WordQuery, files: Sequence[LineTerms]) -> list[Floats]:
    counted = [_counted(query, file) for file in files]
    mean = max(float(np.mean(np.concatenate([lengths for _, lengths in counted]))), 1.0)
    scores = []
    for counts, lengths in counted:
        shape = _K1 * (1 - _B + _B * lengths / mean)
        gained = (counts * (_K1 + 1) / (counts + shape[:, None])) @ query.weights_Q
        scores.append(np.asarray(gained, np.float32))
    return scores


def _counted(query: WordQuery, lines: LineTerms) -> tuple[Floats, Floats]:
    """Occurrences of the query's words in each piece of two halves of `STEP` lines, and each piece's words."""
    asked = len(query.terms_Q)
    halves = min(max(-(-lines.lines // STEP), 1), max(_MAX_CELLS // asked, 1))
    edges = lines.starts_L[np.minimum(np.arange(halves + 1) * STEP, lines.lines)]
    words = lines.terms_W[: edges[-1]]
    places = np.minimum(np.searchsorted(query.terms_Q, words), asked - 1)
    hits = np.flatnonzero(query.terms_Q[places] == words)
    half_of = np.searchsorted(edges, hits, side="right") - 1
    cells = np.bincount(half_of * asked + places[hits], minlength=halves * asked)
    counts = cells.reshape(halves, asked).astype(np.float32)
    lengths = np.diff(edges).astype(np.float32)
    if halves == 1:
        return counts, lengths
    return counts[:-1] + counts[1:], lengths[:-1] + lengths[1:]


MAX_REASONS = 6  # names listed for a piece
RECENT = "recently edited, visited or copied, or its tests"  # the reason for a piece that shares no names
_NAME = re.compile(r"[^\W\d]\w{2,}")


@dataclass(frozen=True, slots=True)
class LatestPrompt:
    """The latest prompt of a document: `text` of all tokens, control tokens by name, and the other code in it."""

    text: str
    tokens: int
    found: PromptContext
    prefill_ms: float = 0.0  # the time to prefill a token on this machine; 0 if unknown


def account(shown: LatestPrompt, text: str, offset: int) -> Iterator[str]:
    """Lines of the report; the cursor is at `offset` in the document's `text`."""
    pieces = shown.found.snippets
    cost = sum(piece.tokens for piece in pieces)
    time = f" (read once, about {cost * shown.prefill_ms:.0f} ms)" if cost and shown.prefill_ms else ""
    count = counted(len(pieces), "piece")
    yield f"prompt: {counted(shown.tokens, 'token')}, including {cost} of other code in {count}{time}"
    for piece in pieces:
        names = ", ".join(reasons(piece, text, offset)) or (RECENT if piece.source else "its imports")
        if piece.source and shown.found.copied == (piece.source, piece.line):
            names = "copied just now"
        place = f"{piece.path}:{piece.line}" if piece.line else piece.path
        where = place if piece.source else f"{place} (this file, beyond what the prompt shows of it)"
        yield f"  {where}: {counted(piece.tokens, 'token')}, score {piece.score:.1f}: {names}"


def reasons(piece: ContextSnippet, text: str, offset: int) -> list[str]:
    """The names at the cursor that a piece contains, whole or as parts of its names, longest first."""
    held = {word for name in _NAME.findall(piece.text) for word in words_of(name)}
    near = Counter(name for name in _NAME.findall(around(text, offset, ABOVE, BELOW)) if name.lower() in held)
    return sorted(near, key=lambda name: (-len(name), name))[:MAX_REASONS]


MAX_IMPORT_CHARACTERS = 700  # of all imports, some 200 tokens; the first ones are kept
MAX_SCANNED_LINES = 2_000  # of a document's beginning that are read
MAX_IMPORT_LINES = 40  # of one import
_BEGINNINGS = {
    "python": ("import ", "from "),
    "javascript": ("import ", "import{", "const ", "var "),
    "go": ("import ",),
    "rust": ("use ", "pub use ", "pub(crate) use ", "pub(super) use ", "extern crate "),
    "java": ("import ",),
    "kotlin": ("import ",),
    "scala": ("import ",),
    "swift": ("import ",),
    "csharp": ("using ",),
    "cpp": ("#include", "using ", "import "),
    "php": ("use ", "require", "include"),
    "ruby": ("require", "load "),
    "dart": ("import ",),
    "elixir": ("import ", "alias ", "use ", "require "),
    "haskell": ("import ",),
}
_LIKE = {
    "javascriptreact": "javascript",
    "typescript": "javascript",
    "typescriptreact": "javascript",
    "c": "cpp",
    "objective-c": "cpp",
    "cuda-cpp": "cpp",
}
_OPEN, _CLOSED = re.compile(r"[({]"), re.compile(r"[)}]")


def imports_above(text: str, end: int, language: str) -> str:
    """The import statements of `text[:end]`, one line each; empty for an unknown language."""
    kept, left = [], MAX_IMPORT_CHARACTERS
    for statement in _statements(text, end, _LIKE.get(language, language)):
        left -= len(statement) + 1
        if left < 0:
            break
        kept.append(statement)
    return "\n".join(kept)


def _statements(text: str, end: int, language: str) -> Iterator[str]:
    beginnings = _BEGINNINGS.get(language)
    if beginnings is None:
        return
    whole = text[: text.rfind("\n", 0, end) + 1]
    statement: list[str] = []
    depth = 0
    for line in whole.split("\n", MAX_SCANNED_LINES)[:MAX_SCANNED_LINES]:
        if not statement and not line.startswith(beginnings):
            continue
        statement.append(line.strip())
        depth += len(_OPEN.findall(line)) - len(_CLOSED.findall(line))
        if depth > 0 and len(statement) < MAX_IMPORT_LINES:
            continue
        if depth <= 0 and _imports(language, statement):
            yield " ".join(filter(None, statement))
        statement, depth = [], 0


def _imports(language: str, statement: list[str]) -> bool:
    """Whether a statement that begins like an import is one; JavaScript's constants begin the same way."""
    return language != "javascript" or statement[0].startswith("import") or "require(" in statement[-1]
