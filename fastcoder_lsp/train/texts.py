"""Training texts from folders, archives, corpora of this project, and the standard library.

A folder is read by the server's rules (ignored files, secrets, limits); an archive's members are read in memory, never
unpacked. Equal texts count once.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from fastcoder_lsp.config import Settings, resolve
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.index.corpus import Corpora, is_name
from fastcoder_lsp.tokenizer import Tokenizer
from fastcoder_lsp.workspace.corpus_files import standard_library, texts_of
from fastcoder_lsp.workspace.languages import is_known, language_of
from fastcoder_lsp.workspace.rules import ReadingRules

STANDARD_LIBRARY = "stdlib"
CORPUS_PREFIX = "corpus:"
SHORTEST = 200
"""Fewest characters of a file: a shorter one is too little to predict several tokens."""
_NO_CODE = frozenset(("plaintext", "json", "jsonc", "diff", "xml"))
_SOURCES = "Name folders, archives, code files, corpus:NAME (see: fastcoder-lsp corpus list), or stdlib."


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts with their `sources` as the user named them; `fingerprint` is a hash of all texts in order."""

    sources: tuple[str, ...]
    texts: tuple[str, ...]
    fingerprint: str


def read_texts(sources: Sequence[str], tokenizer: Tokenizer, cache: Path) -> Texts:
    """The texts of all sources, in an order that depends only on their contents and names.

    A source is a folder, a code file, an archive (.zip, .whl, .tar and compressed), `corpus:NAME` in the folder
    `cache`, or `stdlib`.

    Raises:
        UsageError: a source does not exist, or none contains code.
    """
    settings, _ = resolve([])
    found: dict[bytes, str] = {}
    for source in sources:
        for text in _read(source, settings, tokenizer, cache):
            if len(text) >= SHORTEST:
                found.setdefault(hashlib.sha256(text.encode(errors="replace")).digest(), text)
    if not found:
        raise UsageError(f"no code to learn from in {', '.join(sources)}", _SOURCES)
    fingerprint = hashlib.sha256(b"".join(found)).hexdigest()
    return Texts(tuple(sources), tuple(found.values()), fingerprint)


def _read(source: str, settings: Settings, tokenizer: Tokenizer, cache: Path) -> Iterator[str]:
    path = Path(source).expanduser().absolute()
    if path.is_dir():
        yield from _folder(path, settings)
    elif path.exists():
        yield from (text for _, text in texts_of([path]))
    elif source == STANDARD_LIBRARY:
        yield from (text for _, text in standard_library())
    elif source.startswith(CORPUS_PREFIX) or is_name(source):
        yield from _corpus(source.removeprefix(CORPUS_PREFIX), tokenizer, cache)
    else:
        raise UsageError(f"{source}: no such file or folder", _SOURCES)


def is_code(path: PurePath) -> bool:
    """Whether a file's name says that it contains code."""
    return is_known(path) and language_of(path) not in _NO_CODE


def _folder(folder: Path, settings: Settings) -> Iterator[str]:
    rules = ReadingRules([folder], settings)
    for path in sorted(rules.files()):
        if is_code(path):
            text = rules.read_text(path)
            if isinstance(text, str):
                yield text.replace("\r\n", "\n").replace("\r", "\n")


def _corpus(name: str, tokenizer: Tokenizer, cache: Path) -> Iterator[str]:
    corpora = Corpora(cache)
    if not corpora.has(name, tokenizer.identity):
        raise UsageError(f"{name}: no such file or folder, and no corpus for this model's tokenizer", _SOURCES)
    store = corpora.open(name, tokenizer.identity)
    try:
        files = store.pin().files()
        for key in sorted(files):
            yield tokenizer.decode(files[key].tolist())
    finally:
        store.close()
