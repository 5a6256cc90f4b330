"""Repository context: which files it looks at, and that it keeps to the reading rules."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Definition, Snapshot
from fastcoder_lsp.core.differences import first_difference
from fastcoder_lsp.prompt import ContextSnippet
from fastcoder_lsp.runtime.context import ReadableFolder, RepositoryContext
from fastcoder_lsp.workspace.languages import language_of
from fastcoder_lsp.workspace.rules import ReadingRules

STORE = "class Store:\n    def put(self, key: str) -> None:\n        write(key)\n"
USE = "from app.store import Store\n\nstore = Store()\nstore."


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace of a few modules."""
    for name, text in {
        "src/app/store.py": STORE,
        "src/app/main.py": USE,
        "src/app/other.py": "def unlike() -> int:\n    return 1\n",
        "src/app/.env": "Store=1\n",
        "src/app/hidden.py": STORE.replace("Store", "Hidden"),
        ".gitignore": "hidden.py\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def finder(root: Path, opened: Mapping[Path, str] | None = None) -> RepositoryContext:
    """The context of one folder."""
    folder = ReadableFolder(root, ReadingRules((root,), Settings()))
    return RepositoryContext(lambda path: folder if path.is_relative_to(root) else None, lambda: opened or {}, 60.0)


def found_at(context: RepositoryContext, snapshot: Snapshot, offset: int) -> tuple[ContextSnippet, ...]:
    """The snippets for a cursor, where the window holds the lines around it."""
    return context.find(snapshot, offset, (max(0, offset - 200), offset + 100)).snippets


def main(root: Path, text: str = USE) -> Snapshot:
    """The document that is typed in."""
    path = root / "src/app/main.py"
    return Snapshot(path.as_uri(), str(path), "python", 0, text)


def test_what_is_imported_is_found_on_the_disk(root: Path) -> None:
    """A module below `src`, named by its path in the workspace; what shares no names stays away."""
    snippets = found_at(finder(root), main(root), len(USE))
    assert [snippet.path for snippet in snippets] == ["src/app/store.py"]
    assert "def put(self, key: str)" in snippets[0].text


def test_unsaved_text_wins(root: Path) -> None:
    """An open document is read as it stands in the editor."""
    opened = {root / "src/app/store.py": STORE.replace("put", "insert")}
    (snippet,) = found_at(finder(root, opened), main(root), len(USE))
    assert "def insert(" in snippet.text


def test_rules_hold(root: Path) -> None:
    """Ignored and secret files are not read, open or not; nor is anything for a document outside."""
    text = USE.replace("store", "hidden").replace("Store", "Hidden")
    hidden = root / "src/app/hidden.py"
    for opened in ({}, {hidden: hidden.read_text()}):
        assert found_at(finder(root, opened), main(root, text), len(text)) == ()
    outside = root.parent / "main.py"
    assert found_at(finder(root), Snapshot(outside.as_uri(), str(outside), "python", 0, USE), len(USE)) == ()


def test_a_folder_within_the_folder_has_its_own_say(root: Path) -> None:
    """A file is the innermost folder's: what that shows to no model, or leaves out, is in no prompt of the outer."""
    inner = root / "inner"
    inner.mkdir()
    (inner / "store.py").write_text(STORE)
    outer = ReadableFolder(root, ReadingRules((root, inner), Settings()))
    for settings in (None, Settings(read_exclude=("store.py",)), Settings()):
        own = None if settings is None else ReadableFolder(inner, ReadingRules((root, inner), settings))
        of = lambda path, own=own: own if path.is_relative_to(inner) else outer  # noqa: E731
        context = RepositoryContext(of, dict, 60.0)
        snippets = found_at(context, main(root), len(USE))
        expected = {"src/app/store.py"} if settings != Settings() else {"src/app/store.py", "inner/store.py"}
        assert {snippet.path for snippet in snippets} == expected
        assert context.may_show([snippet.source for snippet in snippets])


def test_places_edited_lately(root: Path) -> None:
    """An edit in one document is offered in another, not in its own."""
    context, other = finder(root), root / "src/app/other.py"
    text = "".join(f"line_{number} = {number}\n" for number in range(60))
    context.observe(Snapshot(other.as_uri(), str(other), "python", 0, text))
    edited = text.replace("line_30 = 30", "line_30 = compute(30)")
    context.observe(Snapshot(other.as_uri(), str(other), "python", 1, edited))
    found = found_at(context, main(root), len(USE))
    assert any("compute(30)" in snippet.text and "line_5 =" not in snippet.text for snippet in found)
    own = found_at(context, Snapshot(other.as_uri(), str(other), "python", 1, edited), 0)
    assert not any("compute(30)" in snippet.text for snippet in own)


def edited(path: Path, context: RepositoryContext, secret: str) -> None:
    """Somebody typed `secret` into the document at `path`."""
    before = "".join(f"line_{number} = {number}\n" for number in range(60))
    for version, text in enumerate((before, before.replace("line_30 = 30", secret))):
        context.observe(Snapshot(path.as_uri(), str(path), language_of(path), version, text))


def shown(context: RepositoryContext, root: Path) -> str:
    return "\n".join(snippet.text for snippet in found_at(context, main(root), len(USE)))


@pytest.mark.parametrize("name", ["src/app/hidden.py", "src/app/.env", "secrets.yaml", "../elsewhere.py", "new.py", ""])
def test_what_was_edited_where_nobody_may_read_stays_there(root: Path, name: str) -> None:
    """In ignored and secret documents, in those outside all folders, in those that are on no disk."""
    context, path = finder(root), (root / name).resolve()
    if name in ("secrets.yaml", "../elsewhere.py"):
        path.write_text("")
    if name:
        edited(path, context, "typed_there = 1")
    else:
        for version, text in enumerate(("a = 1\n", "a = 1\ntyped_there = 1\n")):
            context.observe(Snapshot("untitled:1", None, "python", version, text))
    assert "typed_there" not in shown(context, root)


def test_rules_hold_when_a_place_is_shown_not_when_it_was_edited(root: Path) -> None:
    """A file that is ignored afterwards is shown no more, in a prompt that stands neither."""
    context, path = finder(root), root / "src/app/other.py"
    edited(path, context, "compute(30)")
    assert "compute(30)" in shown(context, root)
    sources = [snippet.source for snippet in found_at(context, main(root), len(USE))]
    assert context.may_show(sources)
    (root / ".fastcoderignore").write_text("other.py\n")
    assert "compute(30)" not in shown(context, root)
    assert not context.may_show(sources)


def test_lines_that_look_like_secrets_are_left_out(root: Path) -> None:
    """Wherever they come from: edited lately, imported, alike. The lines around them stay."""
    context = finder(root)
    edited(root / "src/app/other.py", context, 'DB_PASSWORD = "hunter2"')
    (root / "src/app/store.py").write_text(STORE.replace("write(key)", 'write(key)\n    api_key: str = "abc"'))
    text = shown(context, root)
    assert "line_29" in text
    assert "def put" in text
    assert "hunter2" not in text
    assert "api_key" not in text


def test_what_is_read_for_one_prompt_is_bounded(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that were not read before are, up to so many characters; the next question finds more of them."""
    monkeypatch.setattr("fastcoder_lsp.runtime.context.MOST_CHARACTERS", 900)
    for number in range(12):
        (root / f"src/app/large_{number}.py").write_text(f"large_{number} = 1\n" + "store = Store()\n" * 30)
    context = finder(root)
    first = {one.path for one in found_at(context, main(root), len(USE))}
    again = {one.path for one in found_at(context, main(root), len(USE))}
    assert 0 < len(first) <= 3
    assert len(first) < len(again) <= 5


PLANTED = "planted_9f3a"


def test_planted_secrets_are_in_no_prompt(root: Path) -> None:
    """Whichever way they lie: by the file's name, ignored, outside, behind a link, in a line, in a key, and unsaved."""
    use = "store = Store()\nstore.put(key)\n"
    outside = root.parent / "outside.py"
    key = "\n".join(["-----BEGIN PRIVATE KEY-----", *[f"{PLANTED}store"] * 30, "-----END PRIVATE KEY-----"])
    for path, text in {
        outside: f"{use}{PLANTED} = 1\n",
        root / ".env": f"store={PLANTED}\n",
        root / "secrets.py": f"{use}{PLANTED} = 1\n",
        root / "id_rsa": f"{use}{PLANTED}\n",
        root / "node_modules/store.py": f"{use}{PLANTED} = 1\n",
        root / "src/app/hidden.py": f"{use}{PLANTED} = 1\n",
        root / "src/app/lines.py": f'{use}DB_PASSWORD = "{PLANTED}"\n{use}',
        root / "src/app/keys.py": f'{use}KEY = """{key}"""\n{use}',
    }.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (root / ".fastcoderignore").write_text("secrets.py\n")
    (root / "src/app/link.py").symlink_to(outside)
    unsaved = {
        root / "src/app/hidden.py": f"{use}{PLANTED}_unsaved = 1\n",
        root / "src/app/other.py": f'{use}{use}API_TOKEN = "{PLANTED}"\n',
        outside: f"{use}{PLANTED}_open = 1\n",
    }
    context = finder(root, unsaved)
    for path, text in unsaved.items():
        edited(path, context, text.strip().replace("\n", "; "))
    seen = "".join(snippet.text for snippet in found_at(context, main(root, f"{USE}\n{use}"), len(USE)))
    assert "store.put(key)" in seen
    assert PLANTED not in seen


def test_a_pause_keeps_what_is_good_enough(root: Path) -> None:
    """The same value is given back while it holds most of what could be found, another one where it does not."""
    (root / "src/app/far.py").write_text("def far_away(alpha, beta):\n    gamma(alpha)\n    return delta(beta)\n" * 3)
    context, here = (
        finder(root),
        main(root, f"{USE}\n{'# text' * 3}\n\n\n\n\n\n\n\n\n\n\n\n\n\ngamma(alpha)\ndelta(beta)\n\n"),
    )
    first = context.find(here, len(USE), (0, len(USE)))
    assert first.snippets
    assert context.find(here, len(USE), (0, len(USE)), first) is first
    below = len(here.text) - 1
    other = context.find(here, below, (0, len(here.text)), first)
    assert other is not first
    assert "far_away" in other.snippets[0].text


def test_the_repository_has_its_folders_name(root: Path) -> None:
    """And the document its path from there: a model was taught no paths from the root of a disk."""
    found = finder(root).find(main(root), len(USE), (0, len(USE)))
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
    (root / "b.tsx").write_text("const store = new Store();\n")
    assert {one.path for one in found_at(finder(root), main(root), len(USE))} == {"src/app/store.py"}
    script = root / "main.tsx"
    here = Snapshot(script.as_uri(), str(script), "typescriptreact", 0, "store = new Store(")
    assert {one.path for one in found_at(finder(root), here, 10)} == {"a.ts", "b.tsx"}


@given(st.text(max_size=40), st.text(max_size=40), st.text(max_size=40))
def test_first_difference(same: str, left: str, right: str) -> None:
    """Up to there two texts are equal, and there they are not."""
    at = first_difference(same + left, same + right)
    assert (same + left)[:at] == (same + right)[:at]
    assert at == min(len(same + left), len(same + right)) or (same + left)[at] != (same + right)[at]


def defined(root: Path, *places: tuple[str, int, str], text: str = USE) -> Snapshot:
    """The document, with definitions that a client told of: (path, line, name)."""
    told = tuple(Definition(name, str(root / path), line) for path, line, name in places)
    return replace(main(root, text), definitions=told)


def test_definitions_that_a_client_tells_of_are_read_here(root: Path) -> None:
    """Their heads, as the file is now, unsaved where it is open; of files of the document's folder and kind alone."""
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
    """Where a completion was asked for in another document, though nothing was edited there."""
    context, other = finder(root), root / "src/app/other.py"
    text = "".join(f"line_{number} = {number}\n" for number in range(60))
    found_at(context, Snapshot(other.as_uri(), str(other), "python", 0, text), text.index("line_30"))
    assert "line_30 = 30" in shown(context, root)
    (root / ".fastcoderignore").write_text("other.py\n")
    assert "line_30 = 30" not in shown(context, root)


def test_a_place_is_not_shown_twice(root: Path) -> None:
    """Neither beside a piece that holds it, nor beside a place on the line after."""
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
    """It has no words to ask with; once it has, what is like them is shown instead."""
    (root / "tests").mkdir()
    new = root / "tests/test_store.py"
    here = Snapshot(new.as_uri(), str(new), "python", 0, "\n")
    assert [one.text for one in found_at(finder(root), here, 0)] == [
        "class Store:\n    def put(self, key: str) -> None:"
    ]
    hidden = root / "tests/test_hidden.py"
    assert found_at(finder(root), Snapshot(hidden.as_uri(), str(hidden), "python", 0, "\n"), 0) == ()


def test_planted_secrets_are_in_no_candidate(root: Path) -> None:
    """A client may name them as definitions, a person may have been there, a file may be called as if it tested one."""
    secret = f"class Vault:\n    {PLANTED}: int\n"
    outside = root.parent / "outside.py"
    key = f'class Vault:\n    KEY = """-----BEGIN PRIVATE KEY-----\n{PLANTED}\n-----END PRIVATE KEY-----"""\n'
    texts = {
        outside: secret,
        root / ".env": f"Vault={PLANTED}\n",
        root / ".env.py": secret,
        root / "secrets.py": secret,
        root / ".git/vault.py": secret,
        root / "src/app/hidden.py": secret,
        root / "src/app/keys.py": key,
        root / "src/app/lines.py": f'class Vault:\n    api_key: str = "{PLANTED}"\n    size: int\n',
        root / "src/app/large.py": secret + "x = 1\n" * 300_000,
        root / "src/app/long.py": f"class Vault: {PLANTED}; {'x' * 9000}\n",
    }
    for path, text in texts.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (root / ".fastcoderignore").write_text("secrets.py\n")
    (root / "src/app/link.py").symlink_to(outside)
    (root / "src/app/up").symlink_to(root.parent)
    (root / "src/app/linked_env.py").symlink_to(root / ".env")
    names = [*(str(path) for path in texts), "src/app/link.py", "src/app/up/outside.py", "src/app/linked_env.py"]
    names += ["/etc/passwd", "/proc/self/environ", "src/app", "src/app/../../../outside.py"]
    use = "vault = Vault()\nvault.size\n"
    for opened in ({}, dict.fromkeys((outside, root / ".env", root / "src/app/hidden.py"), secret)):
        context = finder(root, opened)
        for path, text in texts.items():
            if path.name == "long.py":
                continue  # nothing is asked in one with such lines
            there = Snapshot(path.as_uri(), str(path), language_of(path), 0, text[:2000])
            context.find(there, min(20, len(text)), (0, 0))
            edited(path, context, f'Vault = Vault("{path.stem}_TOKEN", api_token="{PLANTED}")')
        for line in (0, 1):
            here = defined(root, *((name, line, called) for name in names for called in ("Vault", "")), text=use)
            found = found_at(context, here, len(use))
            assert all(PLANTED not in one.text for one in found), [one for one in found if PLANTED in one.text]
        for name in ("tests/test_hidden.py", "tests/test_secrets.py", "tests/test_link.py", "tests/test_.env.py"):
            young = Snapshot((root / name).as_uri(), str(root / name), "python", 0, "")
            assert all(PLANTED not in one.text for one in found_at(context, young, 0))


def test_a_definition_in_a_file_that_is_ignored_afterwards_is_shown_no_more(root: Path) -> None:
    """Not in a new prompt, and the one that shows it does not stand."""
    (root / "src/app/late.py").write_text("class Late:\n    planted: int\n")
    here = defined(root, ("src/app/late.py", 0, "Late"), text="late = Late()\n")
    context = finder(root)
    found = found_at(context, here, 10)
    assert "planted" in "".join(one.text for one in found)
    (root / ".fastcoderignore").write_text("late.py\n")
    assert not context.may_show([one.source for one in found])
    assert "planted" not in "".join(one.text for one in found_at(context, here, 10))
