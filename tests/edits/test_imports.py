"""Missing imports: real tables of small repositories, and the text after the offer."""

from collections.abc import Mapping, Sequence
from pathlib import PurePath

import pytest

from fastcoder_lsp.core import Change
from fastcoder_lsp.edits.imports.languages import syntax_of, syntax_of_file
from fastcoder_lsp.edits.imports.missing import missing_imports
from fastcoder_lsp.edits.imports.table import ImportTable
from fastcoder_lsp.edits.imports.unused import unused_imports
from fastcoder_lsp.edits.minimal import apply
from fastcoder_lsp.edits.values import EditQuestion
from fastcoder_lsp.workspace.languages import language_of

MONEY = "def format_money(amount):\n    return amount\n\n\nclass Price:\n    pass\n"
PYTHON = {
    "shop/__init__.py": "",
    "shop/money.py": MONEY,
    "shop/cart.py": "import json\n\nimport numpy as np\n\nfrom shop.money import Price, format_money\n",
    "shop/tax.py": "import json\n\nimport numpy as np\n\nfrom shop.money import Price, format_money\n",
}
SINGLE = {
    "shop/money.py": MONEY,
    "shop/cart.py": "from shop.money import Price\nfrom shop.money import format_money\n",
    "shop/tax.py": "from typing import Any, Final\n\nfrom shop.money import Price\nfrom shop.money import Tax\n",
    "far/a.py": "from shop.money import Price, format_money\n",
    "far/b.py": "from shop.money import Price, format_money\n",
}
"""As isort's `force_single_line` writes imports."""
FLAT = {"util.py": "def shared_thing():\n    pass\n\n\nclass Conf:\n    pass\n", "main.py": "from util import Conf\n"}
"""Scripts, without a package."""
PLUGIN = {
    "plugins/foo/__init__.py": "",
    "plugins/foo/a.py": "from .money import Price\n",
    "plugins/foo/money.py": MONEY,
}
SETUP = {
    "setup.py": "def build_it(): pass\n",
    "tests/__init__.py": "",
    "tests/test_a.py": "def tests_helper(): pass\n",
    "tests/conftest.py": "def fixture_one(): pass\n",
    "docs/conf.py": "def setup_docs(): pass\n",
    "my-scripts/tool.py": "def run_tool(): pass\n",
    "proj/__init__.py": "",
    "proj/class.py": "def run_keyword(): pass\n",
    "proj/migrations/__init__.py": "",
    "proj/migrations/0001_init.py": "def forwards(): pass\n",
    "proj/deep/__init__.py": "",
    "proj/money.py": MONEY,
    "app/side.py": "def run_side(): pass\n",
    "app/main.py": "from app.other import x\n",
}
GUARDED = {
    "m/__init__.py": "",
    "m/order.py": "from m.user import User\n\n\nclass Order:\n    pass\n\n\nclass Item:\n    pass\n",
    **dict.fromkeys(
        ("m/pay.py", "m/ship.py"),
        "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from m.order import Order\n",
    ),
}
"""An import at run time is circular."""
GUARD = "from __future__ import annotations\n\nfrom typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n"
SCRIPT = {
    "src/dates.ts": "export function formatDay(d: Date) {}\nexport type Day = string;\nexport default class Clock {}\n",
    "src/list.ts": "import Clock, { formatDay } from './dates';\nimport type { Day } from './dates';\n",
    "src/lib/row.ts": "import { formatDay } from '../dates';\nimport type { Day } from '../dates';\n",
    "src/api.js": "const fs = require('fs');\nconst { join } = require('path');\n",
    "src/old.js": "const fs = require('fs');\nconst { join } = require('path');\n",
}
GO = {
    "go.mod": "module example.com/shop\n",
    "money/money.go": "package money\n\nfunc Format() {}\n",
    "a.go": 'package shop\n\nimport (\n\t"fmt"\n\t"strings"\n\n\tyml "gopkg.in/yaml.v3"\n)\n',
}
GO_PARTS = {
    "go.mod": "module example.com/shop\n",
    "a.go": 'package shop\n\nimport (\n\t"fmt"\n\t"example.com/shop/money"\n)\n',
    "b.go": 'package shop\n\nimport (\n\t"fmt"\n\t"example.com/shop/money"\n)\n\nvar x, y = 1, 2\n',
    "money/money.go": "package money\n\nfunc Format() {}\n\nfunc hidden() {}\n",
    "srv/srv.go": "package srv\n\nvar (\n\tcache, money *lru.Cache\n)\n\ntype S struct {\n\tfmt int\n}\n",
    "srv/internal/secret/secret.go": "package secret\n\nfunc Get() {}\n",
    "cache/cache.go": "package cache\n\nfunc New() {}\n",
}
GO_UNSEEN = {
    "go.mod": "module example.com/shop\n",
    "vendor/v.org/v/v.go": "package vend\n\nfunc V() {}\n",
    "testdata/td/t.go": "package td\n\nfunc T() {}\n",
    "_g/g.go": "package gen\n\nfunc G() {}\n",
    "money/money.go": "package money\n\nfunc Format() {}\n",
    "money/a_test.go": "package money\n\nfunc Helper() {}\n",
}
RUST = {
    "src/lib.rs": "mod money;\nmod cart;\n",
    "src/money.rs": "pub struct Price;\npub fn format_money() {}\n",
    "src/cart.rs": "use std::collections::HashMap;\n\nuse crate::money::{format_money, Price};\n",
    "src/tax.rs": "use std::collections::HashMap;\n\nuse crate::money::{format_money, Price};\n",
}
SERDE = {"src/b.rs": "use serde::{Deserialize, Serialize};\n", "src/c.rs": "use serde::Serialize;\n"}
JAVA = {
    "src/shop/money/Price.java": "package shop.money;\n\npublic class Price {}\n",
    "src/shop/Cart.java": "package shop;\n\nimport java.util.List;\nimport shop.money.Price;\n\nclass Cart {}\n",
    "src/shop/Tax.java": "package shop;\n\nimport java.util.List;\nimport java.util.Map;\n\nclass Tax {}\n",
}
STATIC = {
    "src/shop/A.java": "package shop;\n\nimport a.B;\nimport static org.junit.Assert.assertEquals;\n\nclass A {}\n",
    "src/shop/C.java": "package shop;\n\nimport a.B;\n\nimport static org.junit.Assert.assertEquals;\n\nclass C {}\n",
    "src/tax/A.java": "package tax;\n\nimport static org.junit.Assert.assertEquals;\n\nimport a.B;\n\nclass A {}\n",
    "src/tax/Rate.java": "package tax;\n\nclass Rate {}\n\nclass Rates {}\n",
}
KOTLIN = {
    "a/Price.kt": "package shop.money\n\ndata class Price(val cents: Int)\n",
    "a/Cart.kt": "package shop\n\nimport shop.money.Price\nimport java.io.File\n\nclass Cart\n",
    "a/Tax.kt": "package shop\n\nimport java.io.File\n",
}
PHP = {
    "src/Money/Price.php": "<?php\n\nnamespace Shop\\Money;\n\nfinal class Price {}\n",
    "src/Cart.php": "<?php\n\nnamespace Shop;\n\nuse Psr\\Log\\LoggerInterface;\n\nclass Cart {}\n",
    "src/Tax.php": "<?php\n\nnamespace Shop;\n\nuse Psr\\Log\\LoggerInterface;\n\nclass Tax {}\n",
}
C = {
    "util.h": "#ifndef UTIL_H\n#define UTIL_H\nint clamp_to(int value, int low);\n#define MOST 9\n#endif\n",
    "all.h": '#include "util.h"\n',
    "a.c": '#include <stdio.h>\n#include <string.h>\n\n#include "util.h"\n\nint a(void) { return (int)strlen("a"); }\n',
}
CPP = {
    "src/shop/price.h": "#pragma once\nnamespace shop {\nclass Price {\n};\n}\n",
    "src/shop/cart.cc": '#include <vector>\n\n#include "shop/price.h"\n\nstd::vector<int> x;\n',
}
RUBY = {
    "lib/money.rb": "module Shop\n  class Money\n  end\nend\n",
    "lib/cart.rb": "require 'json'\nrequire_relative 'money'\n\nJSON.parse(Money.new.to_s)\n",
}


QUOTED = {
    "a.py": "X = '''\nfrom ghost import phantom\ndef in_text(): pass\n'''\n",
    "a.ts": "const a = `\nexport function inText() {}\n`;\n/*\nexport const phantom = 1;\n*/\n",
    "b.go": 'package a\n\nvar q = `\nimport "ghost/phantom"\n`\n',
    "c.go": 'package a\n\n/*\nimport "ghost/phantom"\n*/\n',
    "src/a.rs": '/*\npub struct Phantom;\n*/\nconst S: &str = r#"\npub struct InText;\n"#;\n',
    "src/lib.rs": "mod a;\n",
}
"""Code in comments and strings."""
TEST_HELP = {
    "src/a.test.ts": "export function testHelp() {}\n",
    "src/test/T.java": "package t;\n\npublic class Help {}\n",
}


def table_of(files: Mapping[str, str]) -> ImportTable:
    table = ImportTable()
    for path, text in files.items():
        syntax = syntax_of_file(path)
        assert syntax is not None
        table.put(path, syntax.facts(text, path))
    return table


def question_of(path: str, text: str, old: Sequence[str] = (), *, offset: int | None = None) -> EditQuestion:
    """The user replaced each of the lines `old`, or wrote the last line of the text."""
    lines = text.splitlines(keepends=True)
    change = Change(path, len(lines) - 1, "", lines[-1]) if not old else Change(path, 0, "".join(old), "")
    at = len(text) if offset is None else offset
    return EditQuestion(1, path, path, language_of_path(path), 1, text, at, (change,))


def language_of_path(path: str) -> str:
    return language_of(PurePath(path))


def offered(files: Mapping[str, str], path: str, text: str) -> str | None:
    question = question_of(path, text)
    edits = missing_imports(question, table_of({**files, path: text})).edits
    return apply(text, edits) if edits else None


@pytest.mark.parametrize(
    ("files", "path", "text", "head"),
    [
        # groups, and a group of its own
        (PYTHON, "shop/a.py", "import os\n\nx = Price()\n", "import os\n\nfrom shop.money import Price\n\nx"),
        (PYTHON, "shop/a.py", "import os\nimport re\n\njson.dumps(1)\n", "import json\nimport os\nimport re\n\njson"),
        (
            PYTHON,
            "shop/a.py",
            "import os\n\nimport pytest\n\nfrom shop import b\n\nnp.ones(1)\n",
            "import os\n\nimport numpy as np\nimport pytest\n\nfrom shop import b\n\n",
        ),
        # a longer list
        (
            PYTHON,
            "shop/a.py",
            "from shop.money import Price\n\nformat_money(Price())\n",
            "from shop.money import Price, format_money\n\n",
        ),
        (
            PYTHON,
            "shop/a.py",
            "from shop.money import (\n    Amount,\n    round_up,\n)\n\nPrice()\n",
            "from shop.money import (\n    Amount,\n    Price,\n    round_up,\n)\n\n",
        ),
        # one name in each statement, as the file or else its neighbours have it
        (
            SINGLE,
            "shop/a.py",
            "from shop.money import Price\n\nformat_money(Price())\n",
            "from shop.money import Price\nfrom shop.money import format_money\n\n",
        ),
        (
            PYTHON,
            "shop/a.py",
            "from a import b\nfrom a import c\n\nfrom shop.money import Price\n\nformat_money(Price())\n",
            "from a import b\nfrom a import c\n\nfrom shop.money import Price\nfrom shop.money import format_money\n\n",
        ),
        (
            SINGLE,
            "shop/a.py",
            "from shop.money import Amount\n\nx = format_money(Price())\n",
            "from shop.money import Amount\nfrom shop.money import Price\nfrom shop.money import format_money\n\n",
        ),
        (
            SINGLE,
            "far/c.py",
            "from shop.money import Price\n\nformat_money(1)\n",
            "from shop.money import Price, format_money\n",
        ),
        (
            SINGLE,
            "shop/a.py",
            "from typing import Any, Protocol\n\nx: Final = 1\n",
            "from typing import Any, Final, Protocol\n",
        ),
        # what a file exports
        (PYTHON, "shop/__init__.py", '__all__ = ["Price"]\n', "from shop.money import Price\n\n__all__"),
        (
            PYTHON,
            "shop/__init__.py",
            "from .money import Price\n\n__all__ = ['Price', 'format_money']\n",
            "from .money import Price, format_money\n\n",
        ),
        # as the file's own imports say it
        (PYTHON, "shop/a.py", "from . import b\n\nPrice()\n", "from . import b\nfrom .money import Price\n\n"),
        # a script imports from the one beside it by its name
        (FLAT, "run.py", "import os\n\nshared_thing()\n", "import os\n\nfrom util import shared_thing\n\n"),
        (FLAT, "run.py", "from util import Conf\n\nshared_thing()\n", "from util import Conf, shared_thing\n\n"),
        (
            {"scripts/util.py": FLAT["util.py"], "scripts/b.py": "import os\n"},
            "scripts/run.py",
            "import os\n\nshared_thing()\n",
            "import os\n\nfrom util import shared_thing\n\n",
        ),
        (SETUP, "proj/deep/a.py", "from .. import b\n\nPrice()\n", "from .. import b\nfrom ..money import Price\n\n"),
        (SETUP, "proj/deep/a.py", "Price()\n", "from proj.money import Price\n\n"),
        # as the others, below `if TYPE_CHECKING`
        (
            GUARDED,
            "m/user.py",
            f"{GUARD}    from m.pay import pay\n\n\ndef f(o: Order) -> None: ...\n",
            f"{GUARD}    from m.order import Order\n    from m.pay import pay\n\n\n",
        ),
        (
            GUARDED,
            "m/user.py",
            f"{GUARD}    from m.order import Item\n\n\ndef f(o: Order) -> None: ...\n",
            f"{GUARD}    from m.order import Item, Order\n\n\n",
        ),
        (
            {"src/foo/__init__.py": "", "src/foo/a.py": "from .b import Price\n", "src/foo/b.py": MONEY},
            "tests/a.py",
            "Price()\n",
            "from foo.b import Price\n\n",
        ),
        # after a docstring, and several at once
        (
            PYTHON,
            "shop/a.py",
            '"""Prices."""\n\nx = json.dumps(format_money(Price()))\n',
            '"""Prices."""\n\nimport json\n\nfrom shop.money import Price, format_money\n\n',
        ),
        (PYTHON, "shop/a.py", "'Prices' ' of shops'\n\njson.x\n", "'Prices' ' of shops'\n\nimport json\n\n"),
        (PYTHON, "shop/a.py", '"""A.\n\nB.\n"""; y = 1\n\njson.x\n', '"""A.\n\nB.\n"""; y = 1\n\nimport json\n\n'),
        (PYTHON, "shop/a.py", "'Prices'  # noqa\n\njson.x\n", "'Prices'  # noqa\n\nimport json\n\n"),
        # below guarded imports there is no place
        (
            PYTHON,
            "shop/a.py",
            "import os\n\ntry:\n    import yaml\nexcept ImportError:\n    yaml = None\n\nPrice()\n",
            "import os\n\nfrom shop.money import Price\n\ntry:\n    import yaml\n",
        ),
        (
            SCRIPT,
            "src/page.ts",
            "import { api } from './api';\n\nformatDay(api());\n",
            "import { api } from './api';\nimport { formatDay } from './dates';\n\n",
        ),
        (
            SCRIPT,
            "src/lib/page.ts",
            "import { b } from '../b';\n\nconst x: Day = b;\n",
            "import { b } from '../b';\nimport type { Day } from '../dates';\n\n",
        ),
        (
            SCRIPT,
            "src/page.ts",
            'import { other } from "./dates"\n\nformatDay(other)\n',
            'import { formatDay, other } from "./dates"\n\n',
        ),
        (SCRIPT, "src/page.ts", "new Clock();\n", "import Clock from './dates';\n\nnew Clock();\n"),
        (
            SCRIPT,
            "src/page.js",
            "const os = require('os');\n\nfs.read(join('a'));\n",
            "const fs = require('fs');\nconst os = require('os');\nconst { join } = require('path');\n\n",
        ),
        # a type, as the file and else the others import types
        (
            {**SCRIPT, "src/spans.ts": "export interface Span {}\n"},
            "src/page.ts",
            "let a: Span;\n",
            "import type { Span } from './spans';\n\n",
        ),
        (
            {**SCRIPT, "src/spans.ts": "export type Span = 1\n", "src/b.ts": "import { Day } from './dates';\n"},
            "src/page.ts",
            "let a: Span;\n",
            "import { Span } from './spans';\n\n",
        ),
        (
            SCRIPT,
            "src/page.ts",
            "import { type Other } from './dates';\n\nlet a: Day;\n",
            "import { type Day, type Other } from './dates';\n\n",
        ),
        (
            {"src/a.ts": SCRIPT["src/dates.ts"], "src/b.ts": "import { type Day } from './a';\n"},
            "src/page.ts",
            "let a: Day;\n",
            "import { type Day } from './a';\n\n",
        ),
        (
            {"src/a.ts": "export class Clock {}\n", "src/b.ts": "import type { Clock } from './a';\n"},
            "src/page.ts",
            "let a: Clock = new Clock();\n",
            "import { Clock } from './a';\n\n",
        ),
        # below what runs first
        (
            SCRIPT,
            "src/page.ts",
            "import './polyfill';\n\nformatDay(1);\n",
            "import './polyfill';\nimport { formatDay } from './dates';\n\n",
        ),
        (
            SCRIPT,
            "src/page.ts",
            "import './polyfill';\nimport x from 'x';\n\nformatDay(1);\n",
            "import './polyfill';\nimport x from 'x';\nimport { formatDay } from './dates';\n\n",
        ),
        (
            SCRIPT,
            "src/page.ts",
            "import 'reflect-metadata';\nimport { a } from './zoo';\n\nformatDay(1);\n",
            "import 'reflect-metadata';\nimport { formatDay } from './dates';\nimport { a } from './zoo';\n\n",
        ),
        (
            SCRIPT,
            "src/page.ts",
            "import { a } from './dates';\nimport './run';\n\nformatDay(1);\n",
            "import { a, formatDay } from './dates';\nimport './run';\n\n",
        ),
        (
            SCRIPT,
            "src/page.ts",
            "import { a } from './zoo';\nimport './page.css';\n\nformatDay(1);\n",
            "import { formatDay } from './dates';\nimport { a } from './zoo';\nimport './page.css';\n\n",
        ),
        (
            SCRIPT,
            "src/page.ts",
            "const page = `\nimport './a';\n`;\nformatDay(page);\n",
            "import { formatDay } from './dates';\n\nconst page",
        ),
        (
            SCRIPT,
            "src/page.ts",
            "'use client';\n\nformatDay(1);\n",
            "'use client';\n\nimport { formatDay } from './dates';\n\n",
        ),
        (SCRIPT, "src/page.ts", "#!/usr/bin/env node\nformatDay(1);\n", "#!/usr/bin/env node\nimport { formatDay }"),
        (
            RUST,
            "src/a.rs",
            "#!/usr/bin/env run\nfn f(a: Price) {}\n",
            "#!/usr/bin/env run\nuse crate::money::Price;\n\n",
        ),
        (
            PHP,
            "src/x.php",
            "#!/usr/bin/php\n<?php\n\nnew Price();\n",
            "#!/usr/bin/php\n<?php\n\nuse Shop\\Money\\Price;\n\n",
        ),
        # a comment stays with its code, unless it is the file's
        (
            SCRIPT,
            "src/page.ts",
            "/**\n * A.\n */\nfunction a() { formatDay(1); }\n",
            "import { formatDay } from './dates';\n\n/**",
        ),
        (
            SCRIPT,
            "src/page.ts",
            "// @ts-check\nformatDay(1);\n",
            "// @ts-check\nimport { formatDay } from './dates';\n\n",
        ),
        (PYTHON, "shop/a.py", "# A.\ndef f(): json.x\n", "import json\n\n\n# A.\n"),
        (PYTHON, "shop/a.py", "# License: A\ndef f(): json.x\n", "# License: A\n\nimport json\n\n\ndef"),
        (PYTHON, "shop/a.py", "'''A\n\n# b\n'''\n# A.\njson.x\n", "'''A\n\n# b\n'''\n\nimport json\n\n# A.\n"),
        (C, "b.c", "/*\n  Adds.\n*/\nint b(void) { return MOST; }\n", '#include "util.h"\n\n/*\n  Adds.\n'),
        (C, "b.c", "/* License */\n\nint b(void) { return MOST; }\n", '/* License */\n\n#include "util.h"\n\nint'),
        (RUBY, "lib/tax.rb", "# A.\nclass A; x = Money.new; end\n", "require_relative 'money'\n\n# A.\n"),
        (
            PHP,
            "src/x.php",
            "<?php\n\n/** A. */\nclass A extends Price {}\n",
            "<?php\n\nuse Shop\\Money\\Price;\n\n/** A",
        ),
        (
            RUST,
            "src/a.rs",
            "#![allow(x)]\n// A.\nfn f(a: Price) {}\n",
            "#![allow(x)]\nuse crate::money::Price;\n\n// A.\n",
        ),
        # the first import of a name, as neighbours write sources
        (PLUGIN, "plugins/foo/b.py", "format_money(1)\n", "from .money import format_money\n\n"),
        (TEST_HELP, "src/b.test.ts", "testHelp();\n", "import { testHelp } from './a.test';\n\n"),
        # a comment stays with its name
        (
            SCRIPT,
            "src/page.ts",
            "import {\n  a, // a\n  b // b\n} from './dates';\n\nformatDay(1);\n",
            "import {\n  a, // a\n  b, // b\n  formatDay\n} from './dates';\n\n",
        ),
        (
            GO,
            "b.go",
            'package shop\n\nimport (\n\t"fmt"\n\t"time"\n)\n\nvar x = strings.ToLower(fmt.Sprint(time.Now()))\n',
            'package shop\n\nimport (\n\t"fmt"\n\t"strings"\n\t"time"\n)\n\n',
        ),
        (
            GO,
            "b.go",
            'package shop\n\nimport "fmt"\n\nvar x = strings.ToLower(fmt.Sprint(1))\n',
            'package shop\n\nimport (\n\t"fmt"\n\t"strings"\n)\n\n',
        ),
        (
            GO,
            "b.go",
            'package shop\n\nimport (\n\t"fmt"\n)\n\nvar x = money.Format(fmt.Sprint(1))\n',
            'package shop\n\nimport (\n\t"fmt"\n\n\t"example.com/shop/money"\n)\n\n',
        ),
        (
            GO_PARTS,
            "cmd/main.go",
            "package main\n\nvar x = fmt.Sprint(money.Format(), cache.New())\n",
            'package main\n\nimport (\n\t"fmt"\n\n\t"example.com/shop/cache"\n\t"example.com/shop/money"\n)\n\n',
        ),
        (
            GO_PARTS,
            "money/money_test.go",
            'package money_test\n\nimport "testing"\n\nfunc TestX(t *testing.T) { money.Format() }\n',
            'package money_test\n\nimport (\n\t"testing"\n\n\t"example.com/shop/money"\n)\n\n',
        ),
        (
            GO_PARTS,
            "srv/sub/sub.go",
            "package sub\n\nvar x = secret.Get()\n",
            'package sub\n\nimport "example.com/shop/srv/internal/secret"\n\n',
        ),
        (GO_PARTS, "srv/b.go", "package srv\n\nvar x = fmt.Sprint()\n", 'package srv\n\nimport "fmt"\n\n'),
        (GO, "b.go", "package shop\n\nvar x = yml.Parse()\n", 'package shop\n\nimport yml "gopkg.in/yaml.v3"\n\n'),
        (
            RUST,
            "src/a.rs",
            "use std::fmt;\n\nfn f(a: HashMap<u8, Price>) {}\n",
            "use std::collections::HashMap;\nuse std::fmt;\n\nuse crate::money::Price;\n\n",
        ),
        (
            RUST,
            "src/a.rs",
            "use crate::money::{format_money};\n\nfn f(a: &Price) { format_money() }\n",
            "use crate::money::{format_money, Price};\n\n",
        ),
        # an item with its attributes and doc comment is one
        (
            RUST,
            "src/a.rs",
            '#[cfg(feature = "x")]\nuse std::fmt;\nuse std::io;\n\nfn f(a: HashMap<u8, u8>) {}\n',
            'use std::collections::HashMap;\n#[cfg(feature = "x")]\nuse std::fmt;\nuse std::io;\n',
        ),
        (
            RUST,
            "src/a.rs",
            "use a;\n/// For\n#[cfg(\n    unix\n)]\n#[allow(b)] // no\nuse std::os;\n\nfn f(a: HashMap<u8, A>) {}\n",
            "use a;\nuse std::collections::HashMap;\n/// For\n#[cfg(\n    unix\n)]\n#[allow(b)] // no\nuse",
        ),
        (
            RUST,
            "src/a.rs",
            "#[cfg(unix)]\nuse crate::money::{format_money};\n\nfn f(a: Price) {}\n",
            "#[cfg(unix)]\nuse crate::money::{format_money};\nuse crate::money::Price;\n",
        ),
        (
            RUST,
            "src/a.rs",
            "#[cfg(unix)] use std::fmt;\n\nfn f(a: HashMap<u8, A>) {}\n",
            "use std::collections::HashMap;\n#[cfg(unix)] use std::fmt;\n",
        ),
        (RUST, "src/a.rs", "/// Counts.\nfn f(a: HashMap<u8, u8>) {}\n", "use std::collections::HashMap;\n\n/// C"),
        (
            SERDE,
            "src/a.rs",
            "use serde::Deserialize;\n\n#[derive(Deserialize, Serialize)] struct Row {}\n",
            "use serde::Deserialize;\nuse serde::Serialize;\n\n",
        ),
        # the imports of an inline module
        (
            RUST,
            "src/a.rs",
            "mod tests {\n    use std::io;\n\n    fn f(a: HashMap<u8, Price>) {} }\n",
            "mod tests {\n    use std::collections::HashMap;\n    use std::io;\n\n    use crate::money::Price;\n\n",
        ),
        (
            RUST,
            "src/a.rs",
            "fn f(a: Price) {}\n\nmod b {\n    use super::*;\n    use std::io;\n    fn f(a: HashMap<Price, u8>) {} }\n",
            "use crate::money::Price;\n\nfn f(a: Price) {}\n\nmod b {\n    use super::*;\n    use std::collections::",
        ),
        # cgo reads the comment above its import
        (
            GO,
            "b.go",
            'package shop\n\n/* #include <x.h> */\nimport "C"\n\nvar x = fmt.Sprint(C.x)\n',
            'package shop\n\n/* #include <x.h> */\nimport "C"\n\nimport "fmt"\n\n',
        ),
        (
            GO,
            "b.go",
            'package shop\n\n// #include <x.h>\nimport "C"\nimport "os"\n\nvar x = fmt.Sprint(os.Args)\n',
            'package shop\n\n// #include <x.h>\nimport "C"\nimport (\n\t"fmt"\n\t"os"\n)\n\n',
        ),
        (
            GO,
            "b.go",
            'package shop\n\nimport (\n\t"os"\n)\n\n// #include <x.h>\nimport "C"\n\nvar x = fmt.Sprint(os.Args)\n',
            'package shop\n\nimport (\n\t"fmt"\n\t"os"\n)\n\n// #include <x.h>\nimport "C"\n\n',
        ),
        (
            GO,
            "b.go",
            'package shop\n\nimport (\n\t// #include <x.h>\n\t"C"\n)\n\nvar x = fmt.Sprint(C.x)\n',
            'package shop\n\nimport (\n\t// #include <x.h>\n\t"C"\n)\n\nimport "fmt"\n\n',
        ),
        (
            JAVA,
            "src/shop/Line.java",
            "package shop;\n\nimport java.util.Map;\n\nclass Line { List<Price> prices; }\n",
            "package shop;\n\nimport java.util.List;\nimport java.util.Map;\nimport shop.money.Price;\n\n",
        ),
        # static imports first or last, as neighbours have them
        (
            STATIC,
            "src/shop/X.java",
            "package shop;\n\nimport a.C;\n\nclass X { void f() { assertEquals(1, 1); } }\n",
            "package shop;\n\nimport a.C;\n\nimport static org.junit.Assert.assertEquals;\n\n",
        ),
        (
            STATIC,
            "src/tax/X.java",
            "package tax;\n\nimport a.C;\n\nclass X { void f() { assertEquals(1, 1); } }\n",
            "package tax;\n\nimport static org.junit.Assert.assertEquals;\n\nimport a.C;\n\n",
        ),
        (
            STATIC,
            "src/tax/X.java",
            "package tax;\n\nimport static z.Z.z;\n\nimport a.C;\n\nclass X { void f() { assertEquals(1, 1); } }\n",
            "package tax;\n\nimport static org.junit.Assert.assertEquals;\nimport static z.Z.z;\n\nimport a.C;\n\n",
        ),
        (
            STATIC,
            "src/shop/X.java",
            "package shop;\n\nimport static z.Z.z;\n\nclass X { B b; }\n",
            "package shop;\n\nimport a.B;\n\nimport static z.Z.z;\n\n",
        ),
        (
            KOTLIN,
            "a/Line.kt",
            "package shop\n\nclass Line(val price: Price)\n",
            "package shop\n\nimport shop.money.Price\n\nclass Line",
        ),
        (
            PHP,
            "src/Line.php",
            "<?php\n\nnamespace Shop;\n\nuse Psr\\Http\\Request;\n\nfunction f(LoggerInterface $l): Price {}\n",
            "<?php\n\nnamespace Shop;\n\nuse Psr\\Http\\Request;\nuse Psr\\Log\\LoggerInterface;\nuse Shop\\",
        ),
        (
            C,
            "b.c",
            "#include <stdio.h>\n\nint b(char *s) { return clamp_to(strlen(s), MOST); }\n",
            '#include <stdio.h>\n#include <string.h>\n\n#include "util.h"\n\nint b',
        ),
        (
            CPP,
            "src/shop/tax.cc",
            '#include <string>\n\n#include "shop/cart.h"\n\nstd::vector<Price> prices;\n',
            '#include <string>\n#include <vector>\n\n#include "shop/cart.h"\n#include "shop/price.h"\n\n',
        ),
        (
            RUBY,
            "lib/tax.rb",
            "require 'set'\n\nJSON.dump(Money.new)\n",
            "require 'json'\nrequire 'set'\nrequire_relative 'money'\n\n",
        ),
    ],
)
def test_an_import_comes_to_its_place(files: Mapping[str, str], path: str, text: str, head: str) -> None:
    after = offered(files, path, text)
    assert after is not None
    assert after.startswith(head)
    assert after.endswith(text.splitlines(keepends=True)[-1])


@pytest.mark.parametrize(
    ("files", "path", "text"),
    [
        (PYTHON, "shop/a.py", "def f(json):\n    return json.dumps(1)\n"),
        (PYTHON, "shop/a.py", "x.format_money(1)\n"),
        (PYTHON, "shop/a.py", "f(format_money=1)\n"),
        (PYTHON, "shop/a.py", "x = 'format_money'  # Price\n"),
        (PYTHON, "shop/a.py", "from shop.other import *\n\nformat_money(1)\n"),
        (PYTHON, "shop/a.py", "try:\n    import json\nexcept ImportError:\n    pass\njson.dumps(1)\n"),
        ({**PYTHON, "shop/euro.py": MONEY}, "shop/b.py", "def g():\n    unknown(1)\n"),
        ({"a.py": MONEY, "b.py": MONEY}, "c.py", "format_money(1)\n"),  # two files define it
        # of itself
        (PYTHON, "shop/money.py", "format_money(1)\n"),
        (PLUGIN, "plugins/foo/money.py", "Price()\n"),
        (SCRIPT, "src/dates.ts", "formatDay(1);\n"),
        # what others have in comments and strings, or in tests
        (QUOTED, "b.py", "phantom(in_text())\n"),
        (QUOTED, "b.ts", "phantom(inText());\n"),
        (QUOTED, "d.go", "package a\n\nvar x = phantom.X()\n"),
        (QUOTED, "src/b.rs", "fn f(a: Phantom, b: InText) {}\n"),
        (TEST_HELP, "src/b.ts", "testHelp();\n"),
        (TEST_HELP, "src/main/M.java", "package m;\n\nclass M { Help help; }\n"),
        (GO_UNSEEN, "a.go", "package shop\n\nvar x = vend.V()\n"),
        (GO_UNSEEN, "a.go", "package shop\n\nvar x = td.T()\n"),
        (GO_UNSEEN, "a.go", "package shop\n\nvar x = gen.G()\n"),
        (GO_UNSEEN, "a.go", "package shop\n\nvar x = money.Helper()\n"),
        # circular at run time, evaluated, or without a block
        (GUARDED, "m/user.py", f"{GUARD}    from m.pay import pay\n\n\nx = Order()\n"),
        (GUARDED, "m/user.py", f"{GUARD}    from m.pay import pay\n\n\ndef f(o: Order): return Order\n"),
        (GUARDED, "m/user.py", f"{GUARD[35:]}    from m.pay import pay\n\n\ndef f(o: Order): ...\n"),
        (GUARDED, "m/user.py", "from __future__ import annotations\n\ndef f(o: Order): ...\n"),
        # a module that the file cannot or does not import from
        (SETUP, "proj/a.py", "build_it()\n"),
        (SETUP, "proj/a.py", "tests_helper()\n"),
        (SETUP, "tests/test_b.py", "fixture_one()\n"),
        (SETUP, "proj/a.py", "setup_docs()\n"),
        (SETUP, "proj/a.py", "run_tool()\n"),
        (SETUP, "my-scripts/b.py", "from . import c\n\nbuild_it()\n"),
        (SETUP, "proj/a.py", "run_keyword()\n"),
        (SETUP, "proj/a.py", "forwards()\n"),
        (SETUP, "app/b.py", "run_side()\n"),
        (PLUGIN, "core/a.py", "Price()\n"),
        ({"bin/json.py": FLAT["util.py"]}, "bin/a.py", "shared_thing()\n"),
        ({"bin/util.py": FLAT["util.py"], "bin/b.py": "from util import Conf\n"}, "web/a.py", "Conf()\n"),
        ({"a.py": "import x.util as u\n", "b.py": "import y.util as u\n"}, "c.py", "u.f()\n"),
        (SCRIPT, "src/page.ts", "const x = { formatDay: 1 };\n"),
        (SCRIPT, "src/page.ts", "const formatDay = 1; formatDay();\n"),
        (SCRIPT, "src/page.ts", "export { formatDay } from './dates';\n"),
        (SCRIPT, "src/page.mjs", "fs.read();\n"),
        (SCRIPT, "src/page.mts", "fs.read();\n"),
        (SCRIPT, "src/page.ts", "fs.read();\n"),
        (SCRIPT, "src/page.js", "import a from 'a';\n\nfs.read();\n"),
        (SCRIPT, "src/page.js", "export const a = 1;\nfs.read();\n"),
        (SCRIPT, "src/page.cjs", "formatDay(1);\n"),
        (GO, "b.go", "package shop\n\nfunc f(strings T) { strings.Do() }\n"),
        (GO, "money/b.go", "package money\n\nvar x = money.Format\n"),  # its own package
        (GO_PARTS, "c.go", "package shop\n\nvar x = secret.Get()\n"),  # internal in another tree
        (GO_PARTS, "srv/b.go", "package srv\n\nvar x = cache.New()\n"),  # a variable of the package
        (GO_PARTS, "srv/b.go", "package srv\n\nvar x = money.Format()\n"),
        (GO_PARTS, "cmd/main.go", "package main\n\nvar x = money.Nonexistent()\n"),
        (GO_PARTS, "cmd/main.go", "package main\n\nvar x = money.hidden()\n"),
        (GO_PARTS, "other/a.go", "package other\n\nvar x = y.Format()\n"),
        ({**GO, "c.go": 'package shop\n\nimport "C"\n'}, "b.go", "package shop\n\nvar x = C.x()\n"),
        (RUST, "src/a.rs", "struct Price;\nfn f(p: Price) {}\n"),
        (SERDE, "src/a.rs", "// #[derive(Serialize)]\n"),
        (SERDE, "src/a.rs", "#[derive(serde::Serialize, Clone)] struct A;\n"),
        (SERDE, "src/a.rs", "#[cfg_attr(unix, derive(Serialize))] struct A;\n"),
        (SERDE, "src/a.rs", "trait Serialize {}\n#[derive(Serialize)] struct A;\n"),
        (RUST, "src/a.rs", "#[derive(Price)] struct A;\n"),
        (RUST, "src/a.rs", "use std::fmt;\n\nmod tests {\n    fn f(a: HashMap<u8, u8>) {} }\n"),
        (RUST, "src/a.rs", "mod tests {\n    use b::*;\n    use std::io;\n    fn f(a: HashMap<u8, u8>) {} }\n"),
        ({**RUST, "src/bin/tool.rs": "pub fn run() {}\n"}, "src/a.rs", "fn f() { run() }\n"),  # another crate
        (RUST, "src/bin/tool.rs", "fn f(a: Price) {}\n"),
        (RUST, "src/main.rs", "fn f(a: Price) {}\n"),
        (RUST, "src/a.rs", "mod b { use std::io; fn f(a: Price) {} }\n"),
        (RUST, "src/a.rs", "mod b { fn f(a: Price) {} }\n" * 101),
        (STATIC, "src/shop/X.java", "package shop;\n\nclass X { Rate rate; }\n"),  # only its own package sees it
        (STATIC, "src/tax/X.java", "package tax;\n\nclass X { Rates rates; }\n"),
        (JAVA, "src/shop/X.java", "package shop;\n\nclass X { int f(K k) { switch (k) { case List: } } }\n"),
        (JAVA, "src/shop/X.java", "package shop;\n\nclass X { int f(K k) { switch (k) { case A, List -> 1; } } }\n"),
        (JAVA, "src/shop/Line.java", "package shop;\n\nclass Line { Cart cart; }\n"),  # of its own package
        (JAVA, "src/shop/Line.java", "package shop;\n\nimport java.util.*;\n\nclass Line { List x; }\n"),
        (C, "b.c", '#include "all.h"\n\nint b(int s) { return clamp_to(s, MOST); }\n'),
        (C, "b.c", "static int clamp_to(int a, int b) { return a; }\nint b(int s) { return clamp_to(s, 1); }\n"),
        (C, "b.c", "int clamp_to(int, int);\nint b(int s) { return clamp_to(s, 1); }\n"),
        (CPP, "src/shop/tax.cc", "std::map<int, int> m; // std::vector<int>\n"),
        (RUBY, "lib/tax.rb", "Money = Struct.new(:a)\nMoney.new\n"),
        (RUBY, "lib/tax.rb", "autoload :Money, 'x'\nMoney.new\n"),
        (PHP, "src/x.php", "<?php\n\nenum A { case Price; }\n"),
        (PHP, "src/x.php", "<p>\n<?php new Price(); ?>\n"),
        (RUBY, "lib/tax.rb", "class Money\nend\nMoney.new\n"),
        (PYTHON, "shop/a.py", 'names = ["Price"]\n'),
        (PYTHON, "shop/a.py", '__all__ = ["Price.x"]\n'),
        (PYTHON, "shop/a.py", '__all__ = ["Price"]\n\ndef __getattr__(name): return f(name)\n'),
        (PYTHON, "shop/a.py", 'Price = 1\n__all__ = ["Price"]\n'),
        (RUBY, "lib/tax.rb", "Other::Money.new\n"),
        (PHP, "src/Line.php", "<?php\n\nnamespace Shop;\n\n$x = new \\Psr\\Log\\LoggerInterface();\n"),
    ],
)
def test_nothing_where_nothing_lacks_or_two_answers_are_likely(files: Mapping[str, str], path: str, text: str) -> None:
    assert offered(files, path, text) is None


def test_the_beginning_of_a_longer_name_waits_for_its_end() -> None:
    text = "format_mon"
    files = {**PYTHON, "shop/short.py": "def format_mon():\n    pass\n"}
    table = table_of(files)
    assert not missing_imports(question_of("shop/a.py", text), table).edits
    assert missing_imports(question_of("shop/a.py", text + "()\n"), table).edits


@pytest.mark.parametrize(
    ("files", "path", "text", "rest", "line"),
    [
        (PYTHON, "shop/a.py", "import sys\n\nx = json.dumps(", "\n", "import json\n"),
        (PYTHON, "shop/a.py", "def f():\n    x = [json.dumps(", "\n\ndef g():\n    return 1\n", "import json\n"),
        (SCRIPT, "src/page.ts", "import a from 'a';\n\nformatDay(", "\n", "import { formatDay } from './dates';\n"),
        (SCRIPT, "src/page.ts", "function f() {\n  formatDay(", "\n}\n", "import { formatDay } from './dates';\n"),
        (SCRIPT, "src/page.ts", "const a = new Clock(", "", "import Clock from './dates';\n"),
        (GO_PARTS, "c.go", "package shop\n\nfunc f() {\n\tx(fmt.Println(", "\n}\n", 'import "fmt"\n'),
        (GO_PARTS, "c.go", "package shop\n\nfunc f() {\n\tfmt.Println(", "\n}\n\nfunc g() {\n}\n", 'import "fmt"\n'),
        (
            JAVA,
            "b/X.java",
            "package b;\n\nclass X {\n  void f() { new Price(",
            "\n  }\n}\n",
            "import shop.money.Price;\n",
        ),
        (
            JAVA,
            "b/X.java",
            "package b;\n\nclass X {\n  Price p = new Price(",
            "\n\n  int a;\n}\n",
            "import shop.money.Pr",
        ),
    ],
)
def test_an_open_call_is_a_use(files: Mapping[str, str], path: str, text: str, rest: str, line: str) -> None:
    change = Change(path, text.count("\n"), "", text.splitlines()[-1] + "\n")
    question = EditQuestion(1, path, path, language_of_path(path), 1, text + rest, len(text), (change,))
    edits = missing_imports(question, table_of({**files, path: text})).edits
    assert line in (after := apply(text + rest, edits))
    assert after.endswith(text.splitlines()[-1] + rest)


@pytest.mark.parametrize("text", ["def f(json):\n    json.dumps(", "'json.dumps(", "# json.dumps(", "x.json("])
def test_an_open_call_of_a_bound_name_is_none(text: str) -> None:
    path = "shop/a.py"
    assert not missing_imports(question_of(path, text), table_of({**PYTHON, path: text})).edits


def test_an_edit_is_the_tables_last_word() -> None:
    table = table_of(PYTHON)
    question = question_of("shop/a.py", "format_money(1)\n")
    assert missing_imports(question, table).edits
    for path in table.paths():
        table.drop(path)
    assert not table.knows("format_money")
    assert not missing_imports(question, table).edits


@pytest.mark.parametrize(
    ("path", "text", "old", "after"),
    [
        ("a.py", "import json\nimport os\n\nos.x()\n", "json.dumps(1)\n", "import os\n\nos.x()\n"),
        ("a.py", "from a import b, c\n\nc()\n", "b()\n", "from a import c\n\nc()\n"),
        ("a.py", "from a import (\n    b,\n    c,\n)\n\nb()\n", "c()\n", "from a import (\n    b,\n)\n\nb()\n"),
        ("a.ts", "import { a, b } from './c';\n\na();\n", "b();\n", "import { a } from './c';\n\na();\n"),
        ("a.go", 'package a\n\nimport (\n\t"fmt"\n\t"os"\n)\n\nvar x = os.Args\n', "fmt.Print(x)\n", None),
    ],
)
def test_a_deleted_last_use_takes_its_import_along(path: str, text: str, old: str, after: str | None) -> None:
    edits = unused_imports(question_of(path, text, [old]))
    assert apply(text, edits) == (after or text.replace('\t"fmt"\n', ""))


@pytest.mark.parametrize(
    ("path", "text", "old"),
    [
        ("a.py", "import json\n\njson.x()\n", "json.dumps(1)\n"),  # used elsewhere
        ("a.py", "import json  # noqa: F401\n", "json.dumps(1)\n"),
        ("pkg/__init__.py", "import json\n", "json.dumps(1)\n"),
        ("a.py", "import json\n\n__all__ = ['json']\n", "json.dumps(1)\n"),
        ("a.py", "try:\n    import json\nexcept ImportError:\n    pass\n", "json.dumps(1)\n"),
        ("a.tsx", "import React from 'react';\n\nexport const B = () => <div/>;\n", "React.memo(1)\n"),
        ("a.jsx", "import React from 'react';\n\nexport const B = () => <>a</>;\n", "React.memo(1)\n"),
        ("a.rs", "use std::io::Read;\n", "fn f<R: Read>(r: R) {}\n"),
        ("a.rs", "#[cfg(unix)]\nuse std::fmt;\n", "fn f(r: fmt::Error) {}\n"),
    ],
)
def test_an_import_that_others_may_use_stays(path: str, text: str, old: str) -> None:
    assert unused_imports(question_of(path, text, [old])) == ()


@pytest.mark.parametrize("language", ["python", "typescript", "go", "rust", "java", "kotlin", "php", "cpp", "ruby"])
@pytest.mark.parametrize("part", ["import (", "from a import (", "use a::{", "import {", "use ", "'", '"""', "\0", "𝒳"])
def test_hostile_texts_cost_little(language: str, part: str) -> None:
    syntax = syntax_of(language)
    assert syntax is not None
    text = part * 20_000
    syntax.facts(text, "a.x")
    assert syntax.statements(text) is not None
