"""Repository context keeps to the reading rules, at the moment of use, whatever lies in a workspace and is told."""

from pathlib import Path

import pytest

from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Snapshot, at_once
from fastcoder_lsp.runtime.context import ReadableFolder, RepositoryContext
from fastcoder_lsp.workspace.languages import language_of
from fastcoder_lsp.workspace.rules import ReadingRules
from tests.runtime.context_folder import STORE, USE, defined, edited, finder, found_at, main, shown

PLANTED = "planted_9f3a"


def test_rules_hold(root: Path) -> None:
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
    (inner / "store.py").write_text(STORE.replace("put", "get").replace("write", "read"))
    outer = ReadableFolder(root, ReadingRules((root, inner), Settings()))
    for settings in (None, Settings(read_exclude=("store.py",)), Settings()):
        own = None if settings is None else ReadableFolder(inner, ReadingRules((root, inner), settings))
        of = lambda path, own=own: own if path.is_relative_to(inner) else outer  # noqa: E731
        context = RepositoryContext(of, dict, 60.0)
        snippets = found_at(context, main(root), len(USE))
        expected = {"src/app/store.py"} if settings != Settings() else {"src/app/store.py", "inner/store.py"}
        assert {snippet.path for snippet in snippets} == expected
        assert context.may_show([snippet.source for snippet in snippets])


@pytest.mark.parametrize("name", ["src/app/hidden.py", "src/app/.env", "secrets.yaml", "../elsewhere.py", "new.py", ""])
def test_an_edit_of_an_unreadable_file_is_not_shown(root: Path, name: str) -> None:
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


def test_planted_secrets_are_in_no_prompt(root: Path) -> None:
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
        root / "src/app/below.py": f'{use}DB_PASSWORD = (\n    "{PLANTED}"\n)\nTOKEN = """\n{PLANTED}\n"""\n',
        root / "src/app/calls.py": f'{use}connect("postgres://me:{PLANTED}@db", "Bearer {PLANTED}")\n',
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
            at_once(context.find(there, min(20, len(text)), (0, 0)))
            edited(path, context, f'Vault = Vault("{path.stem}_TOKEN", api_token="{PLANTED}")')
        for line in (0, 1):
            here = defined(root, *((name, line, called) for name in names for called in ("Vault", "")), text=use)
            found = found_at(context, here, len(use))
            assert all(PLANTED not in one.text for one in found), [one for one in found if PLANTED in one.text]
        for name in ("tests/test_hidden.py", "tests/test_secrets.py", "tests/test_link.py", "tests/test_.env.py"):
            young = Snapshot((root / name).as_uri(), str(root / name), "python", 0, "")
            assert all(PLANTED not in one.text for one in found_at(context, young, 0))


def test_a_definition_in_a_newly_ignored_file_is_not_shown(root: Path) -> None:
    (root / "src/app/late.py").write_text("class Late:\n    planted: int\n")
    here = defined(root, ("src/app/late.py", 0, "Late"), text="late = Late()\n")
    context = finder(root)
    found = found_at(context, here, 10)
    assert "planted" in "".join(one.text for one in found)
    (root / ".fastcoderignore").write_text("late.py\n")
    assert not context.may_show([one.source for one in found])
    assert "planted" not in "".join(one.text for one in found_at(context, here, 10))
