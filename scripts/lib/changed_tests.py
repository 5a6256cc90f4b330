"""Which test files a change may have broken: those that reach a changed file by imports, or by naming it.

    changed_tests.py [REVISION]
    changed_tests.py --untouched

Prints a path a line: `tests` where everything counts, nothing where nothing does. What changed is the difference from
REVISION to the files as they are, uncommitted and new ones too; by default from where this branch left its upstream.
With `--untouched`, the folders of tests of the heart's neighbours in which nothing changed, and whose own tests the
default run leaves out.

Imports are followed through the product and the tests alike, those inside functions too. Many tests start programs and
read files, which no import shows: a module or a file counts as reached by whoever writes its name. Too many tests may
come out of it, too few should not.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = "fastcoder_lsp"
EVERYTHING: Final = (
    *("pyproject.toml", "constraints.txt", "scripts/test", "scripts/lib/setup.sh"),
    *("tests/conftest.py", "tests/groups.py", "tests/side_by_side.py"),
)
NEIGHBOURS: Final = ("papers", "torch_engines", "team")
FOLDERS: Final = {"editors/": "tests/editors"}
"""Files that are no modules → the tests that are about them, named or not."""
MODULE_NAME: Final = re.compile(rf"\b(?:{PACKAGE}|benchmarks|tests|scripts)(?:\.\w+)+")


def changed_files(root: Path, revision: str | None = None) -> tuple[str, ...]:
    """Paths below `root` that differ from a revision, those that git does not know yet included; `/` between names."""
    start = revision or _left_upstream(root)
    tracked = _git(root, "diff", "--name-only", "--no-renames", "-z", start, "--").split("\0")
    new = _git(root, "ls-files", "--others", "--exclude-standard", "-z").split("\0")
    return tuple(sorted({name for name in (*tracked, *new) if name}))


def affected_tests(root: Path, changed: Iterable[str]) -> tuple[str, ...]:
    """The test files below `root` that a change of these files may have broken, or `tests` for all."""
    names = tuple(changed)
    if any(name in EVERYTHING for name in names):
        return ("tests",)
    modules = {module_name(path.relative_to(root)): path for path in _python_files(root)}
    texts = {module: path.read_text(encoding="utf-8") for module, path in modules.items()}
    texts |= dict.fromkeys({module_name(Path(name)) for name in names if name.endswith(".py")} - texts.keys(), "")
    users = _users(texts)
    begun = {module for name in names for module in _touched(name, texts)}
    files = (modules[module].relative_to(root).as_posix() for module in _downstream(begun, users) & modules.keys())
    return tuple(sorted(name for name in files if _is_test(name)))


def untouched(changed: Iterable[str]) -> tuple[str, ...]:
    """The folders of tests of the neighbours in which nothing changed, nor in their tests."""
    parts = {tuple(name.split("/")[:2]) for name in changed}
    return tuple(f"tests/{one}" for one in NEIGHBOURS if not {(PACKAGE, one), ("tests", one)} & parts)


def module_name(path: Path) -> str:
    """`tests/lsp/test_wire.py` → `tests.lsp.test_wire`; a package by its own name."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _touched(name: str, texts: dict[str, str]) -> set[str]:
    """The modules that a changed file is, lies beside, or is named by."""
    folder, _, file = name.rpartition("/")
    module = module_name(Path(name))
    if file == "conftest.py":
        return _below(folder, texts)
    if file.endswith(".py") and module in texts:
        return {module}
    found = {known for prefix, tests in FOLDERS.items() if name.startswith(prefix) for known in _below(tests, texts)}
    if folder.startswith(("tests/", "benchmarks", PACKAGE)):
        found |= next(below for known in _upwards(folder) if (below := _below(known, texts)))
    return found | {known for known, text in texts.items() if known.startswith("tests.") and file in text}


def _users(texts: dict[str, str]) -> dict[str, set[str]]:
    """Module → those that import it, write its name, or have fixtures from it."""
    users: dict[str, set[str]] = {module: set() for module in texts}
    for module, text in texts.items():
        for folder in _upwards(module):
            if folder != "tests" and (fixtures := f"{folder}.conftest") in users:
                users[fixtures].add(module)
        for name in {*MODULE_NAME.findall(text), *_imports(text)}:
            used = next((known for known in _upwards(name) if known in texts), None)
            if used is not None:
                users[used].add(module)
    return users


def _downstream(begun: set[str], users: dict[str, set[str]]) -> set[str]:
    """These modules, and all that use them, directly or not."""
    reached, waiting = set(begun), list(begun)
    while waiting:
        new = users[waiting.pop()] - reached
        reached |= new
        waiting += new
    return reached


def _imports(text: str) -> Iterator[str]:
    """Full names of what a module imports; `from package import name` as both."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _upwards(name: str) -> Iterator[str]:
    """A name in dots or slashes, in dots; then those of the packages that it lies in."""
    parts = name.replace("/", ".").split(".")
    for end in range(len(parts), 0, -1):
        yield ".".join(parts[:end])


def _below(folder: str, texts: dict[str, str]) -> set[str]:
    """The modules in a folder and in those below it."""
    return {module for module in texts if f"{module}.".startswith(folder.replace("/", ".") + ".")}


def _is_test(name: str) -> bool:
    return name.startswith("tests/") and name.rpartition("/")[2].startswith("test_")


def _python_files(root: Path) -> Iterator[Path]:
    for folder in (PACKAGE, "benchmarks", "tests", "scripts"):
        yield from (path for path in (root / folder).rglob("*.py") if "__pycache__" not in path.parts)


def _left_upstream(root: Path) -> str:
    """Where this branch left what it follows; its last commit, where it follows nothing."""
    for upstream in ("@{upstream}", "origin/HEAD"):
        try:
            return _git(root, "merge-base", "HEAD", upstream).strip()
        except subprocess.CalledProcessError:
            continue
    return "HEAD"


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def main() -> int:
    """0; 2 for a revision that there is not."""
    asked = sys.argv[1:2]
    try:
        changed = changed_files(ROOT, *(asked if asked != ["--untouched"] else ()))
    except subprocess.CalledProcessError as error:
        sys.stderr.write(error.stderr)
        return 2
    for name in untouched(changed) if asked == ["--untouched"] else affected_tests(ROOT, changed):
        print(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
