"""Where what is kept of a workspace folder lies. Imports nothing heavy."""

import hashlib
import os
from pathlib import Path

from fastcoder_lsp.config import Settings
from fastcoder_lsp.workspace.rules import reading_part, resolved

_DEFAULT = Settings()


def store_folder(cache: Path, root: Path, identity: str, settings: Settings = _DEFAULT) -> Path:
    """Where the store of a workspace folder lies, for one tokenizer and what these settings allow to read.

    Who may read less finds nothing in it, not even for a moment, that others may read.
    """
    name, rules = hashlib.sha256(os.fsencode(resolved(root))).hexdigest()[:16], reading_part(settings)
    by_rules = "" if rules == reading_part(_DEFAULT) else "-" + hashlib.sha256(repr(rules).encode()).hexdigest()[:8]
    return cache / "index" / name / f"{identity[:16]}{by_rules}"


def words_file(cache: Path, root: Path, settings: Settings = _DEFAULT) -> Path:
    """The file of the folder's index of words, beside its stores: who deletes them deletes it."""
    return store_folder(cache, root, "words", settings) / "words.bin"
