"""The true text goes in and comes out, in six languages, short files and long; what repeats the text below is cut.

A sample of the code in `corpus/` and of Python's standard library; with `--long` all of what `scripts/fetch_data.py`
fetches.
"""

import random
import re
import sysconfig
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import pytest

from benchmarks import datasets as data
from fastcoder_lsp.postprocess import covered, finish
from fastcoder_lsp.postprocess.text_around import TextAround
from fastcoder_lsp.workspace.languages import language_of
from tests.postprocess.true_rests import TrueRest, places

CORPUS = Path(__file__).parent / "corpus"
LANGUAGES = ("python", "typescript", "javascript", "rust", "go", "c")
FURTHER = ("cpp", "java", "php", "ruby", "lua", "shellscript", "css", "html", "markdown")
"""Languages of the long test only: those of any files that are put beside the fetched ones."""
MOST_CHANGED = 0.003
"""Of all true rests of a language, those for which there is no reason."""
MOST_DROPPED = 0.005
"""The same, of those that are dropped for a reason."""
LONG = (20_000, 100_000)
"""Characters of the files that are made of several."""
BLANKS = re.compile(r"[ \t]+(?=\n|\Z)")
LOOP = re.compile(r"(.{2,40}?)\1{7}$")


def files(language: str) -> list[tuple[str, str]]:
    paths = _python() if language == "python" else sorted((CORPUS / language).glob("*.*"))
    single = [(path.name, path.read_text("utf-8")) for path in paths if not path.name.startswith("LICENSE")]
    long = []
    for length in LONG:
        texts = [text for _, text in single] * (1 + length // sum(len(text) for _, text in single))
        needed = sum(size < length for size in accumulate(len(text) + 1 for text in texts)) + 1
        long.append((f"{length} of {single[0][0]}", "\n".join(texts[:needed])))
    return single + long


def _python() -> list[Path]:
    """Files of the standard library: some at random, and the longest of the well-known."""
    library = Path(sysconfig.get_paths()["stdlib"])
    some = [path for path in sorted(library.glob("*.py")) if 2_000 < path.stat().st_size < 30_000]
    return [*random.Random(1).sample(some, 10), library / "argparse.py", library / "typing.py"]


def document(case: TrueRest, said: str) -> str:
    """What stands around the cursor when what is shown of `said` is accepted."""
    around = _around(case)
    shown = finish(said, around)
    rest = case.after[covered(shown, around) :]
    return BLANKS.sub("", case.before[-200:] + shown + rest)


def stays(case: TrueRest, said: str) -> bool:
    return document(case, said) == BLANKS.sub("", case.before[-200:] + case.truth + case.after[len(case.typed) :])


def reason(case: TrueRest) -> str:
    """Why it may be right to drop some of this true text; "" where it is not."""
    lines = case.truth.strip().split("\n")
    last = lines[-1].strip()
    around = [case.after.split("\n")[1:], case.before.split("\n")[-2::-1]]
    near = [next((line.strip() for line in side if line.strip()), "") for side in around]
    if last == near[0]:
        return "the line below says the same"
    if case.truth.strip() == near[1]:
        return "the line above says the same"
    if lines[-3:].count(lines[-1]) == 3 or LOOP.search(lines[-1]):
        return "it ends in a loop"
    return ""


def changed(cases: Iterator[TrueRest]) -> tuple[int, Counter[str], list[TrueRest]]:
    """How many cases; those that are changed for a reason, by it; those that are for none."""
    total, dropped, wrong = 0, Counter[str](), []
    for case in cases:
        total += 1
        if not stays(case, case.truth):
            why = reason(case)
            dropped[why] += bool(why)
            wrong += [] if why else [case]
    return total, dropped, wrong


def told(cases: list[TrueRest]) -> str:
    return "\n".join(
        f"{case.name} {case.cursor}, {case.extent}: {case.before[-60:]!r} + {case.truth[-200:]!r} + {case.after[:60]!r}"
        f" -> {finish(case.truth, _around(case))[-200:]!r}"
        for case in cases[:8]
    )


def check(cases: Iterator[TrueRest]) -> None:
    total, dropped, wrong = changed(cases)
    assert len(wrong) <= MOST_CHANGED * total, told(wrong)
    assert dropped.total() <= MOST_DROPPED * total, dropped


@pytest.mark.parametrize("language", LANGUAGES)
def test_true_text_is_left_alone(language: str) -> None:
    sample = files(language)
    assert max(len(text) for _, text in sample) > LONG[-1]
    check(case for name, text in sample for case in places(name, text, language, 3))


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_stands_below_already_is_still_cut(language: str) -> None:
    cut, planted = Counter[str](), Counter[str]()
    for name, text in files(language):
        for case in places(name, text, language, 1, seed=2) if len(text) < LONG[-1] else ():
            for what, said in _too_much(case):
                planted[what] += 1
                cut[what] += (
                    stays(case, said) if what != "a loop" else len(finish(said, _around(case))) < len(said) - 30
                )
    for what, least in {"the rest of the line": 0.97, "one line": 0.97, "three lines": 0.97, "a loop": 0.97}.items():
        assert planted[what] > 10 or what == "the rest of the line"
        assert cut[what] >= least * planted[what], (what, cut, planted)


def _around(case: TrueRest) -> TextAround:
    return TextAround(case.before, case.after, case.language)


def _too_much(case: TrueRest) -> Iterator[tuple[str, str]]:
    """Texts that say more than is missing."""
    if case.extent == "128 tokens" or not stays(case, case.truth):
        return
    right, *below = case.after[len(case.typed) :].split("\n")
    if right.strip():
        yield "the rest of the line", case.truth + right
        return
    told = [index for index, line in enumerate(below) if any(map(str.isalnum, line))]
    if len(told) > 2:
        yield "one line", "\n".join((case.truth, *below[: told[0] + 1]))
        yield "three lines", "\n".join((case.truth, *below[: told[2] + 1]))
    last = (case.before[case.before.rfind("\n") + 1 :] + case.truth).rpartition("\n")[2]
    if len(last.strip()) > 8 and any(map(str.isalpha, last)):
        yield "a loop", case.truth + f"\n{last}" * 6


@pytest.mark.long
@pytest.mark.parametrize("language", LANGUAGES + FURTHER)
def test_true_text_of_whole_packages(language: str) -> None:
    """The same over all files of the packages that `scripts/fetch_data.py` fetches."""
    folder = data.data_folder()
    if folder is None or not (folder / "code").is_dir():
        pytest.skip("the packages are not on this machine: scripts/fetch_data.py (FASTCODER_DATA)")
    paths = [path for path in sorted((folder / "code").rglob("*")) if language_of(path) == language and path.is_file()]
    if not paths:
        pytest.skip(f"no {language} files in {folder / 'code'}")
    texts = ((path.name, path.read_text("utf-8", errors="replace")) for path in paths)
    check(case for name, text in texts if "\f" not in text for case in places(name, text, language, 2))
