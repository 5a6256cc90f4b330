"""`auto`: one tree over all sources, best first; what it learns, keeps, and leaves out."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fastcoder_lsp.core import NO_DRAFT, Draft, DraftContext, DraftTree, Rewrite, StepCosts, Verified
from fastcoder_lsp.decode.loop import decode
from fastcoder_lsp.draft import auto
from fastcoder_lsp.draft.auto import AutoDrafter, AutoParameters, evidence, preferences
from fastcoder_lsp.draft.auto.evidence import SOURCES
from fastcoder_lsp.draft.auto.sources import DrafterSource, RetrievalRule, StoreSource
from fastcoder_lsp.draft.base import NoDrafter, Pinned, nothing
from fastcoder_lsp.draft.frozen_table import FrozenTable, TableShape, build
from fastcoder_lsp.draft.registry import make
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.kernels.decorators import FixedTypes
from tests.draft.adversaries import ADVERSARIES, Adversary
from tests.draft.small_store import pinned
from tests.draft.test_exactness import request
from tests.draft.toys import RepetitiveEngine

FIXED = AutoParameters(width="fixed")
CHEAP = StepCosts((1, 64), (20.0, 20.5), 1.0)
DEAR = StepCosts((1, 2, 64), (20.0, 40.0, 1280.0), 1.0)


def context(*tokens: int, document: str = "d", prompt: int | None = None, **more: object) -> DraftContext:
    return DraftContext(tokens, len(tokens) if prompt is None else prompt, document, **more)  # type: ignore[arg-type]


def first(drafter: AutoDrafter, *tokens: int, nodes: int = 8, document: str = "d") -> Draft:
    drafter.begin(context(*tokens, document=document))
    return drafter.propose(context(*tokens, document=document), nodes)


def say(drafter: AutoDrafter, draft: Draft, last: int, *emitted: int) -> None:
    parents = (-1, *(parent + 1 for parent in draft.parents))
    tree = DraftTree((last, *draft.tokens), parents, 1, ("", *draft.sources), (0, *draft.matches))
    node, path = 0, list[int]()
    for token in emitted[:-1]:
        node = tree.children()[node][token]
        path.append(node)
    drafter.observe(tree, Verified(tuple(path), emitted))


def test_every_source_alone_drafts_and_says_so() -> None:
    assert first(AutoDrafter(nothing, FIXED), 1, 2, 3, 9, 1, 2).sources[:1] == ("prompt",)
    stores = pinned([[1, 2, 7, 7]], [[5, 6, 8, 8]])
    draft = first(AutoDrafter(lambda _: stores, FIXED), 1, 2)
    assert (draft.tokens[0], draft.sources[0], draft.matches[0]) == (7, "repository", 2)
    draft = first(AutoDrafter(lambda _: stores, FIXED), 5, 6)
    assert (draft.tokens[0], draft.sources[0], draft.matches[0]) == (8, "corpus", 2)

    def frozen(shape: TableShape) -> FrozenTable:
        return build(np.array([4, 11, 12, 13, -1], np.int32), shape)

    draft = first(AutoDrafter(lambda _: replace(Pinned(), frozen=frozen), FIXED), 4)
    assert (draft.tokens[0], draft.sources[0]) == (11, "frozen")


def test_sources_that_agree_share_a_node() -> None:
    stores = pinned([[1, 2, 7, 5], [1, 2, 8, 6]], [[1, 2, 8, 9]])
    draft = first(AutoDrafter(lambda _: stores, FIXED), 1, 2, nodes=16)
    assert len(set(zip(draft.parents, draft.tokens, strict=True))) == len(draft.tokens)
    (shared,) = (node for node, token in enumerate(draft.tokens) if token == 8 and draft.parents[node] < 0)
    below = {token for token, parent in zip(draft.tokens, draft.parents, strict=True) if parent == shared}
    assert below == {6, 9}


def test_paths_leave_one_source_and_go_on_in_another() -> None:
    stores = pinned([[1, 2, 30]])
    draft = first(AutoDrafter(lambda _: stores, FIXED), 30, 31, 32, 5, 1, 2, nodes=8)
    assert draft.tokens[:3] == (30, 31, 32)
    assert draft.sources[:2] == ("repository", "prompt")


def test_rows_of_rejected_tokens_are_remembered() -> None:
    drafter = AutoDrafter(nothing, FIXED)
    first(drafter, 1)
    tree = DraftTree((1, 5), (-1, 0), 1)
    ids = np.array([[6, 7], [40, 41]])
    logits = np.array([[3.0, 0.0], [5.0, 0.0]], np.float32)
    drafter.observe(tree, Verified((), (6,), ids, logits))
    drafter.begin(context(1, 6, 5))
    draft = drafter.propose(context(1, 6, 5), 4)
    assert draft.tokens[0] == 40
    assert draft.sources[0].startswith("recycling")


def test_what_was_said_before_in_the_document_is_drafted() -> None:
    drafter = AutoDrafter(nothing, AutoParameters(width="fixed", without="recycling/recycling-pairs"))
    draft = first(drafter, 1, 2)
    say(drafter, draft, 2, 50)
    drafter.propose(context(1, 2, 50, prompt=2), 4)
    say(drafter, NO_DRAFT, 50, 51)
    assert first(drafter, 3, 50, document="other").tokens == ()
    assert first(drafter, 3, 50).sources == ("cache",)
    drafter.rename("d", "e")
    assert first(drafter, 3, 50).tokens == ()
    assert first(drafter, 3, 50, document="e").tokens == (51,)
    drafter.forget("e")
    assert first(drafter, 3, 50, document="e").tokens == ()


def test_an_outdated_suggestion_is_drafted_from_the_first_token() -> None:
    drafter = AutoDrafter(nothing, FIXED)
    asked = context(1, 2, 8, 1, 2, outdated=((20, 21, 22, 23),))
    drafter.begin(asked)
    draft = drafter.propose(asked, 3)
    assert draft.tokens == (20, 21, 22)
    assert draft.sources == ("outdated",) * 3


def test_an_old_text_is_followed_through_a_change() -> None:
    drafter, rewrite = AutoDrafter(nothing, FIXED), Rewrite((20, 21, 22, 23, 24), (9,))
    drafter.begin(context(1, 2, rewrite=rewrite))
    assert drafter.propose(context(1, 2, rewrite=rewrite), 6).tokens == (20, 21, 22, 23, 24, 9)
    draft = drafter.propose(context(1, 2, 20, 21, 50, prompt=2, rewrite=rewrite), 8)
    assert {*draft.tokens} >= {22, 23, 24, 9}
    assert {*draft.sources} == {"outdated"}
    assert 23 in [token for token, parent in zip(draft.tokens, draft.parents, strict=True) if parent < 0]
    assert first(drafter, 3, 4).tokens == ()


@pytest.mark.parametrize("cost", [CHEAP, DEAR])
def test_the_tree_is_as_wide_as_pays(cost: StepCosts) -> None:
    stores = pinned([list(range(1, 20))] * 3)
    drafter = AutoDrafter(lambda _: stores, costs=cost)
    count = len(first(drafter, *range(1, 9), nodes=32).tokens)
    assert count >= 8 if cost is CHEAP else count == 0


def test_learning_finds_the_wrong_source() -> None:
    stores = pinned([[1, 2, 7]])
    for learns in (True, False):
        drafter = AutoDrafter(lambda _: stores, AutoParameters(width="fixed", learns=learns))
        for _ in range(300):
            say(drafter, first(drafter, 1, 2, nodes=4, document=""), 2, 99)
        likely = drafter._grown.likely_N[0]
        assert bool(likely < 0.05) == learns


def test_what_was_learnt_outlives_the_program(tmp_path: Path) -> None:
    stores = pinned([[1, 2, 7]])
    kept = tmp_path / "deep" / "learnt.npz"
    drafter = AutoDrafter(lambda _: stores, FIXED, kept=kept)
    for _ in range(100):
        say(drafter, first(drafter, 1, 2, nodes=4, document=""), 2, 99)
    drafter.keep()
    learnt, again = drafter.calibration.weights, AutoDrafter(lambda _: stores, FIXED, kept=kept).calibration.weights
    np.testing.assert_allclose(learnt.logits_SC, again.logits_SC, rtol=1e-4, atol=1e-4)
    fresh = AutoDrafter(lambda _: stores, FIXED, kept=tmp_path / "other.npz").calibration.weights
    assert not np.allclose(fresh.logits_SC, learnt.logits_SC)


def test_searches_that_find_nothing_are_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    generation, searched, record = [1], list[int](), RetrievalRule.nothing

    def nothing(rule: RetrievalRule, last: int) -> None:
        searched.append(last)
        record(rule, last)

    monkeypatch.setattr(RetrievalRule, "nothing", nothing)
    drafter = AutoDrafter(lambda _: pinned([[1, 2, 3]], generation=generation[0]), FIXED)
    for _ in range(3):
        first(drafter, 9)
    assert searched == [9]
    generation[0] = 2
    first(drafter, 9)
    assert searched == [9, 9]


def test_sources_can_be_left_out() -> None:
    stores = pinned([[1, 2, 7]], [[1, 2, 8]])
    draft = first(AutoDrafter(lambda _: stores, AutoParameters(width="fixed", without="repository/prompt")), 1, 2)
    assert set(draft.sources) == {"corpus"}
    with pytest.raises(UsageError, match="nobody"):
        make("auto:without=nobody")


@pytest.mark.parametrize("kind", ADVERSARIES)
def test_rubbish_from_a_source_changes_nothing(kind: type[Adversary]) -> None:
    plain = decode(RepetitiveEngine(), NoDrafter(), request((1, 2, 3)), lambda: False)
    for costs in (None, CHEAP):
        drafter = AutoDrafter(nothing, costs=costs, more=[DrafterSource(kind(), priced=False)])
        assert decode(RepetitiveEngine(), drafter, request((1, 2, 3)), lambda: False).tokens == plain.tokens


def test_compiled_code_always_gets_the_same_types(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing looks at the types after the first call: whatever is drafted from, and kept, they must not change."""
    seen: dict[str, set[object]] = {}

    def watch(module: object, name: str) -> None:
        real: FixedTypes = getattr(module, name)

        def call(*arguments: object) -> object:
            seen.setdefault(name, set()).add(real.types(*arguments))
            return real(*arguments)

        monkeypatch.setattr(module, name, call)

    watch(auto, "grow")
    watch(evidence, "_judge")
    watch(preferences, "_learn")
    corpus = np.array([3, 5, 7, 3, 5, 8, -1], np.int32)
    full = replace(pinned([[1, 2, 7, 7]], [[5, 6, 8, 8]]), frozen=lambda shape: build(corpus, shape))
    table = tmp_path / "table.npz"
    build(corpus, TableShape()).save(table, "t")
    loaded = replace(full, frozen=lambda _: FrozenTable.load(table, "t"))
    for stores, costs, length in ((Pinned(), None, 3), (full, CHEAP, 40), (loaded, DEAR, 1000)):
        drafter = AutoDrafter(lambda _, s=stores: s, costs=costs, kept=tmp_path / "counts")  # type: ignore[misc]
        decode(RepetitiveEngine(context=4000), drafter, request((1, 2, 5) * length, 60), lambda: False)
        drafter.keep()
    assert set(seen) == {"grow", "_judge", "_learn"}
    assert [len(types) for types in seen.values()] == [1, 1, 1]


@pytest.mark.parametrize("late", [False, True])
def test_what_is_told_late_is_learnt_all_the_same(late: bool) -> None:
    stores = pinned([[1, 2, 7, 8, 9, 3]], [[5, 6, 8, 8]])
    drafter = AutoDrafter(lambda _: stores, replace(FIXED, skips=False))
    assert drafter.traits.late
    text, steps = [4, 1, 2], [(7, 8, 5), (6, 8), (3,)]
    drafter.begin(context(*text))
    untold: list[tuple[Draft, int, tuple[int, ...]]] = []
    for emitted in steps:
        draft = drafter.propose(context(*text, prompt=3), 8)
        untold.append((draft, text[-1], emitted))
        while len(untold) > late:
            asked, root, said = untold.pop(0)
            say(drafter, asked, root, *said)
        text += emitted
    for asked, root, said in untold:
        say(drafter, asked, root, *said)
    counts = drafter.calibration.counts
    assert counts.right_SC[SOURCES.index("repository")].sum() == 2  # 7, 8
    assert counts.right_SC[SOURCES.index("corpus")].sum() == 2  # 6, 8
    assert drafter._text.tokens.tolist() == text
    rules = [source.rule for source in drafter.sources if isinstance(source, StoreSource)]
    assert [rule._gained.sum() for rule in rules] == [2, 1]


def test_a_step_without_a_draft_is_judged_by_none() -> None:
    drafter = AutoDrafter(lambda _: pinned([[1, 2, 7, 8, 9]]), replace(FIXED, skips=False))
    drafter.begin(context(1, 2))
    drafted = drafter.propose(context(1, 2), 8)
    say(drafter, drafted, 2, 7, 1)
    tried = drafter.calibration.counts.tried_SC.sum()
    drafter.observe(DraftTree.chain((1,)), Verified((), (2,)))
    assert drafter.calibration.counts.tried_SC.sum() == tried
    say(drafter, drafter.propose(context(1, 2, 7, 1, 2, prompt=2), 8), 2, 7, 8, 9)
    assert drafter.calibration.counts.right_SC[SOURCES.index("repository")].sum() == 4
