"""The edit model as a second model: beside the code model, by the real engines, in the shared process or alone."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Progress, Reason, StepCosts
from fastcoder_lsp.errors import ModelMissingError, ResourceError
from fastcoder_lsp.runtime import edit_model
from fastcoder_lsp.runtime.costs import WIDTHS, known_costs
from fastcoder_lsp.runtime.edit_model import EditModel, EditModels, EditRuntime, load_edit_model
from tests.edits.toys import ReplacingEngine, edit_runtime
from tests.faults.small_model import write_model
from tests.goldens.conftest import ended, environment, small_model
from tests.goldens.golden import command
from tests.lsp.raw_client import Json, running

__all__ = ["ended", "environment", "small_model"]

SETTINGS = Settings(edits_model="toy")


def until(done: Callable[[], EditRuntime | Reason | Status]) -> EditRuntime | Reason:
    """What comes once it is loaded."""
    while isinstance(found := done(), Status):
        time.sleep(0.005)
    return found


def test_a_model_is_loaded_once_and_closed_with_its_owner() -> None:
    go, loads, engines = threading.Event(), list[EditModel](), list[ReplacingEngine]()

    def load(settings: Settings, _stopped: threading.Event, progress: Progress) -> EditModel:
        progress(0.25, "weights")
        assert go.wait(60)
        engines.append(ReplacingEngine("a", "b"))
        loads.append(edit_runtime(engines[-1]).model)
        return loads[-1]

    models = EditModels(load)
    while models.of(SETTINGS, "one") != Status("loading", 25, "weights"):
        time.sleep(0.005)
    assert isinstance(models.of(SETTINGS, "two"), Status)
    go.set()
    one, two = (until(lambda front=front: models.of(SETTINGS, front)) for front in ("one", "two"))  # type: ignore[misc]
    assert isinstance(one, EditRuntime)
    assert isinstance(two, EditRuntime)
    assert one.model is two.model is loads[0]
    assert one.slots is not two.slots
    assert models.of(SETTINGS, "one") is one
    models.leave("one")
    assert models.of(SETTINGS, "one") is not one
    go.clear()
    assert isinstance(models.of(Settings(edits_model="other"), "one"), Status)
    models.close()
    go.set()
    while len(engines) < 2 or not all(engine.closed for engine in engines):
        time.sleep(0.005)


def test_times_taken_beside_other_work_are_taken_again(tmp_path: Path) -> None:
    """A step at a time; fronts keep their caches, and get a drafter that knows the prices. Later starts read them."""
    beside = StepCosts((1, 64), (900.0, 9_000.0), 90.0)
    loaded = edit_runtime(ReplacingEngine("a", "b"), costs=beside).model
    model = replace(loaded, timing=partial(edit_model._timed, digest="digest", cache=tmp_path))
    models = EditModels(lambda *_: model)
    assert not models.measure()
    before = until(lambda: models.of(SETTINGS, "one"))
    assert isinstance(before, EditRuntime)
    pieces = 0
    while models.measure():
        assert models.of(SETTINGS, "one") is before or not models.measure()
        pieces += 1
    assert pieces > len(WIDTHS)
    after = models.of(SETTINGS, "one")
    assert isinstance(after, EditRuntime)
    assert after.slots is before.slots
    assert after.drafter is not before.drafter
    assert after.model.costs.step_ms(16) < beside.step_ms(16)
    assert known_costs(model.engines.slot("any"), "digest", tmp_path) == after.model.costs


def test_a_failure_is_a_reason_and_tried_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = list[str]()

    def load(settings: Settings, _stopped: threading.Event, _progress: Progress) -> EditModel:
        tries.append(settings.edits_model)
        raise ResourceError("too large", "Close something.")

    models = EditModels(load)
    for _ in range(3):
        failed = until(lambda: models.of(SETTINGS, "one"))
        assert isinstance(failed, Reason)
        assert (failed.code, failed.text, failed.hint) == ("edit-model", "No edits: too large", "Close something.")
    assert tries == ["toy"]
    monkeypatch.setattr(edit_model, "RETRY_S", 0.0)
    assert isinstance(models.of(SETTINGS, "one"), Status) or len(tries) > 1


def test_what_names_no_edit_model(tmp_path: Path) -> None:
    assert EditModels(load_edit_model).of(Settings(), "one") == edit_model.no_edit_model()
    with pytest.raises(ModelMissingError, match="some/missing-zeta-2"):
        load_edit_model(Settings(edits_model="some/missing-zeta-2"), threading.Event())


@pytest.fixture
def edits_model(tmp_path: Path) -> Path:
    """A small model that answers a prompt of Sweep's which ends in "y" by a line."""
    return write_model(tmp_path / "sweep-next-edit-tiny", "y\nx=2")


@pytest.mark.usefixtures("ended")
@pytest.mark.parametrize("shared", [pytest.param(False, marks=pytest.mark.ci), True], ids=["alone", "shared"])
async def test_an_edit_from_settings_to_answer(
    small_model: Path, edits_model: Path, environment: dict[str, str], tmp_path: Path, shared: bool
) -> None:
    """The installed command, the real engines, and ghost text from the same process."""
    uri = (tmp_path / "a.py").as_uri()
    options: Json = {"model": str(small_model), "engine": "cpu-int8", "threads": 1, "host.enabled": shared}
    options |= {"edits.model": str(edits_model), "edits.threshold": 0, "budget.automatic_ms": 60_000}
    async with running(command=(command(), "serve"), environment=environment) as client:
        await client.initialize(initializationOptions=options, rootUri=tmp_path.as_uri())
        client.open(uri, "x=0")
        client.change(uri, 2, [{"text": "x=1"}])
        place = {"textDocument": {"uri": uri, "version": 2}, "position": {"line": 0, "character": 0}}
        [edit] = (await client.call("textDocument/copilotInlineEdit", place))["edits"]
        assert (edit["text"], edit["range"]["start"]) == ("2", {"line": 0, "character": 2})
        client.open("untitled:b.py", "x = \n")
        assert await client.inline("untitled:b.py", 0, 4, triggerKind=1)
        assert await client.leave() == 0
