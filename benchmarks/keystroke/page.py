"""The HTML report: one page without script or network, drawn from the JSON report.

Owns the page's order and words; what stands in it is `panels`', the style is page.css.
"""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from benchmarks.keystroke import panels
from benchmarks.keystroke.ablation import ALL_ON

Found = Mapping[str, Any]
OURS = "auto"
WITH_TAB = (
    "A suggestion that agrees with what comes next for at least one whole word is accepted with Tab; what is wrong of "
    "it is deleted."
)
STRICTLY = "A suggestion is accepted where all of it comes next; its first line, where that is the rest of the line."


def page(report: Found) -> str:
    """Return the whole page."""
    style = (files("benchmarks.keystroke") / "page.css").read_text(encoding="utf-8")
    title = f"Typing {report['history']}"
    body = "\n".join(part for part in _sections(report) if part)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{escape(title)}</h1>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _sections(report: Found) -> Iterator[str]:
    drafters: Mapping[str, Found] = report["drafters"]
    speeds: Sequence[str] = report["speeds"]
    yield _lead(report)
    if drafters:
        ours = OURS if OURS in drafters else list(drafters)[-1]
        yield panels.tiles(ours, speeds[0], drafters[ours])
        yield _heading(
            "The figures", "Each drafter typed the same runs, with the same pauses, in a workspace of its own."
        )
        yield panels.table(drafters, ours)
        yield _heading(
            "How soon ghost text is there",
            "Answers that show text which the model made, and requests that were cancelled after their budget had "
            "passed, at their age then. Further left is sooner.",
        )
        yield from panels.distributions(drafters, speeds)
        yield _heading(
            "What the time of an answer is spent on",
            f"Every answer that the model gave, in the order of the session, at {speeds[0]} characters a second; "
            "milliseconds.",
        )
        yield panels.spent(drafters, speeds[0])
        yield _heading(
            "Tokens a forward pass, and who guessed them",
            "A pass gives one token of the model's own and the drafts that it accepts: together the mean accepted "
            "length (MAT), over all work of the session.",
        )
        yield panels.by_source(drafters, speeds[0])
        yield _heading("What became of the requests", "One automatic request after each key.")
        yield panels.outcomes(drafters)
        yield _heading(
            "Characters not typed",
            "Of all characters of the runs, those that accepted suggestions brought in. The line marks the ceiling: a "
            "typist who waits at every key for the full answer.",
        )
        yield panels.accepted(drafters)
        yield _heading("What each mechanism contributed", "Counts of the server, while typing.")
        yield panels.mechanisms(drafters)
    if report["ablation"]:
        yield _heading("Each mechanism switched off in turn", f"At {speeds[0]} characters a second.")
        yield panels.table(report["ablation"], ALL_ON)
    yield _method(report)


def _lead(report: Found) -> str:
    subset, machine = report["subset"], report["machine"]
    model = next((found["server"] for found in _every(report)), {"model": "", "engine": ""})
    words = (
        f"{subset['runs']} of {subset['of_runs']} recorded runs, {subset['keys']} keys, typed against the real server "
        f"at {' and '.join(report['speeds'])} characters a second. {model['model']} on {model['engine']}; "
        f"{machine['processor']}, {machine['cores']} cores; {report['date'][:10]}."
    )
    return f'<p class="lead">{escape(words)}</p>'


def _every(report: Found) -> Iterator[Found]:
    for table in ("drafters", "ablation"):
        for row in report[table].values():
            yield from row["by_speed"].values()


def _heading(title: str, why: str) -> str:
    return f'<h2>{escape(title)}</h2>\n<p class="why">{escape(why)}</p>'


def _method(report: Found) -> str:
    settings = ", ".join(f"{name} = {value}" for name, value in report["settings"].items() if value not in (None, []))
    versions = ", ".join(f"{name} {number}" for name, number in report["versions"].items())
    rows = (
        (
            "typing",
            (
                "An automatic request after each key; each edit cancels the one before. "
                f"{STRICTLY if report['settings'].get('strict') else WITH_TAB}"
            ),
        ),
        ("ceiling", "The full answers of plain decoding at the same places, by the same rule."),
        ("seed", str(report["subset"]["seed"])),
        ("settings", settings),
        (
            "system",
            (
                f"{report['machine']['system']}, Python {report['machine']['python']}, "
                f"{report['machine']['memory_bytes'] / 2**30:.0f} GiB"
            ),
        ),
        ("versions", versions),
    )
    inner = "".join(f"<dt>{escape(name)}</dt><dd>{escape(words)}</dd>" for name, words in rows)
    return f"<h2>How it was measured</h2>\n<dl>{inner}</dl>"
