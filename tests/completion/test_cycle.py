"""How far a reader has to go: the modules that one request passes through, and who holds a lock."""

import sys
from pathlib import Path
from types import FrameType

import fastcoder_lsp.completion
import fastcoder_lsp.scheduling
from fastcoder_lsp.completion.question import Policy
from tests.completion.simulated import Simulation, script

FRONT, MODEL = (Path(str(one.__file__)).parent for one in (fastcoder_lsp.completion, fastcoder_lsp.scheduling))
FILES = [*FRONT.glob("*.py"), *MODEL.glob("*.py")]
START = "x = "


def modules_of(simulation: Simulation) -> tuple[set[str], str]:
    """The modules of both packages whose functions run from a question to its answer, and that answer."""
    seen: set[str] = set()

    def profile(frame: FrameType, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.parent in {FRONT, MODEL}:
            seen.add(path.stem)

    sys.setprofile(profile)
    try:
        completion = simulation.answer(START)
    finally:
        sys.setprofile(None)
    return seen, completion.text


def test_a_plain_request_passes_through_few_modules() -> None:
    """From the arrival of a question, the model being there, to the answer that the model made."""
    simulation = Simulation(script("abc(def)\n", START), Policy(4000, 4000))
    simulation.service.preload()
    simulation.work()
    seen, text = modules_of(simulation)
    assert text == "abc(def)"
    assert {"service", "scheduler", "running", "task"} <= seen
    # What keeps fronts apart stands between the two halves: a host, a seat for each, its task, and whose turn it is.
    assert len(seen - {"direct", "seat", "current", "turns"}) <= 8, sorted(seen)


def test_no_module_is_long_and_there_are_few() -> None:
    """Packages that a person reads in an hour."""
    for folder in (FRONT, MODEL):
        lengths = {path.stem: path.read_text().count("\n") for path in folder.glob("*.py")}
        assert len(lengths) <= 14
        assert not {name: length for name, length in lengths.items() if length > 300}


def test_one_module_takes_a_lock() -> None:
    """The service's; the scheduler's state belongs to its thread."""
    taking = {
        path.stem: path.read_text().count("with self.lock") + path.read_text().count("with service.lock")
        for path in FILES
    }
    assert {name for name, count in taking.items() if count} == {"service"}
    assert taking["service"] <= 10
    assert not [path.stem for path in FILES if "Condition(" in path.read_text() or "acquire(" in path.read_text()]
