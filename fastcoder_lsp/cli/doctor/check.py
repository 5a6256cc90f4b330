"""One check of `doctor`, how it is printed, and the report of all. A check that fails itself is a finding."""

import getpass
import json
import os
import platform
import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from fastcoder_lsp import __version__
from fastcoder_lsp.errors import ResourceError, UsageError, understood


@dataclass(frozen=True, slots=True)
class Check:
    """A finding. `state`: "ok", "note" (works, worth knowing) or "wrong"; `hint`: what to do about it."""

    name: str
    state: str
    text: str
    hint: str = ""
    details: dict[str, object] = field(default_factory=dict)


def attempt(name: str, look: Callable[[], Check | Iterable[Check]]) -> Iterator[Check]:
    """The findings of a check; an exception is a finding too."""
    try:
        found = look()
        yield from [found] if isinstance(found, Check) else found
    except Exception as error:  # noqa: BLE001 doctor is what people run when something fails
        if os.environ.get("FASTCODER_TRACEBACK"):
            traceback.print_exception(error)
        explained = understood(error)
        yield Check(name, "wrong", explained.message, explained.hint)


def show(check: Check) -> None:
    """A line, and the hint below it."""
    mark = {"ok": "✓", "note": "•", "wrong": "✗"}[check.state]
    first, *others = check.text.split("\n")
    print(f"{mark} {check.name:13} {first}", *(f"{'':16}{line}" for line in others), sep="\n")
    if check.hint:
        print(f"{'':16}→ {check.hint}")


HIDDEN = "<hidden>"
_SECRET_NAME = re.compile(r"token|key|secret|passw|credential|auth", re.IGNORECASE)
_LEAST_SECRET = 6  # letters: shorter values of such variables are settings, not secrets, and occur in many words
_PATTERNS = (
    (re.compile(r"(?<=://)[^/\s@]+@"), f"{HIDDEN}@"),  # user:password in an address
    (re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+"), HIDDEN),  # e-mail
    (re.compile(r"\b(?:hf|ghp|gho|ghs|ghu|github_pat|glpat|pypi|sk|xox[a-z])[-_][\w-]{8,}"), HIDDEN),
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}"), rf"\1 {HIDDEN}"),
    (re.compile(r"(?i)\b([\w-]*(?:token|secret|passw(?:or)?d|api[_-]?key)[\w-]*\s*[=:]\s*)[^\s&,;]+"), rf"\1{HIDDEN}"),
    (re.compile(r"«.*?»", re.DOTALL), f"«{HIDDEN}»"),  # text of a model
)
_MODELS_WORDS = frozenset({"text"})  # keys of details that hold text of a model


class Redaction:
    """Removes private data from texts, so that the report is safe to share with strangers.

    All text of a model goes too, which may be tuned on the user's own code. The folder `home` becomes ~; `names` of the
    user and of the machine are removed as whole words; values of `environment` variables with a secret's name, wherever
    they occur.
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
        """For this user on this machine, and these additional names."""
        home, names = None, [platform.node(), *more]
        with suppress(RuntimeError):
            home = Path.home()
            names.append(home.name)
        with suppress(OSError, KeyError):  # a user id without a name
            names.append(getpass.getuser())
        return cls(home, {name for name in names if name}, os.environ)

    def text(self, text: str) -> str:
        """`text` without private data."""
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
        """A JSON value without private data, in keys and texts at any depth."""
        if isinstance(value, str):
            return HIDDEN if key in _MODELS_WORDS else self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(name)): self.value(one, str(name)) for name, one in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(one) for one in value]
        return value if value is None or isinstance(value, bool | int | float) else self.text(str(value))


def write_report(path: Path, checks: Iterable[Check], redaction: Redaction) -> None:
    """Write the findings to a new file that only its owner may read; UsageError if it exists, else ResourceError."""
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
