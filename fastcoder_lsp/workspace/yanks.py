"""What somebody copies in an open document: whole lines, from the server's own copy of its text.

Owns which lines are taken; whether they may be shown is asked when they are (`runtime/context`). Never sees a register
or a clipboard.
"""

from fastcoder_lsp.core import Yank
from fastcoder_lsp.workspace.document import Document
from fastcoder_lsp.workspace.secret_lines import KEYS, secret_lines, without_lines

MOST_LETTERS = 2_000
"""What is longer is data, or was copied to lie somewhere else."""


def yank_of(document: Document, first: int, last: int) -> Yank | None:
    """Lines first…last of a document, both of them, without blank ones around.

    Whole lines, whatever part of them was copied: what a line looks like, a secret say, is known by all of it. None
    where nothing is left, for what is too long, for a document that is no file's, and for one with a private key, of
    which lines alone tell nothing.
    """
    if document.file is None or not document.uri.lower().startswith("file:"):
        return None
    lines = document.lines(first, last)
    if sum(map(len, lines)) + len(lines) - 1 > MOST_LETTERS or KEYS in document.clean_text:
        return None
    secret = secret_lines(document.clean_text, document.language)
    lines = without_lines("\n".join(lines), secret).split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    above = next((number for number, line in enumerate(lines) if line.strip()), 0)
    return Yank(str(document.file), first + above, "\n".join(lines[above:])) if lines else None
