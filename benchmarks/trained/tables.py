"""The short tables of `bench trained`: counts, speed, quality, before tuning and after."""

from collections.abc import Mapping
from typing import Any

from benchmarks.quality.scores import Mean, paired
from fastcoder_lsp.bench.report import print_table


def tell(results: Mapping[str, Any]) -> None:
    """Print short tables of the results."""
    sides = [side for side in ("before", "after") if side in results]
    if "note" in results:
        print(f"Note: {results['note']}.")  # noqa: T201 a benchmark's result
    rows: list[tuple[object, ...]] = []
    for side in sides:
        found = results[side]
        for block, count in found.get("jacobi", {}).items():
            rows.append((f"{side}: jacobi n={block}", count["fast_forward"], count["stationary"], ""))
        for k, count in found.get("sdsat", {}).items():
            rows.append((f"{side}: sdsat k={k}", count["tokens_a_pass"], "", count["accepted"]))
    if rows:
        loops = ", ".join(f"{side} {results[side]['distinct_4_grams']:.2f}" for side in sides)
        print_table(
            f"Counts; distinct 4-grams: {loops}", ("what", "tokens a pass", "stationary", "accepted of k"), rows
        )
    speeds = [
        (f"{side}: {name}", r["plain_ms_per_token"], r["ms_per_token"], r["speedup"], r["mat"], r["identical"])
        for side in sides
        for name, r in results[side].get("speed", {}).items()
    ]
    if speeds:
        print_table("Speed", ("drafter", "plain ms/token", "ms/token", "speed-up", "MAT", "identical"), speeds)
    for measure in ("exact", "functional"):
        scored = {side: results[side][measure] for side in sides if measure in results[side]}
        means = {side: Mean.of(list(values.values())) for side, values in scored.items()}
        lines = [(side, 100 * mean.mean, 100 * mean.standard_error, mean.tasks) for side, mean in means.items()]
        if len(scored) == 2 and (change := paired(scored["before"], scored["after"])) is not None:
            lines.append(("change", 100 * change.mean, 100 * change.standard_error, change.tasks))
        if lines:
            print_table(f"Single-line infilling, {measure}, percent", ("model", "mean", "s.e.", "tasks"), lines)
