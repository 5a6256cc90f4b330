"""A host in this process, whose model and stores are shared; and the host that the settings choose."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from fastcoder_lsp.completion.protocol import (
    Ask,
    DocumentChanged,
    DocumentClosed,
    Enable,
    Forget,
    HostFacts,
    HostListener,
    Load,
    OpenHost,
    Use,
    UserActive,
    Withdraw,
)
from fastcoder_lsp.completion.question import Policy, Question, place_of
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import CompletionRequest, Progress, Snapshot
from fastcoder_lsp.edits.values import EditQuestion
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.host import workspace
from fastcoder_lsp.host.local import READING_S, LocalHost, ModelServer
from fastcoder_lsp.host.selector import BackendSelector
from fastcoder_lsp.runtime.folder_words import FolderWords
from fastcoder_lsp.runtime.parts import Model, Runtime, WorkspaceView
from fastcoder_lsp.workspace.document import OpenTexts
from fastcoder_lsp.workspace.rules import ReadingRules
from fastcoder_lsp.workspace.shared_stores import SharedStores
from tests.completion.toys import Encoding, toy_model, toy_runtime
from tests.fake_engine import FakeEngine, SayingEngine
from tests.host.scripted import Heard, ScriptedHost, question
from tests.index.live import write
from tests.index.toy_encoder import ToyEncoder

SETTINGS = Settings()
CAREFUL = replace(SETTINGS, read_exclude=("private/",))
SAYS = "said = 1"


class Fronts:
    def __init__(self, cache: Path) -> None:
        self.loaded: list[Model] = []
        self.engines: list[FakeEngine] = []
        self.made: list[tuple[str, WorkspaceView]] = []
        self.core = ModelServer(self.load, self.make, SETTINGS, cache)

    def load(self, settings: Settings, _progress: Progress) -> Model:
        assert settings.drafter == "auto", "a front's drafter is no matter of the shared model's"
        self.engines.append(SayingEngine(SAYS))
        self.loaded.append(toy_model(self.engines[-1], Encoding()))
        return self.loaded[-1]

    def make(self, model: Model, settings: Settings, around: WorkspaceView, front: str) -> Runtime:
        if settings.drafter == "sdsat":
            raise UsageError("the drafter sdsat needs a model that was tuned for it")
        self.made.append((front, around))
        return toy_runtime(model, front=front)

    def open(
        self, root: Path, settings: Settings = SETTINGS, *, texts: OpenTexts | None = None, **narrow: object
    ) -> tuple[LocalHost, Heard]:
        heard, folders = Heard(), {root: replace(settings, **narrow)}  # type: ignore[arg-type]
        return self.core.open(heard, settings, folders, texts), heard


def ask(host: LocalHost, heard: Heard, number: int = 1, uri: str = "file:///a.py") -> str:
    request = CompletionRequest(Snapshot(uri, None, "python", number, f"x{number} = 2\n\n"), 7)
    host.send(Ask(Question(number, request, place_of(request), Policy(), 0.0, 0.0)))
    heard.wait(lambda: number in heard.answers)
    (answer,) = heard.answers[number]
    return answer.candidates[0].text if answer.candidates else ""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    write(folder, {"a.py": "everybody = 1\n", "private/b.py": "somebody = 2\n"})
    return folder


@pytest.fixture
def fronts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fronts]:
    write(tmp_path / "stdlib", {"module.py": "common = 1\n"})
    monkeypatch.setattr("sysconfig.get_path", lambda _name: str(tmp_path / "stdlib"))
    made = Fronts(tmp_path / "cache")
    yield made
    made.core.close(10)


def knows(around: WorkspaceView, text: str) -> bool:
    assert around.pin is not None
    repository, tokens = around.pin("file:///nowhere.py").repository, ToyEncoder().encode(text)
    return repository is not None and repository.longest(tokens, 16)[0] == len(tokens)


def test_a_model_is_loaded_once_and_a_workspace_is_followed_once(fronts: Fronts, root: Path) -> None:
    (one, hears_one), (two, hears_two) = fronts.open(root), fronts.open(root)
    assert ask(one, hears_one) == SAYS
    assert ask(two, hears_two) == SAYS
    assert len(fronts.loaded) == 1
    assert [front for front, _ in fronts.made] == ["front-1", "front-2"]
    assert len(fronts.core.stores.indexes) == 1
    assert one.facts().fronts == two.facts().fronts == 2
    one.close(10)
    assert len(fronts.core.stores.indexes) == 1
    assert two.facts().fronts == 1
    assert ask(two, hears_two, 2) == SAYS
    two.close(10)
    assert len(fronts.core.stores.indexes) == 0
    assert not fronts.engines[0].closed
    fronts.core.close(10)
    assert fronts.engines[0].closed


def test_news_of_the_model_are_told_to_every_front(fronts: Fronts, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load = fronts.load
    monkeypatch.setattr(fronts, "load", lambda *asked: replace(load(*asked), news="a smaller one"))
    fronts.core.close(10)
    fronts.core = ModelServer(fronts.load, fronts.make, SETTINGS, root.parent / "cache")
    (one, hears_one), (_, hears_two) = fronts.open(root), fronts.open(root)
    assert ask(one, hears_one) == SAYS
    for heard in (hears_one, hears_two):
        assert any("a smaller one" in str(event) for event in heard.others)


def test_each_front_is_told_what_concerns_it_alone(fronts: Fronts, root: Path, tmp_path: Path) -> None:
    beside = tmp_path / "beside"
    write(beside, {"c.py": "one = 1\n", "d.py": "two = 2\n", "e.py": "three = 3\n"})
    (one, hears_one), (two, hears_two) = fronts.open(root), fronts.open(beside)
    assert ask(one, hears_one) == SAYS
    assert ask(two, hears_two, 7) == SAYS
    hears_one.wait(lambda: ("indexing", 2, 2, False) in hears_one.others)
    hears_two.wait(lambda: ("indexing", 3, 3, False) in hears_two.others)
    assert ("indexing", 3, 3, False) not in hears_one.others
    assert set(hears_one.answers) == {1}
    assert set(hears_two.answers) == {7}


def test_loading_waits_for_the_code_around_a_path(fronts: Fronts, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where prompts may contain it, and not for ever."""
    waited: list[float] = []
    monkeypatch.setattr(FolderWords, "wait_idle", lambda _, seconds: waited.append(seconds))
    host, heard = fronts.open(root)
    host.send(Load(1, root / "a.py"))
    heard.wait(lambda: heard.loads == [True])
    assert waited == []
    monkeypatch.setattr(LocalHost, "facts", lambda _: HostFacts(context=True))
    host.send(Load(2, root / "a.py"))
    heard.wait(lambda: heard.loads == [True, True])
    assert waited == [READING_S]


def test_a_store_gives_a_front_what_its_own_rules_allow(fronts: Fronts, root: Path) -> None:
    """One folder, one front that leaves a part of it out: also while the other one has it open and changes it."""
    texts = OpenTexts()
    (free, hears_free), (careful, hears_careful) = fronts.open(root, texts=texts), fronts.open(root, CAREFUL)
    assert ask(free, hears_free) == SAYS
    assert ask(careful, hears_careful) == SAYS
    around_free, around_careful = (around for _, around in fronts.made)
    hears_free.wait(lambda: knows(around_free, "somebody = 2"))
    hears_careful.wait(lambda: knows(around_careful, "everybody = 1"))
    changed = DocumentChanged(root / "private/b.py", "unsaved = 3\n")
    changed.follow_in(texts)
    free.send(changed)
    hears_free.wait(lambda: knows(around_free, "unsaved = 3"))
    for hidden in ("somebody = 2", "unsaved = 3"):
        assert not knows(around_careful, hidden)


def test_open_texts_end_with_the_front_that_sent_them(fronts: Fronts, root: Path) -> None:
    texts = OpenTexts()
    (one, hears_one), (two, hears_two) = fronts.open(root, texts=texts), fronts.open(root)
    changed = DocumentChanged(root / "new.py", "never_saved = 1\n")
    changed.follow_in(texts)
    one.send(changed)
    assert ask(one, hears_one) == SAYS
    assert ask(two, hears_two) == SAYS
    around = fronts.made[1][1]
    hears_two.wait(lambda: knows(around, "never_saved = 1"))
    one.close(10)
    hears_two.wait(lambda: not knows(around, "never_saved = 1"))


def test_other_settings_of_a_front_load_no_model_anew(fronts: Fronts, root: Path) -> None:
    (one, hears_one), (two, hears_two) = fronts.open(root), fronts.open(root)
    assert ask(one, hears_one) == SAYS
    assert ask(two, hears_two) == SAYS
    plain = replace(SETTINGS, index_enabled=False)
    one.send(Use(plain, {root: plain}))
    assert ask(one, hears_one, 2) == SAYS
    assert len(fronts.loaded) == 1
    assert [(front, around.pin is None) for front, around in fronts.made[2:]] == [("front-1", True)]
    assert len(fronts.core.stores.indexes) == 1
    other = replace(plain, model="another")
    one.send(Use(other, {root: other}))
    assert ask(one, hears_one, 3) == SAYS
    assert ask(two, hears_two, 2) == SAYS
    assert len(fronts.loaded) == 2
    assert [engine.closed for engine in fronts.engines] == [True, False]


def test_an_unsuitable_drafter_affects_its_own_front_alone(fronts: Fronts, root: Path) -> None:
    (one, hears_one), (two, hears_two) = fronts.open(root, replace(SETTINGS, drafter="sdsat")), fronts.open(root)
    assert ask(one, hears_one) == ""
    assert hears_one.answers[1][0].outcome == "failed"
    assert ask(two, hears_two) == SAYS


def test_code_for_the_prompt_comes_from_the_front_s_own_folders(fronts: Fronts, root: Path, tmp_path: Path) -> None:
    shows, hides = replace(SETTINGS, context_enabled=True), replace(SETTINGS, context_enabled=False)
    beside = tmp_path / "beside"
    write(beside, {"c.py": "one = 1\n"})
    (one, hears_one), (two, hears_two) = fronts.open(root, shows), fronts.open(beside, hides)
    assert ask(one, hears_one) == SAYS
    assert ask(two, hears_two) == SAYS
    contexts = [around.context for _, around in fronts.made]
    may: Mapping[str, Callable[[int], bool]] = {
        name: lambda front, name=name: contexts[front].may_show([str(tmp_path / name)])  # type: ignore[misc]
        for name in ("project/a.py", "project/private/b.py", "beside/c.py")
    }
    assert [may["project/a.py"](0), may["project/private/b.py"](0), may["beside/c.py"](0)] == [True, True, False]
    assert not may["beside/c.py"](1)
    careful = replace(shows, read_exclude=("private/",))
    one.send(Use(shows, {root: careful}))
    assert [may["project/a.py"](0), may["project/private/b.py"](0)] == [True, False]


def test_the_worker_is_heard_of(fronts: Fronts, root: Path) -> None:
    heard: list[str] = []
    fronts.core.probe(lambda: heard.append("nobody"))
    assert heard == ["nobody"]
    _, hears = fronts.open(root)
    fronts.core.probe(lambda: heard.append("worker"))
    hears.wait(lambda: heard == ["nobody", "worker"])


def test_only_folders_of_requests_have_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Path] = []

    def counted(roots: Sequence[Path], settings: Settings) -> ReadingRules:
        made.append(roots[0])
        return ReadingRules(roots, settings)

    monkeypatch.setattr(workspace, "ReadingRules", counted)
    shown = replace(CAREFUL, context_enabled=True)
    folders = {tmp_path / f"{number}": shown for number in range(400)}
    of = workspace.FrontWorkspace(
        folders, SharedStores(tmp_path / "cache"), OpenTexts(), lambda _: None, lambda _: None
    )
    assert of._readable(tmp_path / "elsewhere" / "a.py") is None
    assert made == []
    first = of._readable(tmp_path / "7" / "a.py")
    assert first is not None
    assert first is of._readable(tmp_path / "7" / "b.py")
    assert len(made) == 1
    of.change({tmp_path / "7": replace(shown, context_enabled=False), tmp_path / "8": shown})
    assert of._readable(tmp_path / "7" / "a.py") is None
    assert of._readable(tmp_path / "8" / "a.py") is not None
    assert len(made) == 2


CHOSEN = replace(Settings(), host_enabled=False)
SHARED = replace(CHOSEN, host_enabled=True)
FOLDERS = {Path("/w"): CHOSEN}


class Kinds:
    """Hosts of all kinds, scripted, and the one that is chosen of them; `gate` lets the next one open.

    `asks`: whether a server may be asked in the model's place.
    """

    def __init__(
        self, settings: Settings = CHOSEN, folders: Mapping[Path, Settings] = FOLDERS, *, asks: bool = False
    ) -> None:
        self.opened: list[tuple[str, ScriptedHost]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.failure: Exception | None = None
        self.heard = Heard()
        remote = self.opens("remote") if asks else None
        self.host = BackendSelector(
            self.opens("shared"), self.opens("alone"), self.heard, settings, folders, OpenTexts(), remote
        )

    def opens(self, kind: str) -> OpenHost:
        def open_one(
            listener: HostListener, settings: Settings, folders: Mapping[Path, Settings], texts: OpenTexts
        ) -> ScriptedHost:
            assert self.gate.wait(60)
            if self.failure is not None:
                raise self.failure
            self.opened.append((kind, ScriptedHost(listener, settings, folders, texts)))
            return self.opened[-1][1]

        return open_one

    def asks(self, number: int, text: str = "value = word") -> str:
        self.host.send(Ask(question(number, text)))
        self.heard.wait(lambda: number in self.heard.answers)
        (answer,) = self.heard.answers[number]
        return answer.candidates[0].text if answer.candidates else answer.outcome

    def calls(self, place: int = -1) -> list[str]:
        return [str(call[0]) for call in self.opened[place][1].calls]


@pytest.fixture
def kinds() -> Kinds:
    return Kinds()


def test_the_model_opens_with_the_settings_before_the_request(kinds: Kinds) -> None:
    kinds.host.send(DocumentChanged(Path("/w/a.py"), "old"))
    kinds.host.send(DocumentChanged(Path("/w/b.py"), "closed"))
    kinds.host.send(DocumentChanged(Path("/w/a.py"), "new"))
    kinds.host.send(DocumentClosed(Path("/w/b.py")))
    kinds.host.send(UserActive(1.0, answered=True))
    kinds.host.send(Forget("file:///w/b.py"))
    kinds.host.send(Use(SHARED, FOLDERS))
    assert not kinds.opened
    assert kinds.host.facts().model == ""
    assert kinds.asks(1) == "WORD"
    ((kind, host),) = kinds.opened
    assert kind == "shared"
    assert host.calls[0] == ("open", SHARED, FOLDERS)
    assert host.texts.copy() == {Path("/w/a.py"): "new"}
    assert kinds.calls()[1:] == ["ask"]
    kinds.heard.wait(lambda: kinds.host.facts().model == "scripted")


def test_what_is_told_while_it_opens_is_told_in_its_order(kinds: Kinds) -> None:
    kinds.gate.clear()
    kinds.host.send(Ask(question(1, "value = hang")))
    kinds.host.send(DocumentChanged(Path("/w/a.py"), "text"))
    kinds.host.send(Withdraw(1))
    kinds.host.send(Load(1))
    kinds.host.send(Enable(enabled=True))
    kinds.host.send(Ask(question(2, "value = word")))
    kinds.gate.set()
    kinds.heard.wait(lambda: 2 in kinds.heard.answers)
    assert kinds.calls() == ["open", "ask", "document_changed", "withdraw", "load", "enable", "ask"]
    assert kinds.heard.loads == [True]


def test_where_the_settings_change_the_other_kind_goes_on(kinds: Kinds) -> None:
    assert kinds.asks(1) == "WORD"
    kinds.host.send(DocumentChanged(Path("/w/a.py"), "text"))
    first = kinds.opened[0][1]
    kinds.host.send(Use(SHARED, FOLDERS))
    kinds.heard.wait(first.closed.is_set)
    first.send(Ask(question(2, "value = late")))
    assert 2 not in kinds.heard.answers
    kinds.gate.clear()
    kinds.host.send(Load(1))
    kinds.host.send(Use(CHOSEN, FOLDERS))
    assert kinds.heard.loads == [False]
    kinds.gate.set()
    assert kinds.asks(3) == "WORD"
    [_, last] = [host for kind, host in kinds.opened if kind == "alone"]  # who is not wanted any more may come later
    assert last.texts.get(Path("/w/a.py")) == "text"
    kinds.heard.wait(lambda: all(host.closed.is_set() for kind, host in kinds.opened if kind == "shared"))


def test_what_cannot_be_opened_is_an_answer_and_tried_again(kinds: Kinds) -> None:
    kinds.failure = OSError("no such thing")
    kinds.gate.clear()
    edit = EditQuestion(2, "file:///w/a.py", "a.py", "python", 1, "x", 0, ())
    kinds.host.send(Ask(question(1, "value = word")))
    kinds.host.send(Ask(edit))
    kinds.host.send(Load(1))
    kinds.gate.set()
    kinds.heard.wait(lambda: kinds.heard.loads)
    assert "no such thing" in str(kinds.heard.edits[2].reason)
    assert kinds.heard.loads == [False]
    assert [answer.outcome for answer in kinds.heard.answers[1]] == ["failed"]
    assert kinds.heard.statuses[-1].state == "error"
    kinds.failure = None
    assert kinds.asks(3) == "WORD"
    kinds.host.send(Ask(structs.replace(edit, number=4)))
    kinds.heard.wait(lambda: 4 in kinds.heard.edits)
    assert kinds.heard.edits[4].source == "scripted"


def test_off_and_on_are_told_where_there_is_nothing_to_switch(kinds: Kinds) -> None:
    kinds.host.send(Enable(enabled=False))
    kinds.host.send(Enable(enabled=True))
    assert [status.state for status in kinds.heard.statuses] == ["off", "starting"]
    assert not kinds.opened


def test_closed_while_it_opens_nothing_stays(kinds: Kinds) -> None:
    kinds.gate.clear()
    kinds.host.send(Load(1))
    kinds.host.close(1.0)
    kinds.host.send(Load(1))
    assert kinds.heard.loads == [False, False]
    kinds.gate.set()
    kinds.heard.wait(lambda: bool(kinds.opened) and kinds.opened[0][1].closed.is_set())
    assert kinds.calls() == ["open", "close"]
