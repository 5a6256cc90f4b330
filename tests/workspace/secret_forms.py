"""Ways in which secrets stand in code and configuration, for the tests that none of their lines goes along.

Each line of the tables beside this file is a form, below the language that it is in; `⏎` ends a line in it. `@@` is a
password; `@20@` are twenty random letters and digits, `@h20@` hexadecimal ones.
"""

import random
import re
from collections.abc import Iterator
from pathlib import Path

FITTED = Path(__file__).with_name("secret_forms.txt")
"""The rules were made after these forms."""
MORE = Path(__file__).with_name("secret_forms_more.txt")
"""These were written without a look at the rules, and measured before the rules were changed after them."""
_LETTERS = "abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
_KINDS = {"": _LETTERS, "h": "0123456789abcdef", "u": "ABCDEFGHJKLMNPQRSTUVWXYZ234567"}


def forms(table: Path, password: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Each form of a table with this `password`: its language, its text, and the secrets in it."""
    chance, language = random.Random(7), ""
    for form in table.read_text(encoding="utf-8").splitlines():
        if form.startswith("== "):
            language = form[3:]
            continue
        held = set[str]()

        def value(match: re.Match[str], held: set[str] = held) -> str:
            kind, length = match[1], match[2]
            made = "".join(chance.choices(_KINDS[kind or ""], k=int(length))) if length else password
            held.add(made)
            return made

        yield language, re.sub(r"@(?:([hu])?(\d+)@|@)", value, form.replace("⏎", "\n")), tuple(held)


def written(table: str) -> list[tuple[str, str]]:
    """The lines of a table without passwords to fill in, each with the language that it stands below."""
    language, found = "", []
    for line in Path(__file__).with_name(table).read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            language = line[3:]
        else:
            found.append((language, line.replace("⏎", "\n")))
    return found
