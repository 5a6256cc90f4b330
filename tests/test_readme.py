"""What README.md says in figures is what the pages of docs/ have, so that the one cannot drift from the other."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
PUBLISHED = " ".join((ROOT / "docs" / "published.md").read_text(encoding="utf-8").split())
BENCHMARKS = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")


def cells(heading: str, first: str) -> list[str]:
    section = re.split(rf"^#+ {heading}.*$", BENCHMARKS, flags=re.MULTILINE)[1]
    row = re.search(rf"^\| {re.escape(first)}[^|]*\|.*$", section, flags=re.MULTILINE)
    assert row is not None, f"no row {first!r} below {heading!r}"
    return [cell.strip(" *") for cell in row[0].strip("|").split("|")]


def figures(pattern: str) -> list[float]:
    found = re.search(pattern, README)
    assert found is not None, f"README.md has no sentence like {pattern!r}"
    return [float(number) for number in found.groups()]


def test_steps() -> None:
    one, eight = cells("What a step costs", "1 "), cells("What a step costs", "8 ")
    said = figures(
        r"one token in (\d+) ms, and checks eight tokens at once in (\d+) ms \(transformers in bf16: (\d+) and (\d+)\)"
    )
    assert said == [round(float(cell)) for cell in (one[1], eight[1], one[2], eight[2])]


def test_drafting() -> None:
    rows = re.findall(r"^\| auto \|.*\*\*([\d.]+)×\*\*", BENCHMARKS, flags=re.MULTILINE)
    assert rows, "the table of drafters for real has no row of auto"
    assert "**For real**: 12 tasks" in BENCHMARKS
    assert "**Decoding**: four RepoEval tasks" in BENCHMARKS
    older = re.search(
        r"\*\*Decoding on AVX2\*\*: .*?twelve RepoEval tasks.*?\| int8 \|(.*?)\|\n\| int4.*?\|(.*)",
        BENCHMARKS,
        re.DOTALL,
    )
    assert older is not None
    avx2, worst = ([float(row.split("|")[column]) for row in older.groups()] for column in (2, 3))
    amx = min(map(float, rows))
    *said, slowest = figures(
        r"On twelve RepoEval tasks it is ([\d.]+) times with AMX, ([\d.]+) with the AVX2 .*?, and ([\d.]+) there in "
        r"four bits, where the slowest task is at ([\d.]+)\."
    )
    assert [*said, slowest] == [*_tenths(amx, *avx2), min(worst)]


def test_drafting_on_all_tasks() -> None:
    tasks = re.search(r"side by side on (\d+) of .*?: (\d+) of the 188 of RepoEval, and (\d+) of HumanEval", PUBLISHED)
    row = re.search(r"\| `auto` \|[^|]*\|[^|]*\| ([\d.]+) \| ([\d.]+),.*?\| ([\d.]+), [\d.]+ \| \| `suffix`", PUBLISHED)
    assert tasks is not None
    assert row is not None
    worst, with_repository, without = map(float, row.groups())
    said = figures(
        r"On (\d+) RepoEval tasks this is ([\d.]+) times as fast with AVX-512 VNNI \(an EPYC\), and on (\d+) HumanEval "
        r"tasks, which have no repository, ([\d.]+) times; the slowest of all (\d+) is at ([\d.]+)\."
    )
    every, of_repoeval, of_humaneval = map(float, tasks.groups())
    times = _tenths(with_repository, without)
    assert said == [of_repoeval, times[0], of_humaneval, times[1], every, worst]


def _tenths(*factors: float) -> list[float]:
    return [int(10 * factor) / 10 for factor in factors]


def test_typing() -> None:
    histories = ("structlog", "svcs", "llama.vscode")
    times = [cells("Typing", f"{name} (")[1].split(" / ") for name in histories]
    medians = [float(each[0]) for each in times]
    said = figures(r"comes after (\d+) to (\d+) ms at the median and at most (\d+) ms at the 95th percentile")
    assert said == [min(medians), max(medians), max(float(each[1]) for each in times)]


def test_a_keystroke() -> None:
    assert "A key typed on a line usually adds one token to compute" in README
    for name in ("structlog", "svcs", "llama.vscode"):
        assert cells("Prompt tokens to compute", name)[1].split(" / ")[0] == "1"
