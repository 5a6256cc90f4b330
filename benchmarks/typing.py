"""`bench typing`: the same keys with several kinds of context in the prompt, in reckoned time.

What was typed already is kept, a line for each part and way, so that a stopped run goes on where it ended.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from typing import Any, Literal

from benchmarks.datasets import histories, require
from benchmarks.harness import KeptRows, Reported, pooled_gain, write
from benchmarks.typist import Subset, history_parts
from benchmarks.typist.ceiling import Tree
from benchmarks.typist.reckoned import MACHINES, Clock, DiskContext, TypingEnvironment, TypingWorkload
from fastcoder_lsp.bench.report import print_table, shown
from fastcoder_lsp.cli.options import option
from fastcoder_lsp.cli.progress import progress_shown, shares
from fastcoder_lsp.completion.question import policy_of
from fastcoder_lsp.config import Settings
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.prompt import Context
from fastcoder_lsp.runtime.load import load_model, make_runtime
from fastcoder_lsp.runtime.parts import Model, Runtime, WorkspaceView

EXAMPLE = "typing --histories svcs --keys 480 --answers typing.jsonl"
ARMS = ("off", "on")
"""Values of `context.enabled`."""
_SAME = ("model", "costs", "speed", "seed")
"""Options that decide what typing a part comes to."""
Name = tuple[str, int, str]
"""A history, the number of a part, and an arm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Reported):
    """Type runs of recorded histories key by key, with each kind of context in turn, over the same keys.

    Each arm is compared with the first.
    Time is reckoned: steps and prompts take what they take on an idle machine, so that the figures are the same on a
    busy one. A part that was typed is kept in --answers: a stopped run goes on where it ended.
    """

    histories: str = option("of the folder `replay`", ",".join(histories.NAMES), metavar="NAME,…")
    arms: str = option(f"of {', '.join(ARMS)}", "off,on")
    keys: int | None = option("of each history at most (default: all of it)", None, metavar="N")
    model: str = option("a name as in the setting", "auto")
    costs: Literal["vnni", "avx2", "avx2-int4"] = option("kind of CPU whose step times to add up", "vnni")
    speed: float = option("keys a second", 3.0, metavar="KEYS")
    seed: int = option("of the runs and the rhythm", 0)
    answers: Path | None = option("file that keeps typed parts, one on each line", None, metavar="FILE")


@dataclass(frozen=True, slots=True)
class TypingResult:
    """The totals of typing a part, as `TypingTotals` and the engines have them; what --answers keeps of it.

    `computed`: prompt tokens, exchanges of snippets and work ahead included. `waits_ms`: to a tenth.
    """

    keys: int
    saved: int
    asked: int
    shown: int
    computed: int
    steps: int
    emitted: int
    waits_ms: tuple[float, ...]


def type_part(
    room: TypingEnvironment,
    part: Subset,
    files: Mapping[str, str],
    make: "MakeWithContext",
    on_key: Callable[[int], object] = lambda _: None,
) -> TypingResult:
    with TemporaryDirectory(prefix="fastcoder-typing-") as folder:
        tree = Tree(Path(folder).resolve(), files)

        def made(model: Model, clock: Clock) -> Runtime:
            return make(model, DiskContext(tree, lambda: clock.ms / 1e3))

        account, engines = room.type(TypingWorkload(part, tree, made), on_key)
    return TypingResult(
        account.typed + account.saved,
        account.saved,
        account.asked,
        account.shown,
        engines.computed,
        engines.steps,
        engines.emitted,
        tuple(round(wait_ms, 1) for wait_ms in account.waited_ms),
    )


MakeWithContext = Callable[[Model, Context], Runtime]
"""Makes the runtime over a model, with a context."""


def run(options: Options) -> int:
    arms = options.arms.split(",")
    if unknown := [arm for arm in arms if arm not in ARMS]:
        raise UsageError(f"there is no arm '{unknown[0]}'", f"Take some of: {', '.join(ARMS)}")
    if len(arms) < 2:
        raise UsageError("one arm has nothing to be compared with", f"Take some of: {', '.join(ARMS)}")
    typed = _typed(options, arms)
    names = [name for name in options.histories.split(",") if any(one == name for one, _ in typed)]
    found: dict[str, dict[str, Comparison]] = {}
    left, *others = arms
    for right in others:
        rows = found[f"{right} against {left}"] = {
            name: compared(*([typed[one][way] for one in typed if name in (one[0], "all")] for way in (left, right)))
            for name in (*names, "all")
        }
        _print(f"Accepted share: {left}, {right}", left, right, rows)
    write(options, "typing", found)
    return 0


def _print(title: str, left: str, right: str, rows: "Mapping[str, Comparison]") -> None:
    table = []
    for name, row in rows.items():
        cells = [name, int(row["keys"]), row["left"], row["right"], f"{row['gained']:+.2f} ± {row['error']:.2f}"]
        for what, form in (("tokens_{}", ".1f"), ("wait_{}_ms", ".0f"), ("mean_{}_ms", ".0f"), ("mat_{}", ".2f")):
            cells.append(" → ".join(format(row[what.format(side)], form) for side in ("left", "right")))
        table.append(cells)
    columns = ["history", "keys", f"{left} %", f"{right} %", "points", "tokens a key", "text, ms", "mean"]
    print_table(title, [*columns, "tokens a pass"], table)


def _typed(options: Options, arms: Sequence[str]) -> dict[tuple[str, int], dict[str, TypingResult]]:
    """(history, part) → what it came to in each arm; the parts that all histories have first."""
    folder = require("replay")
    parts = {
        (name, number): part
        for name in options.histories.split(",")
        for number, part in enumerate(history_parts(tuple(histories.steps(folder, name)), options.keys, options.seed))
    }
    if not parts:
        raise UsageError("nothing can be typed", "Name a history with typed runs, and some keys: --keys N")
    same = {name: getattr(options, name) for name in _SAME}
    kept = KeptRows(options.answers)
    settings = replace(Settings(), model=options.model)
    with progress_shown() as loading:
        model = load_model(settings, shares(loading))
    room = TypingEnvironment(model, MACHINES[options.costs], policy_of(settings), options.speed, options.seed)
    typed: dict[tuple[str, int], dict[str, TypingResult]] = {}
    before, total = 0, len(arms) * sum(part.keys for part in parts.values())
    with closing(model), shown("typing", total) as tell:
        for name, number in sorted(parts, key=lambda one: one[::-1]):
            typed[name, number], part = {}, parts[name, number]
            for way in arms:
                key = part_key((name, number, way), same)
                done = known_part(kept, key, part.keys)
                if done is None:
                    chosen = replace(settings, context_enabled=way != "off")

                    def make(model: Model, context: Context, chosen: Settings = chosen) -> Runtime:
                        return make_runtime(model, chosen, WorkspaceView(context=context))

                    def on_key(keys: int, before: int = before) -> None:
                        tell(before + keys)

                    done = type_part(room, part, histories.base(folder, name), make, on_key)
                    kept.put(key, **asdict(done))
                typed[name, number][way] = done
                before += part.keys
                tell(before)
    return typed


Comparison = Mapping[str, float]
"""`left` and `right` over the same parts, pooled over all keys, as `compared` makes it."""


def compared(left: Sequence[TypingResult], right: Sequence[TypingResult]) -> Comparison:
    """The comparison of at least one part, typed in both ways, in percent and points, with the error by part.

    Half of all texts are there at once and others take a step or a prompt, so that the median wait may stand at the
    edge between them, and move far for little.
    """
    keys = sum(one.keys for one in left)
    sizes = [one.keys for one in left]
    gained, error = pooled_gain([one.saved for one in left], [one.saved for one in right], sizes)
    found: dict[str, float] = {"parts": len(left), "keys": keys, "gained": 100 * gained, "error": 100 * error}
    for name, side in (("left", left), ("right", right)):
        waits = [wait_ms for one in side for wait_ms in one.waits_ms] or [0.0]
        found |= {
            name: 100 * sum(one.saved for one in side) / keys,
            f"tokens_{name}": sum(one.computed for one in side) / keys,
            f"mat_{name}": sum(one.emitted for one in side) / max(1, sum(one.steps for one in side)),
            f"wait_{name}_ms": median(waits),
            f"mean_{name}_ms": fmean(waits),
            f"shown_{name}": 100 * sum(one.shown for one in side) / max(1, sum(one.asked for one in side)),
        }
    return found


def part_key(name: Name, same: Mapping[str, Any]) -> str:
    return json.dumps([*name, dict(same)])


def known_part(kept: KeptRows, key: str, keys: int) -> TypingResult | None:
    row = kept.rows.get(key, {})
    # Another bound on the keys cuts the last parts elsewhere: they are other parts of the same number.
    if row.get("keys") != keys or row.keys() != {"key", *(field.name for field in fields(TypingResult))}:
        return None
    return TypingResult(
        **{name: value for name, value in row.items() if name != "key"} | {"waits_ms": tuple(row["waits_ms"])}
    )
