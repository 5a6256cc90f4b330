"""`bench typing` and `bench sharing`: people who type at one model in simulated time."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from benchmarks.datasets.histories import RecordedEdit, Step, apply
from benchmarks.harness import KeptRows
from benchmarks.typing import TypingResult, compared, known_part, part_key, type_part
from benchmarks.typist import LONGEST_RUN, Subset, history_parts
from benchmarks.typist.ceiling import Tree
from benchmarks.typist.reckoned import MACHINES, Clock, DiskContext, TypingEnvironment, TypingTotals, TypingWorkload
from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.core import Snapshot, StepCosts
from fastcoder_lsp.prompt import Context
from fastcoder_lsp.runtime.costs import believable
from fastcoder_lsp.runtime.parts import Model, Runtime
from tests.completion.toys import Encoding, toy_model, toy_runtime
from tests.fake_engine import SayingEngine
from tests.host.test_local import SAYS


def runs(count: int, length: int = 60) -> tuple[Step, ...]:
    return tuple(RecordedEdit("a.py", 0, 0, "x" * length + "\n", typed=True) for _ in range(count))


def test_each_run_is_in_one_part_and_no_long_one_in_any() -> None:
    steps = (
        *runs(20),
        RecordedEdit("a.py", 0, 0, "y" * (LONGEST_RUN + 1) + "\n", typed=True),
        RecordedEdit("a.py", 0, 0, "z", False),
    )
    for seed in (0, 1):
        parts = history_parts(steps, None, seed)
        assert sorted(place for part in parts for place in part.typed) == list(range(20))
        assert [part.keys for part in parts] == [240] * 5
    assert history_parts(steps, None, 0) != history_parts(steps, None, 1)
    assert [part.keys for part in history_parts(steps, 130, 0)] == [120]


def test_code_is_found_in_the_tree_as_it_is_at_that_moment(tmp_path: Path) -> None:
    disk = Tree(tmp_path, {"a.py": "", "b.py": "def frobnicate(gizmo):\n    return gizmo\n"})
    context, text = DiskContext(disk, lambda: 0.0), "gizmo = 1\nfrobnicate(gizmo)\n"
    snapshot = Snapshot("file:///a.py", "/a.py", "python", 1, text)
    assert [one.path for one in context.find(snapshot, 10, (0, len(text))).snippets] == ["b.py"]
    apply(disk, RecordedEdit("b.py", 0, 0, "# whose\n", typed=False))
    [found] = context.find(snapshot, 10, (0, len(text))).snippets
    assert found.text.startswith("# whose")
    assert context.may_show({str(tmp_path / "b.py")})


def test_the_same_keys_are_typed_whatever_is_found() -> None:
    model = toy_model(SayingEngine(SAYS), Encoding())
    given: list[Context] = []

    def make(shared: Model, seat: str, context: Context) -> Runtime:
        given.append(context)
        return toy_runtime(shared, front=seat)

    files = {"a.py": ""}
    step = RecordedEdit("a.py", 0, 0, f"{SAYS}\n", typed=True)
    part = Subset((step,), frozenset({0}), 1, len(SAYS))
    room = TypingEnvironment(model, StepCosts((1, 2), (20.0, 30.0), 0.5), Policy(), speed=3.0, seed=0)
    told: list[int] = []
    first, second = (type_part(room, part, files, make, told.append) for _ in range(2))
    assert told[: len(told) // 2] == sorted(told[: len(told) // 2])
    assert told[-1] == len(SAYS)
    assert first == second
    assert files == {"a.py": ""}
    assert (first.keys, first.saved > 0) == (len(SAYS), True)
    assert first.shown <= first.asked
    assert first.emitted >= first.steps > 0
    assert len(first.waits_ms) == first.shown
    assert min(first.waits_ms, default=0.0) >= 0
    assert all(isinstance(context, DiskContext) for context in given)


ONE = TypingResult(
    keys=100, saved=40, asked=10, shown=5, computed=300, steps=10, emitted=30, waits_ms=(0.0, 0.0, 2.0, 400.0, 600.0)
)


@pytest.mark.parametrize(("more", "gained", "error"), [((10, 10), 10.0, 0.0), ((0, 10), 5.0, 5.0), ((-5,), -5.0, 0.0)])
def test_a_difference_is_pooled_over_keys_and_its_error_taken_by_part(
    more: tuple[int, ...], gained: float, error: float
) -> None:
    left = [ONE] * len(more)
    right = [
        replace(ONE, saved=ONE.saved + one, computed=330, waits_ms=(0.0, 3.0, 9.0, 400.0, 600.0), steps=15)
        for one in more
    ]
    found = compared(left, right)
    assert [found[name] for name in ("parts", "keys", "gained", "error")] == [len(more), 100 * len(more), gained, error]
    names = ("{}", "tokens_{}", "mat_{}", "wait_{}_ms", "mean_{}_ms", "shown_{}")
    sides = [[found[name.format(side)] for name in names] for side in ("left", "right")]
    assert sides == [pytest.approx([40, 3, 3, 2, 200.4, 50]), pytest.approx([40 + gained, 3.3, 2, 9, 202.4, 50])]


def test_a_stopped_run_goes_on_with_what_was_typed_by_the_same_options(tmp_path: Path) -> None:
    file, same = tmp_path / "typing.jsonl", {"model": "auto", "speed": 3.0}
    key, other = part_key(("svcs", 0, "on"), same), part_key(("svcs", 0, "on"), same | {"speed": 5.0})
    KeptRows(file).put(key, **asdict(ONE))
    kept = KeptRows(file)
    assert known_part(kept, key, ONE.keys) == ONE
    assert known_part(kept, key, ONE.keys - 1) is None
    assert known_part(kept, other, ONE.keys) is None
    file.write_text(file.read_text().replace('"saved"', '"spared"'))
    assert known_part(KeptRows(file), key, ONE.keys) is None


def test_kept_rows_survive_a_line_that_was_cut_short(tmp_path: Path) -> None:
    file = tmp_path / "new" / "rows.jsonl"
    KeptRows(file).put("a", text="one")
    file.write_text(file.read_text() + '{"key": "tor')
    KeptRows(file).put("b", text="two")
    KeptRows(file).put("a", text="three")
    assert KeptRows(file).rows == {"a": {"key": "a", "text": "three"}, "b": {"key": "b", "text": "two"}}
    nowhere = KeptRows(None)
    nowhere.put("a", text="one")
    assert nowhere.rows["a"]["text"] == "one"


COSTS = StepCosts((1, 2), (20.0, 30.0), 0.5)


@pytest.fixture
def room() -> TypingEnvironment:
    model = toy_model(SayingEngine(SAYS), Encoding())
    return TypingEnvironment(model, COSTS, Policy(), speed=3.0, seed=0)


def make(model: Model, seat: str, _clock: Clock) -> Runtime:
    return toy_runtime(model, front=seat)


def text(*runs: str) -> TypingWorkload:
    """A file that grows by runs of whole lines at its end."""
    steps, length = [], 0
    for run in runs:
        steps.append(RecordedEdit("a.py", length, 0, run, typed=True))
        length += len(run)
    return TypingWorkload(
        Subset(tuple(steps), frozenset(range(len(runs))), len(runs), length - len(runs)), {"a.py": ""}, make
    )


@pytest.mark.parametrize("costs", MACHINES.values())
def test_the_scheduler_believes_the_machines_that_are_reckoned_with(costs: StepCosts) -> None:
    assert believable(costs)


def test_what_is_suggested_and_true_is_not_typed(room: TypingEnvironment) -> None:
    [account], _ = room.type([text(f"{SAYS}\n", f"{SAYS} or two\n")])
    assert account.typed + account.saved == 2 * len(SAYS) + len(" or two")
    assert account.saved >= len(SAYS)
    assert account.accepted == account.saved / (account.typed + account.saved)
    assert TypingTotals().accepted == 0.0
    assert account.shown <= account.asked
