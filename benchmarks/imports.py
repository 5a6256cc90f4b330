"""`bench imports`: imports removed from real files and offered again, and names typed where none is missing."""

import random
import re
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median

from benchmarks.harness import Reported
from fastcoder_lsp.bench.report import print_table, write_json
from fastcoder_lsp.cli.options import option
from fastcoder_lsp.core import Change
from fastcoder_lsp.edits.imports.languages import syntax_of, syntax_of_file
from fastcoder_lsp.edits.imports.missing import missing_imports
from fastcoder_lsp.edits.imports.place import code_statements
from fastcoder_lsp.edits.imports.table import ImportTable
from fastcoder_lsp.edits.imports.unused import without_name
from fastcoder_lsp.edits.imports.values import BoundName, ImportLine, ImportSyntax
from fastcoder_lsp.edits.imports.whole_files import WholeFileImports
from fastcoder_lsp.edits.minimal import apply
from fastcoder_lsp.edits.syntax_tree import quoting
from fastcoder_lsp.edits.values import EditQuestion
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.workspace.languages import language_of

EXAMPLE = "imports --repositories ../flask ../gin --places 50 --typed 250"
MOST_BYTES = 200_000
SKIPPED = frozenset({"node_modules", ".git", "vendor", "third_party", "__pycache__", "dist", "build", "target"})
_TRIES = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Reported):
    """Remove an import from a file, type a line that needs it, and compare the offer with the file as it was.

    `exact`: the whole text is the file's. `right`: the same import, elsewhere among the imports, too. Then type names
    where no import is missing, and count offers. A folder is a repository; its files are read, nothing is written.
    """

    repositories: list[Path] = option("folders of repositories", [], nargs="+", metavar="FOLDER")
    places: int = option("removed imports in each language", 50, metavar="N")
    typed: int = option("names typed in each language", 250, metavar="N")
    seed: int = option("seed of the choice of places", 5, metavar="N")
    show: int = option("print so many places that are not right", 0, metavar="N")


@dataclass(frozen=True, slots=True)
class CodeFile:
    """A file of a repository, and the table of that."""

    path: str
    text: str
    language: str
    table: ImportTable


def run(options: Options) -> None:
    """Print a row for each language."""
    if not options.repositories:
        raise UsageError("Name the folders of repositories.")
    by_language = defaultdict[str, list[CodeFile]](list)
    for folder in options.repositories:
        for file in _files(folder):
            by_language[_family(file.language)].append(file)
    figures = {language: _measured(files, options) for language, files in sorted(by_language.items())}
    columns = ("language", "removed", "right", "exact", "wrong", "silent", "unknown", "offers when none missing", "ms")
    rows = [(language, *one.cells()) for language, one in figures.items()]
    print_table("Missing imports", columns, rows)
    if options.json is not None:
        write_json(options.json, "imports", {}, {language: asdict(one) for language, one in figures.items()})


@dataclass(slots=True)
class ImportFigures:
    """Counts of one language: verdicts on removed imports, and offers where none is missing.

    `unknown`: no other file imports or defines the name, and nothing was offered; `silent`: one does.
    """

    exact: int = 0
    right: int = 0
    wrong: int = 0
    silent: int = 0
    unknown: int = 0
    typed: int = 0
    offers: int = 0
    ms: float = 0.0

    def cells(self) -> Sequence[str]:
        """The cells of its row; shares are of the names that other files know."""
        total = self.exact + self.right + self.wrong + self.silent
        shares = [f"{part / (total or 1):.0%}" for part in (self.exact + self.right, self.exact)]
        counts = map(str, (self.wrong, self.silent, self.unknown))
        return str(total), *shares, *counts, f"{self.offers} of {self.typed}", f"{self.ms:.1f}"


def _measured(files: Sequence[CodeFile], options: Options) -> ImportFigures:
    chance = random.Random(options.seed)  # noqa: S311 no secrets
    figures, times, shown = ImportFigures(), list[float](), options.show
    for file, name, question, syntax in _removed(files, options.places, chance):
        began = time.perf_counter()
        edits = missing_imports(question, file.table).edits
        times.append((time.perf_counter() - began) * 1e3)
        verdict = _verdict(file, question.text, apply(question.text, edits), syntax)
        verdict = "unknown" if verdict == "silent" and not _is_known(file, name) else verdict
        setattr(figures, verdict, getattr(figures, verdict) + 1)
        if verdict not in ("exact", "unknown") and shown > 0:
            shown -= 1
            print(f"{file.language} {verdict}: {file.path}: {name.name}")
            print("\n".join(f"    {question.text[one.start - 40 : one.start]!r} + {one.text!r}" for one in edits))
    for file, word, question in _typed(files, options.typed, chance):
        figures.typed += 1
        if edits := missing_imports(question, file.table).edits:
            figures.offers += 1
            if options.show:
                print(f"{file.language} offered: {file.path}: {word}: {edits[0].text!r}")
    figures.ms = median(times) if times else 0.0
    return figures


def _family(language: str) -> str:
    return {"typescriptreact": "typescript", "javascriptreact": "javascript", "c": "cpp"}.get(language, language)


def _files(root: Path) -> Iterator[CodeFile]:
    tables, found = defaultdict[str, ImportTable](ImportTable), list[CodeFile]()
    for path in sorted(root.rglob("*")):
        inside = path.relative_to(root)
        syntax = syntax_of_file(inside.as_posix())
        if syntax is None or not SKIPPED.isdisjoint(inside.parts) or not path.is_file() or path.is_symlink():
            continue
        if path.stat().st_size > MOST_BYTES:
            continue
        try:
            text = path.read_text(encoding="utf-8").replace("\r\n", "\n")
        except UnicodeDecodeError:
            continue
        table = tables[syntax.name]
        table.put(inside.as_posix(), syntax.facts(text, inside.as_posix()))
        if (language := language_of(path)) in syntax.languages:
            found.append(CodeFile(inside.as_posix(), text, language, table))
    yield from found


def _removed(
    files: Sequence[CodeFile], places: int, chance: random.Random
) -> Iterator[tuple[CodeFile, BoundName, EditQuestion, ImportSyntax]]:
    """Files without one import, with a line typed that needs it."""
    left = places
    for _ in range(places * _TRIES):
        file = chance.choice(files)
        syntax = syntax_of(file.language)
        if left and syntax is not None and (made := _without(file, syntax, chance)) is not None:
            left -= 1
            yield file, made[0], made[1], syntax


def _without(file: CodeFile, syntax: ImportSyntax, chance: random.Random) -> tuple[BoundName, EditQuestion] | None:
    text = file.text
    lines = [line for line in code_statements(syntax, text, file.language) if not line.guarded]
    if isinstance(syntax, WholeFileImports):
        lines = [replace(line, names=_given(file, line, syntax)) for line in lines]
    lines = [line for line in lines if line.names]
    lines = [line for line in lines if not line.form.startswith("pub") and not line.everything]
    if not lines:
        return None
    line = chance.choice(lines)
    name = chance.choice(line.names)
    if (edit := without_name(text, line, name)) is None:
        return None
    rest = apply(text, [edit])
    if name.name in {one.name for other in syntax.statements(rest) for one in other.names}:
        return None
    quoted = quoting(rest, file.language)
    found = (one.start() for one in re.finditer(rf"(?<![\w$.]){re.escape(name.name)}(?![\w$])", rest))
    uses = (at for at in found if not quoted(at) and _uses(syntax, rest, at, name.name))
    spans = [(one.start, one.end) for one in syntax.statements(rest)]
    if (use := next((at for at in uses if not any(start <= at < end for start, end in spans)), None)) is None:
        return None
    begin, stop = rest.rfind("\n", 0, use) + 1, rest.find("\n", use)
    typed = rest[begin : stop if stop >= 0 else len(rest)]
    change = Change(file.path, rest.count("\n", 0, begin), "", typed + "\n", "", "")
    return name, _question(file, rest, use + len(name.name) + 1, change)


def _given(file: CodeFile, line: ImportLine, syntax: WholeFileImports) -> tuple[BoundName, ...]:
    """A used name that only the file of an import gives."""
    home, table, text = syntax.file_of(line.source, file.path, file.table), file.table, file.text
    facts = table.facts(home) if home is not None else None
    own = {name for name, _ in facts.defined} if facts is not None else set[str]()
    rest = [(file.path, one.source) for one in syntax.statements(text) if one.source != line.source]
    files, sources = syntax.reached(rest, table)
    if home in files or line.source in sources:
        return ()
    words = dict.fromkeys(re.findall(r"(?<![\w$])[A-Za-z_]\w+", text))
    for word in words:
        if word in own or line.source in syntax.standard.get(word, ()):
            return (BoundName(word, "", line.start, line.end),)
    return ()


def _uses(syntax: ImportSyntax, text: str, at: int, name: str) -> bool:
    start = text.rfind("\n", 0, at) + 1
    stop = text.find("\n", at)
    return syntax.is_use(text[start:at], name, text[at + len(name) : stop if stop >= 0 else len(text)])


def _question(file: CodeFile, text: str, offset: int, change: Change) -> EditQuestion:
    return EditQuestion(1, file.path, file.path, file.language, 1, text, min(offset, len(text)), (change,))


def _is_known(file: CodeFile, name: BoundName) -> bool:
    """Whether another file imports or defines the name."""
    others = [
        *(path for path, _ in file.table.imported(name.name)),
        *(one.path for one in file.table.defined(name.name)),
    ]
    return any(one != file.path for one in (*others, *file.table.using(name.name)))


def _verdict(file: CodeFile, before: str, after: str, syntax: ImportSyntax) -> str:
    if after == before:
        return "silent"
    if after == file.text:
        return "exact"

    def names(text: str) -> set[object]:
        return {(one.name, one.target[:2]) for one in syntax.imported(text, file.path)}

    return "right" if names(after) == names(file.text) else "wrong"


def _typed(
    files: Sequence[CodeFile], count: int, chance: random.Random
) -> Iterator[tuple[CodeFile, str, EditQuestion]]:
    """Names of files that lack no import, each typed in its line."""
    left = count
    for _ in range(count * _TRIES):
        if not left:
            return
        file = chance.choice(files)
        at = chance.randrange(len(file.text) or 1)
        start, stop = file.text.rfind("\n", 0, at) + 1, file.text.find("\n", at)
        line = file.text[start : stop if stop >= 0 else len(file.text)]
        names = list(re.finditer(r"(?<!\w)[^\W\d]\w*", line))
        if not names or len(line) > 300:
            continue
        left -= 1
        name = chance.choice(names)
        old = line[: name.start()] + line[name.end() :]
        change = Change(file.path, file.text.count("\n", 0, start), old + "\n", line + "\n", "", "")
        yield file, name[0], _question(file, file.text, start + name.end() + 1, change)
