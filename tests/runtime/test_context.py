"""Repository context: which files it looks at, what it finds, and what stays."""

from dataclasses import replace
from pathlib import Path

import pytest

from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Snapshot, at_once
from fastcoder_lsp.runtime.context import ReadableFolder, RepositoryContext
from fastcoder_lsp.workspace.rules import ReadingRules
from tests.runtime.context_folder import STORE, USE, defined, finder, found_at, main, shown


def test_what_is_imported_is_found_on_the_disk(root: Path) -> None:
    snippets = found_at(finder(root), main(root), len(USE))
    assert [snippet.path for snippet in snippets] == ["src/app/store.py"]
    assert "def put(self, key: str)" in snippets[0].text


def test_what_shares_common_words_alone_stays_away(root: Path) -> None:
    for name in ("dates", "mail"):
        (root / f"src/app/{name}.py").write_text(
            f"class Unlike:\n    def {name}_of(self):\n        return self.{name}\n"
        )
    here = main(root, "class Use:\n    def store(self):\n        return self." + USE)
    assert [snippet.path for snippet in found_at(finder(root), here, len(here.text))] == ["src/app/store.py"]


def test_no_line_is_shown_twice(root: Path) -> None:
    uses = "".join(f"store.put(key_{number}, first_{number})\n" for number in range(12))
    (root / "src/app/store.py").write_text(f"{STORE}        seal(key)\n{uses}")
    here = main(root, f"{USE}put(key_1, first_1, first_2, first_3, first_4, first_5)")
    snippets = found_at(finder(root), here, len(here.text))
    assert [snippet.line for snippet in snippets] == [1, 5]
    assert "seal(key)" in snippets[0].text
    assert snippets[1].text == uses.rstrip()


def test_unsaved_text_wins(root: Path) -> None:
    opened = {root / "src/app/store.py": STORE.replace("put", "insert")}
    (snippet,) = found_at(finder(root, opened), main(root), len(USE))
    assert "def insert(" in snippet.text


def test_what_is_read_for_one_prompt_is_bounded(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastcoder_lsp.runtime.context.MOST_CHARACTERS", 900)
    for number in range(12):
        (root / f"src/app/large_{number}.py").write_text(f"large_{number} = 1\n" + "store = Store()\n" * 30)
    context = finder(root)
    first = {one.path for one in found_at(context, main(root), len(USE))}
    again = {one.path for one in found_at(context, main(root), len(USE))}
    assert 0 < len(first) <= 3
    assert len(first) < len(again) <= 5


def test_a_pause_keeps_what_is_good_enough(root: Path) -> None:
    (root / "src/app/far.py").write_text("def far_away(alpha, beta):\n    gamma(alpha)\n    return delta(beta)\n" * 3)
    context, here = (
        finder(root),
        main(root, f"{USE}\n{'# text' * 3}\n\n\n\n\n\n\n\n\n\n\n\n\n\ngamma(alpha)\ndelta(beta)\n\n"),
    )
    first = at_once(context.find(here, len(USE), (0, len(USE))))
    assert first.snippets
    assert at_once(context.find(here, len(USE), (0, len(USE)), first)) is first
    below = len(here.text) - 1
    other = at_once(context.find(here, below, (0, len(here.text)), first))
    assert other is not first
    assert "far_away" in other.snippets[0].text


def test_the_repository_has_its_folders_name(root: Path) -> None:
    """And the document its path from there: a model was taught no paths from the root of a disk."""
    found = at_once(finder(root).find(main(root), len(USE), (0, len(USE))))
    assert (found.repository, found.path) == (root.name, "src/app/main.py")


def test_a_closed_document_is_looked_at_again(root: Path) -> None:
    """What was saved while it was open is found by its words after it was closed."""
    opened: dict[Path, str] = {}
    context = finder(root, opened)
    found_at(context, main(root), len(USE))
    other = root / "src/app/other.py"
    opened[other] = "unsaved = 1\n"
    found_at(context, main(root), len(USE))
    other.write_text("def newly(): return unheard_of_name(1)\n")
    del opened[other]
    use = "x = unheard_of_name("
    assert "def newly" in "".join(one.text for one in found_at(context, main(root, use), len(use)))


def test_other_languages_are_left_out(root: Path) -> None:
    """A text that happens to share words is no code to learn from; the other kinds of one family are."""
    (root / "notes.md").write_text("store = Store()\n")
    (root / "a.ts").write_text("const store = new Store();\n")
    (root / "b.tsx").write_text("const other = new Store();\n")
    assert {one.path for one in found_at(finder(root), main(root), len(USE))} == {"src/app/store.py"}
    script = root / "main.tsx"
    here = Snapshot(script.as_uri(), str(script), "typescriptreact", 0, "store = new Store(")
    assert {one.path for one in found_at(finder(root), here, 10)} == {"a.ts", "b.tsx"}


def test_a_folder_that_a_link_leads_to(root: Path) -> None:
    """A workspace is opened by such a name: its files are found, by the name that it has there."""
    link = root.parent / "link"
    link.symlink_to(root)
    assert [one.source for one in found_at(finder(link), main(link), len(USE))] == [str(link / "src/app/store.py")]


def test_older_versions_of_the_document_are_not_shown(root: Path) -> None:
    saved = "".join(f"def put_{number}(store):\n    store.put({number})\n\n\n" for number in range(40))
    copies = [
        f"{where}/app/main.py" for where in ("build/lib", "dist", "worktree/src", "backup", "v1", "v2", "v3", "v4")
    ]
    for name in ("src/app/main.py", *copies):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(saved)
    link = root / "link.py"
    link.symlink_to(root / "src/app/main.py")
    text = saved.replace("def put_7(store):", "def put_seven(store):") + USE
    rewritten = "\n".join(f"{line}  # {number}" for number, line in enumerate(text.split("\n")))
    for path, now in ((root / "src/app/main.py", text), (link, text), (link, rewritten)):
        here = Snapshot(path.as_uri(), str(path), "python", 0, now)
        sources = {one.source for one in found_at(finder(root), here, len(now))}
        assert str(root / "src/app/store.py") in sources
        assert str(root / "src/app/main.py") not in sources
        assert now == rewritten or not any(source.endswith("main.py") for source in sources)


def test_a_limit_that_changes_holds_for_what_was_read(root: Path) -> None:
    """A file that was read by the old rules is judged by the new ones, though it has not changed."""
    (root / "src/app/store.py").write_text(f"{STORE}# {'long ' * 100}\n")
    rules = [ReadingRules((root,), Settings()), ReadingRules((root,), Settings(read_max_line_length=100))]
    now = [ReadableFolder(root, rules[0])]
    context = RepositoryContext(lambda _path: now[0], dict, 60.0)
    assert found_at(context, main(root), len(USE))
    now[0] = ReadableFolder(root, rules[1])
    assert not found_at(context, main(root), len(USE))


def test_definitions_that_a_client_tells_of_are_read_here(root: Path) -> None:
    (root / "src/app/deep.py").write_text(
        "x = 1\n" * 40 + "class Depot:\n    size: int\n\n    def put(self, key): ...\n"
    )
    (root / "src/app/deep.ts").write_text("export class Depot {}\n")
    (root.parent / "outside.py").write_text("class Depot:\n    outside = 1\n")
    text = "depot = Depot()\n"
    here = defined(
        root,
        ("src/app/deep.py", 40, "Depot"),
        ("src/app/deep.ts", 0, "Depot"),
        ("../outside.py", 0, "Depot"),
        ("src/../../outside.py", 0, "Depot"),
        ("src/app/main.py", 0, "depot"),
        ("src/app/none.py", 0, "Depot"),
        text=text,
    )
    near = "".join(one.text for one in found_at(finder(root), replace(here, definitions=()), len(text)))
    found = found_at(finder(root), here, len(text))
    heads = [one for one in found if one.text == "class Depot:\n    size: int\n    def put(self, key): ..."]
    assert "class Depot" in near or len(heads) == 1
    assert {one.source for one in found} <= {str(root / "src/app/deep.py")}
    opened = {root / "src/app/deep.py": "class Depot:\n    unsaved: int\n"}
    assert "unsaved" in "".join(one.text for one in found_at(finder(root, opened), here, len(text)))


def test_places_visited_lately(root: Path) -> None:
    context, other = finder(root), root / "src/app/other.py"
    text = "".join(f"line_{number} = {number}\n" for number in range(60))
    found_at(context, Snapshot(other.as_uri(), str(other), "python", 0, text), text.index("line_30"))
    assert "line_30 = 30" in shown(context, root)
    (root / ".fastcoderignore").write_text("other.py\n")
    assert "line_30 = 30" not in shown(context, root)


def test_a_place_is_not_shown_twice(root: Path) -> None:
    other = root / "src/app/other.py"
    opened = {other: "".join(f"def helper_{number}(depot):\n    return {number}\n\n" for number in range(60))}
    context = finder(root, opened)
    for line in ("return 29", "def helper_30", "return 30"):
        context.observe(Snapshot(other.as_uri(), str(other), "python", 0, opened[other]))
        opened[other] = opened[other].replace(line, f"{line}0")
        context.observe(Snapshot(other.as_uri(), str(other), "python", 0, opened[other]))
    for use in ("x = 1\n", "helper_300(depot)\n"):
        found = found_at(context, main(root, use), len(use))
        assert sum("return 300" in one.text for one in found) == 1


def test_a_new_file_shows_what_it_tests(root: Path) -> None:
    (root / "tests").mkdir()
    new = root / "tests/test_store.py"
    here = Snapshot(new.as_uri(), str(new), "python", 0, "\n")
    assert [one.text for one in found_at(finder(root), here, 0)] == [
        "class Store:\n    def put(self, key: str) -> None:"
    ]
    hidden = root / "tests/test_hidden.py"
    assert found_at(finder(root), Snapshot(hidden.as_uri(), str(hidden), "python", 0, "\n"), 0) == ()


ORDERS = (
    "from dataclasses import dataclass\n\nfrom shop.models import Customer, Order\n\n\n"
    "def total_of(orders: list[Order]) -> int:\n    return sum(order."
)
MODELS = (
    "@dataclass\nclass Customer:\n    name: str\n\n\n@dataclass\nclass Order:\n"
    + "".join(f"    field_{number}: int\n" for number in range(20))
    + "\n    def total(self) -> int:\n        return 1\n\n\ndef later() -> None:\n    pass\n"
)


@pytest.mark.parametrize(
    ("importing", "name"),
    [("from shop.models import Customer, Order", "shop/models.py"), ("from .models import Order", "shop/models.py")],
)
def test_an_imported_class_comes_whole_and_before_shared_words(tmp_path: Path, importing: str, name: str) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / name).write_text(MODELS)
    for number in range(6):
        (tmp_path / f"shop/like_{number}.py").write_text(
            f"def total_{number}(orders):\n    return sum(order.x for order in orders)\n"
        )
    document, text = tmp_path / "shop/store.py", ORDERS.replace("from shop.models import Customer, Order", importing)
    snippets = found_at(finder(tmp_path), Snapshot(document.as_uri(), str(document), "python", 0, text), len(text))
    first = next(one for one in snippets if one.line)
    assert first.path == name
    assert first.text == MODELS[MODELS.index("class Order") : MODELS.index("\n\n\ndef later")]
    assert first.score == max(one.score for one in snippets if one.line)
    assert sum("def total(self)" in one.text for one in snippets) == 1


def test_imported_definitions_of_scripts(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/order.ts").write_text("export interface Order {\n  total: number\n}\n\nexport const other = 1\n")
    text = 'import { type Order as Bill } from "./order.js"\n\nfunction sum(bills: Bill[]) {\n  return bills[0].'
    document = tmp_path / "src/main.ts"
    snippets = found_at(finder(tmp_path), Snapshot(document.as_uri(), str(document), "typescript", 0, text), len(text))
    assert [one.text for one in snippets if one.line][:1] == ["export interface Order {\n  total: number\n}"]


def test_an_unreadable_imported_definition_is_not_shown(root: Path) -> None:
    """It goes through the same rules as every other file."""
    text = "from app.hidden import Hidden\n\nh = Hidden()\nh."
    assert not any("Hidden" in one.text for one in found_at(finder(root), main(root, text), len(text)) if one.line)


@pytest.mark.parametrize("where", ["file", "open", "document"])
def test_the_names_numbered_for_one_prompt_are_bounded(root: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """A file of data may have many more names than code of the same length."""
    monkeypatch.setattr("fastcoder_lsp.runtime.context.FEW_NAMES", 100)
    numbered = list[str]()

    def counting(name: str) -> list[str]:
        numbered.append(name)
        return [name]

    monkeypatch.setattr("fastcoder_lsp.index.terms.words_of", counting)
    data = STORE + "".join(f"store.put(a{number}, b{number})\n" for number in range(3_000))
    (root / "src/app/store.py").write_text(data if where == "file" else STORE)
    context = finder(root, {root / "src/app/store.py": data} if where == "open" else {})
    words = context.words_at(root / "src/app/main.py")
    assert words is not None
    words.wait_idle(60.0)
    numbered.clear()
    here = main(root, (data if where == "document" else "") + USE)
    assert found_at(context, here, len(here.text))
    assert 0 < len(numbered) <= 100


@pytest.mark.parametrize("where", ["file", "open"])
def test_the_next_prompts_number_the_rest(root: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """The bound delays words of a long file, and loses none."""
    monkeypatch.setattr("fastcoder_lsp.runtime.context.FEW_NAMES", 100)
    data = "".join(f"alpha{number} = beta{number}\n" for number in range(100))
    long, path = f"{STORE}{data}def last(gamma, delta):\n    pass", root / "src/app/store.py"
    path.write_text(long if where == "file" else STORE)
    context = finder(root, {path: long} if where == "open" else {})
    for _ in range(4):
        found_at(context, main(root), len(USE))
    later = main(root, "last(gamma, delta")
    assert "def last(gamma" in "".join(one.text for one in found_at(context, later, len(later.text)))
