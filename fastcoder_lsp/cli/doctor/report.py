"""`doctor --report`: what it found, as one file that may be shown to strangers.

Owns what is taken out: names of the user and the machine, where home is, addresses, tokens and passwords, and every
word of a model, which may be one tuned on the user's own code. What stays is text that a person can read before it is
sent.
"""

import getpass
import json
import os
import platform
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from fastcoder_lsp import __version__
from fastcoder_lsp.cli.doctor.check import Check
from fastcoder_lsp.errors import ResourceError, UsageError

HIDDEN = "<hidden>"
_SECRET_NAME = re.compile(r"token|key|secret|passw|credential|auth", re.IGNORECASE)
_LEAST_SECRET = 6
"""Letters: shorter values of such variables are settings, not secrets, and stand in many words."""
_PATTERNS = (
    (re.compile(r"(?<=://)[^/\s@]+@"), f"{HIDDEN}@"),  # user:password in an address
    (re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+"), HIDDEN),  # e-mail
    (re.compile(r"\b(?:hf|ghp|gho|ghs|ghu|github_pat|glpat|pypi|sk|xox[a-z])[-_][\w-]{8,}"), HIDDEN),
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}"), rf"\1 {HIDDEN}"),
    (re.compile(r"(?i)\b([\w-]*(?:token|secret|passw(?:or)?d|api[_-]?key)[\w-]*\s*[=:]\s*)[^\s&,;]+"), rf"\1{HIDDEN}"),
    (re.compile(r"«.*?»", re.DOTALL), f"«{HIDDEN}»"),  # what a model said
)
_MODELS_WORDS = frozenset({"text"})
"""Keys of details that hold what a model said."""


class Redaction:
    """Takes out of texts what is nobody else's business.

    Args:
        home: the user's folder, None for none; told as ~.
        names: of the user and of the machine, as whole words.
        environment: variables; the values of those whose name speaks of a secret are hidden wherever they stand.
    """

    def __init__(self, home: Path | None, names: Iterable[str], environment: Mapping[str, str]) -> None:
        homes = {str(home), os.path.realpath(home)} if home is not None else set()
        self._homes = sorted(homes - {"/", "."}, key=len, reverse=True)
        self._names = [
            re.compile(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", re.IGNORECASE) for name in names
        ]
        secrets = {value for name, value in environment.items() if _SECRET_NAME.search(name)}
        self._secrets = sorted((one for one in secrets if len(one) >= _LEAST_SECRET), key=len, reverse=True)

    @classmethod
    def here(cls, *more: str) -> "Redaction":
        """Of this user on this machine, and these names more."""
        home, names = None, [platform.node(), *more]
        with suppress(RuntimeError):
            home = Path.home()
            names.append(home.name)
        with suppress(OSError, KeyError):  # a number without a name
            names.append(getpass.getuser())
        return cls(home, {name for name in names if name}, os.environ)

    def text(self, text: str) -> str:
        """`text` without them."""
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        for home in self._homes:
            text = re.sub(rf"{re.escape(home)}(?![\w.-])", "~", text)
        for name in self._names:
            text = name.sub(HIDDEN, text)
        for pattern, instead in _PATTERNS:
            text = pattern.sub(instead, text)
        return text

    def value(self, value: object, key: str = "") -> object:
        """A value of JSON without them: its keys and its texts, however deep."""
        if isinstance(value, str):
            return HIDDEN if key in _MODELS_WORDS else self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(name)): self.value(one, str(name)) for name, one in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(one) for one in value]
        return value if value is None or isinstance(value, bool | int | float) else self.text(str(value))


def write_report(path: Path, checks: Iterable[Check], redaction: Redaction) -> None:
    """Write what was found to a new file that its owner alone may read.

    Raises:
        UsageError: there is such a file.
        ResourceError: it cannot be written.
    """
    found = []
    for check in checks:
        said = {name: one for name, one in asdict(check).items() if name != "details"}
        found.append(
            {name: redaction.text(one) for name, one in said.items()} | {"details": redaction.value(check.details)}
        )
    report = {
        "version": __version__,
        "system": platform.platform(),
        "python": platform.python_version(),
        "checks": found,
    }
    report["system"] = redaction.text(str(report["system"]))
    content = json.dumps(report, indent=1, ensure_ascii=False) + "\n"
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(content)
    except FileExistsError:
        raise UsageError(f"{path} exists", "Delete it, or name another file: doctor --report FILE") from None
    except OSError as error:
        raise ResourceError(
            f"{path} cannot be written: {error.strerror}", "Name another file: doctor --report FILE"
        ) from error
