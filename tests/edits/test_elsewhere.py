"""Edits of other files from the user's changes, over files in memory."""

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pytest

from fastcoder_lsp.core import Change
from fastcoder_lsp.core.pieces import at_once
from fastcoder_lsp.edits.elsewhere import concerns_others, digest_of, edits_elsewhere
from fastcoder_lsp.edits.minimal import apply
from fastcoder_lsp.edits.values import EditQuestion
from fastcoder_lsp.workspace.languages import language_of

NET = "def {name}(url, time=1):\n    return url\n"


class Files:
    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = texts

    def known(self) -> Collection[str]:
        return self.texts.keys()

    def holding(self, words: Sequence[str], *, partly: bool = False) -> list[str]:
        return [path for path, text in self.texts.items() if all(re.search(rf"\b{one}\b", text) for one in words)]

    def read(self, path: str) -> tuple[str, str] | None:
        return (self.texts[path], language_of(Path(path))) if path in self.texts else None


def changed(path: str, texts: Mapping[str, str], *changes: Change) -> dict[str, str]:
    """The files that change with the user's changes of `path`, as they are then."""
    question = EditQuestion(1, path, path, language_of(Path(path)), 1, texts[path], 0, changes)
    found = at_once(edits_elsewhere(question, Files(texts)))
    assert all(one.digest == digest_of(texts[one.path]) for one in found)
    return {one.path: apply(texts[one.path], one.edits) for one in found}


def renamed(path: str, line: int, old: str, new: str) -> Change:
    return Change(path, line, old + "\n", new + "\n")


LOAD = renamed("src/shop/net.py", 0, "def load(url, time=1):", "def fetch(url, time=1):")


def after_load(path: str, text: str, others: Mapping[str, str] | None = None) -> str:
    """A file after `load` of src/shop/net.py was renamed to `fetch`."""
    files = {"src/shop/__init__.py": "", "src/shop/net.py": NET.format(name="fetch"), **(others or {}), path: text}
    return changed("src/shop/net.py", files, LOAD).get(path, text)


@pytest.mark.parametrize(
    "text",
    [
        "from .net import load\nload(1)\n",
        "from shop.net import (\n    other,  # load\n    load,\n)\n\ndef f():\n    return load\n",
        "from shop.net import load as get\nget(1)\n",
        "import shop.net\nshop.net.load(1)\n",
        "import shop.net as n\nn.load(1)\n",
        "from shop import net\nnet.load(1)\n",
        "from . import net as n, other\nn.load(1)\n",
        "def f():\n    from .net import load\n    return load\n",
        '__all__ = ["load"]\nfrom .net import load\n',
    ],
)
def test_imports_of_a_renamed_definition_follow(text: str) -> None:
    wanted = re.sub(r"(?<!# )\bload\b", "fetch", text)
    assert after_load("src/shop/cart.py", text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "from .disk import load\nload(1)\n",
        "from other.net import load\nload(1)\n",
        "import shop.net\nshop.disk.load(1)\nx.load(2)\n",
        "from .net import *\nload(1)\n",
        "from .net import load\nload = load or 2\n",
        "from .net import load\nfetch = load\n",
        '# from .net import load\n"""\nfrom .net import load\n"""\nload(1)\n',
        "from . import net\nnet = 3\nnet.load(1)\n",
    ],
)
def test_what_may_be_another_thing_stays(text: str) -> None:
    assert after_load("src/shop/cart.py", text) == text


def test_a_name_that_only_other_things_have_stays_beside_the_imported_one() -> None:
    text = "from .net import load\n\ndef f(load):\n    return load(x.load, 'load')\n\nload(load=1)\n"
    wanted = "from .net import fetch\n\ndef f(load):\n    return load(x.load, 'load')\n\nfetch(load=1)\n"
    assert after_load("src/shop/cart.py", text) == wanted


def test_a_module_that_hands_it_on_is_followed() -> None:
    package = {"src/shop/__init__.py": 'from .net import load\n\n__all__ = ["load"]\n'}
    assert after_load("tests/test_net.py", "import shop\n\nshop.load(1)\n", package) == "import shop\n\nshop.fetch(1)\n"


def test_two_modules_of_the_same_name_are_left_alone() -> None:
    text = "from shop.net import load\nload(1)\n"
    assert after_load("tests/test_net.py", text, {"lib/shop/net.py": "def load(): pass\n"}) == text


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("import { load } from './net';\nload(1);\n", "import { fetch } from './net';\nfetch(1);\n"),
        ("import { load as l } from './net.js';\nl(1);\n", "import { fetch as l } from './net.js';\nl(1);\n"),
        ("import * as net from './net';\nnet.load(x.load);\n", "import * as net from './net';\nnet.fetch(x.load);\n"),
        (
            "import { load } from './net';\nexport const all = { load, a: load };\n",
            "import { fetch } from './net';\nexport const all = { load: fetch, a: fetch };\n",
        ),
        ("export { load } from './net';\n", "export { fetch } from './net';\n"),
        ("import { load } from 'net';\nload(1);\n", "import { load } from 'net';\nload(1);\n"),
        ("const net = require('./net');\nnet.load(1);\n", "const net = require('./net');\nnet.fetch(1);\n"),
    ],
)
def test_typescript_follows_relative_imports(text: str, wanted: str) -> None:
    files = {"src/net.ts": "export function fetch(url: string) {}\n", "src/cart.ts": text}
    change = renamed("src/net.ts", 0, "export function load(url: string) {}", "export function fetch(url: string) {}")
    assert changed("src/net.ts", files, change).get("src/cart.ts", text) == wanted


def test_what_is_not_exported_is_no_other_files_business() -> None:
    files = {"net.ts": "function fetch() {}\n", "cart.ts": "import { load } from './net';\nload();\n"}
    assert changed("net.ts", files, renamed("net.ts", 0, "function load() {}", "function fetch() {}")) == {}


GO_RENAMED = renamed("net/a.go", 2, "func Load() {}", "func Fetch() {}")
GO = {
    "go.mod": "module x.org/shop // ours\n\ngo 1.22\n",
    "net/a.go": "package net\n\nfunc Fetch() {}\n",
    "net/b.go": "package net\n\nfunc g() { Load() }\n",
    "net/a_test.go": 'package net_test\n\nimport "x.org/shop/net"\n\nfunc TestA() { net.Load() }\n',
    "net/own_test.go": "package net_test\n\nfunc TestB() { Load() }\n",
    "main.go": 'package main\n\nimport "x.org/shop/net"\n\nfunc main() { net.Load(other.Load) }\n',
    "other.go": 'package main\n\nimport "github.com/x/net"\n\nfunc f() { net.Load() }\n',
    "tail.go": 'package main\n\nimport "other/net"\n\nfunc f() { net.Load() }\n',
    "longer.go": 'package main\n\nimport "y.org/x.org/shop/net"\n\nfunc f() { net.Load() }\n',
    "tool/go.mod": "module x.org/tool\n",
    "tool/main.go": 'package main\n\nimport "x.org/shop/net"\n\nfunc main() { net.Load() }\n',
}


def test_gos_package_and_its_importers_follow() -> None:
    assert changed("net/a.go", GO, GO_RENAMED) == {
        "net/b.go": GO["net/b.go"].replace("Load", "Fetch"),
        "net/a_test.go": GO["net/a_test.go"].replace("Load", "Fetch"),
        "main.go": GO["main.go"].replace("net.Load", "net.Fetch"),
    }


@pytest.mark.parametrize("module", [None, "go 1.22\n", "module x.org/other\n"])
def test_gos_importers_stay_where_no_module_tells_the_packages_path(module: str | None) -> None:
    files = {path: text for path, text in GO.items() if path != "go.mod"}
    files |= {"go.mod": module} if module is not None else {}
    assert set(changed("net/a.go", files, GO_RENAMED)) == {"net/b.go"}


def test_a_renamed_parameter_follows_where_calls_name_it() -> None:
    files = {
        "net.py": "def load(url, wait=1):\n    return url\n\n\n"
        "class Net:\n    def __init__(self, wait):\n        pass\n\n"
        "    def get(self, wait): pass\n\nload(1, time=2)\n",
        "cart.py": "from net import load, Net\nload(f(time=1), time=load(2, time=3))\nNet(time=1).get(time=2)\n",
    }
    changes = [
        renamed("net.py", 0, "def load(url, time=1):", "def load(url, wait=1):"),
        renamed("net.py", 5, "    def __init__(self, time):", "    def __init__(self, wait):"),
        renamed("net.py", 8, "    def get(self, time): pass", "    def get(self, wait): pass"),
    ]
    assert changed("net.py", files, *changes) == {
        "net.py": files["net.py"].replace("load(1, time=2)", "load(1, wait=2)"),
        "cart.py": "from net import load, Net\nload(f(time=1), wait=load(2, wait=3))\nNet(wait=1).get(time=2)\n",
    }


LOG, SAY = "    log.info(name, job.id)", "    log.say(name, job.id)"
TWICE = [renamed("src/a.py", 1, LOG, SAY), renamed("src/b.py", 1, LOG, SAY)]
HEAD = "def f(name, job):\n"


def repeated(path: str, line: str, changes: Sequence[Change] = TWICE) -> bool:
    """Whether a change of two files is offered in a third one with this line."""
    files = {"src/a.py": f"{HEAD}{SAY}\n", "src/b.py": f"{HEAD}{SAY}\n", path: f"{HEAD}{line}\n"}
    return path in changed("src/b.py", files, *changes)


def test_a_change_of_two_files_is_offered_in_a_third_one() -> None:
    assert repeated("src/c.py", LOG)
    assert repeated("src/c.py", LOG.replace("id)", "id, 2)"))
    assert not repeated("src/c.py", "    other.info(1)")
    assert not repeated("tests/c.py", LOG), "tests are another matter"
    assert not repeated("src/c.ts", LOG)


def test_a_change_of_one_file_is_offered_at_the_same_line_alone() -> None:
    changes = [renamed("src/b.py", 1, LOG, SAY), renamed("src/b.py", 1, LOG, SAY)]
    assert repeated("src/c.py", LOG, changes)
    assert not repeated("src/c.py", LOG.replace("id)", "id, 2)"), changes)


def test_a_change_made_once_concerns_no_other_file() -> None:
    assert not concerns_others([Change("a.py", 0, "", "x = 1\n")])
    assert not concerns_others([Change("a.py", 0, "x = 1\n", "x = 1 + 1\n")])
    assert concerns_others([LOAD])
    assert not repeated("src/c.py", LOG, TWICE[:1])
