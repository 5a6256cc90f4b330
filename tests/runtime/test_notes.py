"""Diagnostics and the user's last changes in prompts: which, where, and for how long."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from fastcoder_lsp.core import Change, Diagnostic, Snapshot
from fastcoder_lsp.prompt import ContextSnippet, PromptBuilder, PromptContext, PromptOptions
from fastcoder_lsp.prompt.retrieval import LatestPrompt, account
from fastcoder_lsp.runtime.notes import MOST_CHANGED, MOST_DIAGNOSTICS, MOST_MESSAGE, NEAR_LINES, SHOWN_CHANGES
from tests.prompt.toy_tokenizers import of_family
from tests.runtime.context_folder import USE, finder, found_at, main

LINES = tuple(f"line_{number} = call({number})" for number in range(200))
CURSOR = 100


def report(line: int, message: str = "", severity: int = 1, source: str | None = None) -> Diagnostic:
    return Diagnostic(line, severity, message or f"wrong {line}", LINES[line] if source is None else source)


def notes(
    root: Path,
    lines: Sequence[str] = LINES,
    diagnostics: Sequence[Diagnostic] = (),
    changes: Sequence[Change] = (),
) -> dict[str, str]:
    """Path → text of the notes for a cursor before the line `CURSOR`."""
    text = "\n".join(lines)
    snapshot = replace(main(root, text), diagnostics=tuple(diagnostics), changes=tuple(changes))
    found = found_at(finder(root), snapshot, sum(len(line) + 1 for line in lines[:CURSOR]))
    return {one.path.removeprefix("src/app/"): one.text for one in found if one.reason}


def told(text: str = "", line: int = 90, kind: str = "error") -> str:
    return f"{kind}: {text or f'wrong {line}'}\n    {LINES[line]}"


@pytest.mark.parametrize(
    ("diagnostics", "shown"),
    [
        ([report(90, severity=2), report(95)], [told(kind="warning"), told(line=95)]),
        ([report(110), report(CURSOR + 1)], [told(line=110), told(line=CURSOR + 1)]),
        ([report(line) for line in range(80, 100)], [told(line=line) for line in range(96, 100)]),
        ([report(90, source=LINES[93])], [told("wrong 90", line=93)]),
        ([report(90, "w" * 300)], [told("w" * MOST_MESSAGE + "…")]),
        ([report(90, "twice"), report(95, "twice")], [told("twice", line=95)]),
        ([report(CURSOR)], []),
        ([report(90, source="gone()")], []),
        ([report(CURSOR - NEAR_LINES - 1)], []),
        ([report(1, severity=4)], [told(line=1, kind="unused")]),
    ],
)
def test_diagnostics_near_the_cursor(root: Path, diagnostics: list[Diagnostic], shown: list[str]) -> None:
    """The nearest last; none whose line is gone, none of the cursor's own line, which is being typed."""
    found = notes(root, diagnostics=diagnostics)
    assert found == ({"main.py.diagnostics": "\n".join(shown)} if shown else {})
    assert len(shown) <= MOST_DIAGNOSTICS


SECRET = 'password = "correct-horse-battery"'


@pytest.mark.parametrize(
    "diagnostic",
    [
        Diagnostic(90, 1, "wrong", SECRET),
        Diagnostic(91, 1, 'assigned: api_key = "sk-live-4f9a8b7c6d5e4f3a2b1c"', "use(password)"),
    ],
)
def test_no_diagnostic_tells_a_secret(root: Path, diagnostic: Diagnostic) -> None:
    lines = [*LINES[:90], SECRET, "use(password)", *LINES[92:]]
    assert notes(root, lines, [diagnostic]) == {}
    assert notes(root, lines, [replace(diagnostic, line=91, message="wrong", source="use(password)")])


def change(old: str, new: str, line: int = 10, path: str = "src/app/other.py") -> Change:
    return Change(path, line, old, new)


OWN = "src/app/main.py"


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ([change("a = 1\n", "b = 1\n")], {"other.py.diff": "-a = 1\n+b = 1"}),
        ([change("a = 1\n", "b = 1\n", path=OWN)], {"main.py.diff": "-a = 1\n+b = 1"}),
        # What was just typed is in the prompt, and so is the rest of a line that was only typed on.
        ([change("", f"{LINES[99]}\n", 99, OWN)], {}),
        ([change("old()\n", f"{LINES[99]}\n", 99, OWN)], {"main.py.diff": "-old()"}),
        ([change("", "line\n", 99, OWN), change("line\n", f"{LINES[99]}\n", 99, OWN)], {}),
        # Changes of one place are one.
        ([change("a\n\n", "b\n"), change("b\n", "\nc\n")], {"other.py.diff": "-a\n+c"}),
        ([change("a\n", "b\n"), change("b\n", "a\n")], {}),
        ([change("}\n", "")], {}),
        ([change("", "y" * MOST_CHANGED + "\n")], {}),
        ([change("x = 1\n", 'password = "correct-horse-battery"\n')], {}),
        ([change("a\n", "b\n", path="src/app/hidden.py")], {}),
        ([change("a\n", "b\n", path="src/app/.env")], {}),
        ([change("a\n", "b\n", path=path) for path in ("../x.py", "/etc/x.py", "src/../../x.py")], {}),
    ],
)
def test_the_last_changes(root: Path, changes: list[Change], shown: dict[str, str]) -> None:
    """None of a file that the rules forbid, none that tells a secret, nothing that the prompt has anyway."""
    assert notes(root, changes=changes) == shown


def test_few_changes_are_shown_the_newest_last(root: Path) -> None:
    text = "\n".join(LINES)
    many = tuple(change(f"a_{number}\n", f"b_{number}\n", 20 * number) for number in range(9))
    found = found_at(finder(root), replace(main(root, text), changes=many, diagnostics=(report(20),)), 100)
    by_worth = [one.text for one in sorted(found, key=lambda one: one.score) if one.reason]
    assert by_worth == [*(f"-a_{n}\n+b_{n}" for n in range(9 - SHOWN_CHANGES, 9)), told(line=20)]


def build(root: Path, builder: PromptBuilder, text: str, *reports: Diagnostic) -> tuple[int, ...]:
    at = main(root, text)
    return builder.build(replace(at, diagnostics=reports), len(text)).tokens


def test_no_key_recomputes_a_prompt(root: Path) -> None:
    """What is reported while somebody types waits for the next plan; it stands behind the code of other files."""
    builder = PromptBuilder(of_family("Qwen2.5-Coder"), PromptOptions(context_tokens=600), finder(root))
    reports = [Diagnostic(2, 1, f"wrong {number}", "store = Store()") for number in range(3)]
    first = build(root, builder, USE, reports[0])
    for typed, told_now in (("p", ()), ("pu", (reports[1],)), ("put", (reports[1], reports[2]))):
        assert build(root, builder, USE + typed, *told_now)[: len(first) - 4] == first[: len(first) - 4]
    shown = builder.shown(main(root).uri)
    assert shown is not None
    assert shown.text.index("store.py") < shown.text.index("wrong 0") < shown.text.index("<|fim_prefix|>")
    at = replace(main(root, USE + "put"), diagnostics=(reports[1],))
    builder.plan(at, len(at.text))
    builder.exchange(at, len(at.text))
    assert builder.context_of(at.uri)[-1] == "src/app/main.py.diagnostics"
    shown = builder.shown(at.uri)
    assert shown is not None
    assert "wrong 1" in shown.text
    assert "wrong 0" not in shown.text


def test_a_prompt_keeps_its_notes_while_they_hold(root: Path) -> None:
    context, text = finder(root), USE
    note = Diagnostic(2, 1, "wrong", "store = Store()")

    def find(snapshot: Snapshot, kept: PromptContext | None) -> PromptContext:
        return context.find(snapshot, len(text), (0, len(text)), kept)

    at = replace(main(root), diagnostics=(note,), changes=(change("a\n", "b\n"),))
    kept = find(at, None)
    more = replace(at, diagnostics=(note, Diagnostic(0, 1, "also", "from app.store import Store")))
    assert find(more, kept) is kept
    assert find(replace(at, changes=(*at.changes, change("c\n", "d\n", 40))), kept) is kept
    for settled in (replace(at, diagnostics=()), replace(at, changes=())):
        assert find(settled, kept) is not kept
    only_notes = replace(kept, snippets=tuple(one for one in kept.snippets if one.reason))
    assert find(at, only_notes) is not only_notes


def test_users_are_told_why_a_note_is_there(root: Path) -> None:
    found = PromptContext((ContextSnippet("a.py.diff", "-a", reason="changed lately", tokens=3),))
    assert "a.py.diff: 3 tokens, score 0.0: changed lately" in "\n".join(account(LatestPrompt("", 9, found), USE, 0))
