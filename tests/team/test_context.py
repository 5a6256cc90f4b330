"""Code of followed repositories goes along with prompts: of those that a key may read, by the rules, where wanted."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Snapshot, at_once
from fastcoder_lsp.prompt.context import NOTHING, PromptContext
from fastcoder_lsp.team.configuration import RepositoryConfig
from fastcoder_lsp.team.host import RepositoryWords, TeamContext
from fastcoder_lsp.team.repositories import Repositories

SHOWN = replace(Settings(), context_enabled=True)
STORE = "class ZebraStore:\n    def put_zebra(self, key: str) -> None:\n        write_zebra(key)\n"
USE = "store = ZebraStore()\nstore."
WAIT_S = 120.0


@pytest.fixture
def words() -> Iterator[RepositoryWords]:
    made = RepositoryWords()
    yield made
    made.close()


def tree(place: Path, name: str, files: dict[str, str]) -> Path:
    folder = place / name / "0123abcd"
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder


def found(
    words: RepositoryWords, *trees: Path, text: str = USE, kept: PromptContext | None = None, settings: Settings = SHOWN
) -> PromptContext:
    """What is shown to who may read these, once they were looked through."""
    for one in trees:
        assert words.of(one, settings).wait_idle(WAIT_S)
    context = TeamContext(words, dict.fromkeys(trees, settings))
    return at_once(
        context.find(Snapshot("http-client:/document/0", None, "python", 1, text), len(text), (0, len(text)), kept)
    )


def paths(told: PromptContext) -> list[str]:
    return [snippet.path for snippet in told.snippets]


def test_what_a_key_may_read_is_shown(words: RepositoryWords, tmp_path: Path) -> None:
    core = tree(tmp_path, "core", {"app/store.py": STORE, "app/far.py": "def unlike() -> int:\n    return 1\n"})
    other = tree(tmp_path, "other", {"zoo.py": "def feed(store: ZebraStore) -> None:\n    store.put_zebra('x')\n"})
    told = found(words, core)
    assert (paths(told), told.repository) == (["app/store.py"], "core")
    assert sorted(paths(found(words, core, other))) == ["app/store.py", "zoo.py"]
    assert paths(found(words, other)) == ["zoo.py"]
    here = Snapshot("u", None, "python", 1, USE)
    assert at_once(TeamContext(words, {}).find(here, len(USE), (0, 9))) == NOTHING


def test_only_where_the_repository_is_to_be_shown(words: RepositoryWords, tmp_path: Path) -> None:
    core = tree(tmp_path, "core", {"store.py": STORE})
    assert found(words, core, settings=replace(SHOWN, context_enabled=False)) == NOTHING
    wanted = (RepositoryConfig("core", "file:///x"), RepositoryConfig("zoo", "file:///y", context=True))
    followed = Repositories(wanted, tmp_path, SHOWN)
    followed._trees = {"core": core, "zoo": tmp_path / "zoo" / "1"}
    shown = {
        folder.parent.name: settings.context_enabled for folder, settings in followed.folders(("core", "zoo")).items()
    }
    assert shown == {"core": False, "zoo": True}


def test_rules_hold(words: RepositoryWords, tmp_path: Path) -> None:
    secret = 'ZEBRA_TOKEN = "ghp_0123456789abcdefghijABCDEFGHIJ012345"\n'
    files = {"a.py": f"{secret}{STORE}", ".gitignore": "hidden.py\n"}
    files |= dict.fromkeys((".env.py", "hidden.py", "id_rsa"), STORE)
    core = tree(tmp_path, "core", files)
    told = found(words, core)
    assert paths(told) == ["a.py"]
    assert "put_zebra" in told.snippets[0].text
    assert "ghp_" not in told.snippets[0].text
    context = TeamContext(words, {core: SHOWN})
    assert context.may_show([told.snippets[0].source])
    assert not context.may_show([str(core / "hidden.py")])
    assert not context.may_show([str(tmp_path / "elsewhere.py")])
    (core / "a.py").unlink()
    assert not context.may_show([told.snippets[0].source])


def test_the_document_itself_is_not_shown(words: RepositoryWords, tmp_path: Path) -> None:
    """Its committed state is in the repository, and would be the answer."""
    core = tree(tmp_path, "core", {"store.py": STORE, "use.py": f"{STORE}{USE}put_zebra('x')\n"})
    assert found(words, core, text=f"{STORE}{USE}").snippets == ()


def test_what_is_shown_stays_while_it_is_good(words: RepositoryWords, tmp_path: Path) -> None:
    """An exchange has everything behind it computed anew; for another question it is exchanged."""
    core = tree(
        tmp_path, "core", {"store.py": STORE, "lion.py": "def tame_lion(lion: Lion) -> None:\n    lion.roar()\n"}
    )
    first = found(words, core)
    assert found(words, core, text=f"{USE}put", kept=first) is first
    later = found(words, core, text="lion = Lion()\ntame_lion(", kept=first)
    assert paths(later)[0] == "lion.py"
