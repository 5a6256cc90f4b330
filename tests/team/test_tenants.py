"""What a tenant types is nothing to another: in KV caches, drafters and chunks; and where documents belong."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp.core import DraftTree, Engines
from fastcoder_lsp.engine.one_slot import OneSlot
from fastcoder_lsp.engine.slots import several
from fastcoder_lsp.team.calls import Tenant, place_of, preferred, with_room
from fastcoder_lsp.team.host import apart
from fastcoder_lsp.team.keys import KeyFile
from tests.engine.tiny_models import VOCABULARY, load, make_model
from tests.fake_engine import never
from tests.opened import until
from tests.runtime.test_smaller_models import models, write_tokenizer
from tests.team.toy_team import Start

TEXT = "secret_name = load_secret()\n" * 20


def test_a_document_is_its_tenants_alone(start: Start, tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    ada, eve = keys.add("ada"), keys.add("eve")
    team = start(keys=keys)
    team.infill(TEXT, "a.py", ada, "work")
    own = team.infill(f"{TEXT}x", "a.py", ada, "work")
    assert own["tokens_cached"] > len(TEXT) // 2, "its own tenant finds it"
    for key, workspace in ((eve, "work"), (ada, "play"), (eve, "")):
        assert team.infill(f"{TEXT}y", "a.py", key, workspace)["tokens_cached"] == 0


def test_tenants_beyond_what_is_kept_give_way(start: Start) -> None:
    team = start("[replicas]\ntenants = 3")
    tenants = team.replicas[0]._tenants
    for number in range(5):
        team.infill(TEXT, "a.py", workspace=f"work-{number}")
    assert [tenant.workspace for tenant in tenants._of] == ["work-2", "work-3", "work-4"]
    until(lambda: team.replicas[0]._core.fronts() == 4)  # and the replica's own
    assert team.infill(TEXT, "a.py", workspace="work-0")["tokens_cached"] == 0
    assert Tenant(workspace="work-0") in tenants._of


def test_many_workspaces_of_one_key_push_out_no_other_ones(start: Start, tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    ada, ben, eve = (keys.add(name) for name in ("ada", "ben", "eve"))
    team = start("[replicas]\ntenants = 4", keys=keys)
    names = {key.id: key.name for key in keys.load()}

    def kept() -> list[tuple[str, str]]:
        return [(names[tenant.key], tenant.workspace) for tenant in team.replicas[0]._tenants._of]

    for key, workspace in ((ada, "a"), (ben, "b"), *((eve, f"e{number}") for number in range(6))):
        team.infill(TEXT, "a.py", key, workspace)
    assert kept() == [("ada", "a"), ("ben", "b"), ("eve", "e4"), ("eve", "e5")]
    for workspace in ("a2", "a3"):
        team.infill(TEXT, "a.py", ada, workspace)
    assert kept() == [("ben", "b"), ("eve", "e5"), ("ada", "a2"), ("ada", "a3")]


NAMES = st.lists(st.text("abcdef0123456789", min_size=1, max_size=8), min_size=1, max_size=12, unique=True)


@given(st.text(), NAMES, st.text("xyz", min_size=1, max_size=4))
def test_a_replica_that_comes_takes_only_its_own(document: str, replicas: list[str], new: str) -> None:
    place = place_of("ada", "work", document)
    before, after = preferred(place, replicas), preferred(place, [*replicas, new])
    assert sorted(before) == sorted(replicas)
    assert [name for name in after if name != new] == list(before)
    assert list(preferred(place, reversed(replicas))) == list(before)


def test_documents_are_shared_out_evenly() -> None:
    replicas = [f"replica-{number}" for number in range(4)]
    orders = [preferred(place_of("ada", "work", f"file_{number}.py"), replicas) for number in range(4000)]
    first = Counter(order[0] for order in orders)
    assert all(800 < count < 1200 for count in first.values()), first
    heirs = Counter(order[1] for order in orders if order[0] == replicas[0])
    assert all(count > 200 for count in heirs.values()), heirs
    assert set(heirs) == set(replicas[1:])


def test_names_do_not_run_together() -> None:
    assert place_of("a", "bc") != place_of("ab", "c")
    assert place_of("a\0", "b") != place_of("a", "\0b")


def test_a_document_moves_only_to_a_replica_with_room() -> None:
    """One that is half full has none: reading the document there would slow everybody there down."""
    loads = {"a": 8, "b": 5, "c": 4, "d": None}
    assert with_room(["a", "b", "c", "d"], loads, 8) == ["a", "c", "d"]
    assert with_room([], loads, 8) == []


WORDS = [int(token) for token in np.random.default_rng(3).integers(1, VOCABULARY, 120)]


@pytest.fixture(params=["several", "one"])
def engines(request: pytest.FixtureRequest, tmp_path: Path) -> Engines:
    """The model's, with several caches or with one that goes round."""
    engine = load(make_model(tmp_path / "model", "qwen2"), tmp_path, "cpu-fp32")
    return several(engine, 1000) if request.param == "several" else OneSlot(engine)


def test_another_tenants_text_is_computed_anew(engines: Engines) -> None:
    assert engines.slot("ada\0front-1\na.py").prefill(WORDS, never).computed == len(WORDS)
    assert engines.slot("eve\0front-2\na.py").prefill(WORDS, never).reused > 100
    kept_apart = apart(engines)
    kept_apart.slot("ada\0front-3\na.py").prefill(WORDS, never)
    alone = kept_apart.slot("eve\0front-4\na.py").prefill(WORDS, never)
    assert (alone.reused, alone.computed) == (0, len(WORDS))
    kept_apart.close()


def test_a_tenants_own_text_is_found(engines: Engines) -> None:
    kept_apart = apart(engines)
    first, second = kept_apart.slot("ada\0front-1\na.py"), kept_apart.slot("ada\0front-3\nb.py")
    first.prefill(WORDS, never)
    said = first.step(DraftTree((7,), (-1,))).emitted
    assert second.prefill(WORDS, never).reused >= len(WORDS) - 1
    assert second.step(DraftTree((7,), (-1,))).emitted == said
    other = kept_apart.slot("eve\0front-2\na.py")
    other.prefill(WORDS, never)
    assert other.step(DraftTree((7,), (-1,))).emitted == said
    kept_apart.close()


@pytest.mark.parametrize("loaded", [False, True])
def test_models_that_draft_are_apart_too(loaded: bool, tmp_path: Path) -> None:
    place = make_model(tmp_path / "model", "qwen2")
    write_tokenizer(place, "abcdefgh")
    smaller = models(place, tmp_path, place)

    def reused(front: str) -> int:
        return smaller.of(front)[0].of("a.py").prefill(WORDS, never).reused

    if loaded:
        reused("ada\0front-1")
        assert reused("eve\0front-2") > 100
    smaller.keep_apart(apart)
    assert reused("ada\0front-3") == 0
    assert reused("ada\0front-4") > 100
    assert reused("eve\0front-5") == 0
    smaller.close()
