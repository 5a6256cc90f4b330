"""Several KV caches over one set of weights: each says what an engine alone says, whatever the others do or need."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fastcoder_lsp.core import CacheLost, DraftTree, Verified
from fastcoder_lsp.engine.one_slot import OneSlot
from fastcoder_lsp.engine.slots import RECENT, WORTH, SharingBackend, SlotEngines, several
from fastcoder_lsp.engine.tree_engine import MAX_NODES, TreeEngine
from fastcoder_lsp.tokenizer import Tokenizer
from tests.engine.tiny_models import VOCABULARY, load, make_model
from tests.fake_engine import never

TEXT = [int(token) for token in np.random.default_rng(3).integers(0, VOCABULARY, 120)]
NAMES = ("a", "b", "c", "d")
ROOMY = 10**9


@pytest.fixture(scope="module", params=["cpu-int8", "cpu-fp32"])
def engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, weights_cache: Path
) -> Iterator[TreeEngine]:
    """An engine by itself; slots are made over its weights."""
    made = load(make_model(tmp_path_factory.mktemp("model"), "qwen2"), weights_cache, request.param)
    yield made
    made.close()


def slots(engine: TreeEngine, most_bytes: int = ROOMY) -> SlotEngines:
    """Slots over the weights of `engine`, which stays usable; not to be closed."""
    assert isinstance(engine.backend, SharingBackend)
    return SlotEngines(engine.backend, engine.info, most_bytes)


def bytes_of(engine: TreeEngine, tokens: int) -> int:
    assert isinstance(engine.backend, SharingBackend)
    return engine.backend.bytes_of(tokens + MAX_NODES)


def bits(verified: Verified) -> tuple[object, ...]:
    """All that a step said, the logits of every row among it."""
    assert verified.top_ids_NK is not None
    assert verified.top_logits_NK is not None
    return verified.path, verified.emitted, verified.top_ids_NK.tobytes(), verified.top_logits_NK.tobytes()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_interleaving_gives_what_each_would_say_alone(engine: TreeEngine, data: st.DataObject) -> None:
    room = data.draw(st.sampled_from([ROOMY, bytes_of(engine, 200), bytes_of(engine, 40), 1]))
    engines, held = slots(engine, room), dict[str, list[int]]()
    for _ in range(data.draw(st.integers(1, 10))):
        name, what = data.draw(st.sampled_from(NAMES)), data.draw(st.sampled_from("ppssssfr"))
        if what == "f":
            engines.forget(name)
            held.pop(name, None)
        elif what == "r":
            other = data.draw(st.sampled_from(NAMES))
            engines.rename(name, other)
            if name in held:
                held[other] = held.pop(name)
        elif what == "p":
            tokens = data.draw(_prompts())
            stops = iter([False] * data.draw(st.integers(0, 2)) + [True] * 9)
            engines.slot(name).prefill(tokens, lambda stops=stops: next(stops))  # type: ignore[misc]
            held[name] = list(engines.slot(name).cached())
            assert held[name] == tokens[: len(held[name])]
        else:
            _step_like_alone(engine, engines, name, held, data.draw(_trees()))
    for name in NAMES:
        engines.forget(name)
    assert engines.bytes_held() == 0


def _step_like_alone(
    engine: TreeEngine, engines: SlotEngines, name: str, held: dict[str, list[int]], tree: DraftTree
) -> None:
    """A step of a slot, filled again where others have taken its memory, against the engine by itself."""
    slot = engines.slot(name)
    try:
        found = slot.step(tree, top_k=VOCABULARY)
    except CacheLost:
        assert slot.cached() == ()
        slot.prefill(held.get(name, []), never)
        found = slot.step(tree, top_k=VOCABULARY)
    engine.prefill(held.setdefault(name, []), never)
    expected = engine.step(tree, top_k=VOCABULARY)
    if engine.info.name == "cpu-int8":
        assert bits(found) == bits(expected)
    else:
        assert (found.path, found.emitted) == (expected.path, expected.emitted)
    assert slot.cached() == engine.cached()
    held[name] = list(slot.cached())


@st.composite
def _prompts(draw: st.DrawFn) -> list[int]:
    """Texts that begin alike, up to some place."""
    same, others = draw(st.integers(0, 80)), draw(st.integers(0, 30))
    return [*TEXT[:same], *((token + 1) % VOCABULARY for token in TEXT[same : same + others])]


@st.composite
def _trees(draw: st.DrawFn) -> DraftTree:
    """Some decided tokens, and any drafts below the last of them, no two alike."""
    pending = draw(st.integers(1, 3))
    tokens = [draw(st.integers(0, VOCABULARY - 1)) for _ in range(pending)]
    parents = list(range(-1, pending - 1))
    for node in range(draw(st.integers(0, 12))):
        parents.append(draw(st.integers(pending - 1, pending - 1 + node)))
        tokens.append(node)
    return DraftTree(tuple(tokens), tuple(parents), pending)


def test_going_back_and_forth_computes_nothing_again(engine: TreeEngine) -> None:
    engines = slots(engine)
    texts = {"a": TEXT[:60], "b": [*TEXT[60:], *TEXT[:20]]}
    for name, tokens in texts.items():
        assert engines.slot(name).prefill(tokens[:-5], never).computed == len(tokens) - 5
    for more in range(-4, 0):
        for name, tokens in texts.items():
            assert engines.slot(name).prefill(tokens[:more], never).computed == 1


def test_a_common_beginning_is_copied_once(engine: TreeEngine) -> None:
    engines = slots(engine)
    engines.slot("a").prefill(TEXT[:50], never)
    engines.slot("b").prefill(TEXT[:90], never)
    done = engines.slot("c").prefill([*TEXT[:70], 1, 2, 3], never)
    assert (done.reused, done.computed) == (70, 3)
    engines.forget("b")
    assert engines.slot("c").prefill(TEXT[:70], never).computed == 0
    little = [*TEXT[: WORTH - 1], 9, 9]
    assert engines.slot("d").prefill(little, never).computed == len(little)


def test_the_least_recently_used_slot_gives_way(engine: TreeEngine) -> None:
    most = bytes_of(engine, 640 - MAX_NODES)
    engines = slots(engine, most)
    for index, name in enumerate("abc"):
        engines.slot(name).prefill([index] * 100, never)
    engines.slot("a").step(DraftTree.chain([5]))
    engines.slot("d").prefill([9] * 230, never)
    assert [name for name in "abcd" if engines.slot(name).cached()] == ["a", "c", "d"]
    with pytest.raises(CacheLost):
        engines.slot("b").step(DraftTree.chain([5]))
    assert engines.bytes_held() <= most


def test_one_is_kept_however_little_it_may_take(engine: TreeEngine) -> None:
    engines = slots(engine, 1)
    slot = engines.slot("a")
    slot.prefill(TEXT[:50], never)
    slot.step(DraftTree.chain([1]))
    assert len(slot.cached()) == 51
    engines.slot("b").prefill(TEXT[:30], never)
    assert slot.cached() == ()


def test_a_shortened_cache_gives_way_before_a_whole_one(engine: TreeEngine) -> None:
    if engine.info.name != "cpu-int8":
        pytest.skip("this kind keeps a cache's memory together")
    assert isinstance(engine.backend, SharingBackend)
    long = [1] * engine.info.context
    engines = slots(engine, engine.backend.bytes_of(len(long)) + bytes_of(engine, 20))
    first = engines.slot("a")
    first.prefill(long, never)
    first.prefill(TEXT[:20], never)
    before = engines.bytes_held()
    engines.slot("b").prefill(TEXT[20:110], never)
    assert first.cached() == tuple(TEXT[:20])
    assert engines.bytes_held() < before + engine.backend.bytes_of(90)
    _step_like_alone(engine, engines, "a", {"a": TEXT[:20]}, DraftTree.chain([4, 5, 6]))


def test_the_second_cache_takes_over_with_the_same_bits(engine: TreeEngine) -> None:
    engines = slots(engine)
    first, second = engines.slot("a"), engines.second_cache("a")
    first.prefill(TEXT[:60], never)
    for end in (30, 70, 90):
        second.prefill(TEXT[5 : 5 + end], never)
        _step_like_alone(engine, engines, "a", {"a": [*first.cached()]}, DraftTree.chain([4, 5]))
    engines.exchange("a")
    assert engines.slot("a") is second
    assert first.cached() == ()
    assert engines.slot("a").prefill(TEXT[5:95], never).computed == 0
    _step_like_alone(engine, engines, "a", {"a": TEXT[5:95]}, DraftTree.chain([4, 5, 6]))
    assert engines.second_cache("a") is not second
    engines.exchange("never seen")
    assert engines.slot("never seen").cached() == ()


def test_the_second_cache_evicts_none_and_gives_way_to_all(engine: TreeEngine) -> None:
    most = bytes_of(engine, 640 - MAX_NODES)
    engines = slots(engine, most)
    for index, name in enumerate("ab"):
        engines.slot(name).prefill([index] * 100, never)
    assert engines.second_cache("a").prefill([7] * 100, never).done
    engines.slot("c").prefill([3] * 230, never)
    assert [engines.second_cache("a").cached(), *(len(engines.slot(name).cached()) for name in "abc")] == [
        (),
        100,
        100,
        230,
    ]
    refused = engines.second_cache("a").prefill([7] * 230, never)
    assert (refused.done, refused.computed) == (False, 0)
    assert [len(engines.slot(name).cached()) for name in "abc"] == [100, 100, 230]
    engines.forget("c")
    assert engines.second_cache("a").prefill([7] * 100, never).done
    engines.exchange("a")
    engines.slot("d").prefill([4] * 230, never)
    assert len(engines.slot("a").cached()) == 100, "it is an ordinary one now"
    assert engines.bytes_held() <= most


def test_the_second_cache_replaces_slots_not_used_lately(engine: TreeEngine) -> None:
    engines = slots(engine)
    names = [str(number) for number in range(RECENT + 3)]
    for number, name in enumerate(names):
        engines.slot(name).prefill([number] * 100, never)
        if name == "1":
            engines.second_cache(name).prefill([number] * 100, never)
    held = engines.bytes_held()
    last, engines._most = engines.second_cache(names[-1]), held // 2
    assert not last.prefill([90] * 100, never).done
    assert engines.bytes_held() == held, "not in vain"
    engines._most = held + bytes_of(engine, 0)
    assert last.prefill([90] * 100, never).done
    assert not engines.second_cache("1").cached()
    assert [len(engines.slot(name).cached()) for name in names] == [100] * len(names)
    assert last.prefill([91] * 250, never).done
    assert not engines.slot("0").cached()
    assert [len(engines.slot(name).cached()) for name in names[-RECENT:]] == [100] * RECENT
    assert engines.bytes_held() <= engines._most


def test_what_is_prepared_beside_goes_with_its_name(engine: TreeEngine) -> None:
    engines = slots(engine)
    engines.slot("a").prefill(TEXT[:20], never)
    engines.second_cache("a").prefill(TEXT[20:50], never)
    engines.rename("a", "b")
    assert engines.second_cache("b").cached() == tuple(TEXT[20:50])
    assert engines.second_cache("a").cached() == ()
    engines.forget("b")
    assert engines.bytes_held() == 0


def test_memory_is_taken_as_it_is_used(engine: TreeEngine) -> None:
    engines = slots(engine)
    engines.slot("a").prefill(TEXT[:10], never)
    assert isinstance(engine.backend, SharingBackend)
    assert engines.bytes_held() == engine.backend.bytes_of(10)
    assert engine.backend.bytes_of(engine.info.context) > 5 * engines.bytes_held()


def test_a_forgotten_slot_works_on_for_its_holder(engine: TreeEngine) -> None:
    engines = slots(engine)
    slot = engines.slot("a")
    slot.prefill(TEXT[:20], never)
    engines.forget("a")
    assert slot.cached() == ()
    slot.prefill(TEXT[:20], never)
    assert engines.slot("a").cached() == ()
    assert slot.cached() == tuple(TEXT[:20])
    slot.close()
    assert engines.bytes_held() == 0


def test_a_system_without_memory_is_helped_by_the_others(engine: TreeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    engines, backend = slots(engine), engine.backend
    engines.slot("a").prefill(TEXT[:20], never)
    real, calls = type(backend).another, list[int]()  # type: ignore[attr-defined]

    def refusing(self: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise MemoryError
        return real(self)

    monkeypatch.setattr(type(backend), "another", refusing)
    assert not engines.second_cache("a").prefill(TEXT[:10], never).done
    assert engines.slot("a").cached() == tuple(TEXT[:20]), "nobody gives way to what is only prepared"
    calls.clear()
    engines.slot("b").prefill(TEXT[:10], never)
    assert engines.slot("a").cached() == ()
    assert engines.slot("b").cached() == tuple(TEXT[:10])


def test_kinds_without_several_caches_have_one_that_goes_round(tmp_path: Path, weights_cache: Path) -> None:
    """The graph engine's cache is where its programs were captured; transformers' own knows no slots."""
    graphs = load(make_model(tmp_path / "model", "qwen2"), weights_cache, "cpu-graphs")
    engines = several(graphs, 64)
    assert isinstance(engines, OneSlot)
    engines.slot("a").prefill(TEXT[:20], never)
    engines.slot("b").prefill(TEXT[20:60], never)
    with pytest.raises(CacheLost):
        engines.slot("a").step(DraftTree.chain([1]))
    engines.slot("a").prefill(TEXT[:20], never)
    found = engines.slot("a").step(DraftTree.chain([1]))
    graphs.prefill(TEXT[:20], never)
    assert found.emitted == graphs.step(DraftTree.chain([1])).emitted
    engines.close()


@pytest.mark.ci
@pytest.mark.model
def test_the_default_models_slots_give_the_same_bits(real_engine: TreeEngine, real_tokenizer: Tokenizer) -> None:
    import argparse

    ids = real_tokenizer.encode(Path(str(argparse.__file__)).read_text(encoding="utf-8"))
    texts = {"a": list(ids[:300]), "b": [*ids[:260], *ids[400:440]], "c": list(ids[500:580])}
    engines = slots(real_engine, bytes_of(real_engine, 800))
    for name, tokens in texts.items():
        engines.slot(name).prefill(tokens, never)
    tree = DraftTree((*ids[300:304], *ids[10:14]), (-1, 0, 1, 2, 3, 3, 5, 4), pending=2)
    held = {name: list(tokens) for name, tokens in texts.items()}
    for name in "abcab":
        slot = engines.slot(name)
        if not slot.cached():
            slot.prefill(held[name], never)
        found = slot.step(tree, top_k=50)
        real_engine.prefill(held[name], never)
        assert bits(found) == bits(real_engine.step(tree, top_k=50))
        held[name] = list(slot.cached())
    for name in texts:
        engines.forget(name)
