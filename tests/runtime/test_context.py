"""Repository context: which files it looks at, and that it keeps to the reading rules."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Snapshot
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
