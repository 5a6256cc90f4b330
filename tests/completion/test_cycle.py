"""How far a reader has to go: the functions that one request passes through, and who holds a lock."""

import sys
from pathlib import Path
from types import FrameType

import fastcoder_lsp.completion
import fastcoder_lsp.scheduling
from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.scheduling.scheduler import Scheduler
from tests.completion.simulated import SimulatedEngine, Simulation, script

FRONT, MODEL = (Path(str(one.__file__)).parent for one in (fastcoder_lsp.completion, fastcoder_lsp.scheduling))
FILES = [*FRONT.glob("*.py"), *MODEL.glob("*.py")]
START = "x = "


def functions_to_the_step(simulation: Simulation) -> tuple[list[str], str]:
    """The functions between the scheduler's cycle and an engine's step, and the answer."""
    paths: list[list[str]] = []

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is SimulatedEngine.step.__code__:
            path, above = list[str](), frame.f_back
            while above is not None and above.f_code is not Scheduler.turn.__code__:
                path.append(above.f_code.co_qualname)
                above = above.f_back
            paths.append(path)

    sys.setprofile(profile)
    try:
        completion = simulation.answer(START)
    finally:
        sys.setprofile(None)
    return max(paths, key=len)[::-1], completion.text


def test_a_plain_request_passes_through_few_functions() -> None:
    """From the scheduler's cycle to the engine's step, the model being there."""
    simulation = Simulation(script("abc(def)\n", START), Policy(4000, 4000))
    simulation.service.preload()
    simulation.work()
    path, text = functions_to_the_step(simulation)
    assert text == "abc(def)"
    # The last one is this engine's own: it has one KV cache, which is lent to documents.
    assert path == ["Client.serve", "Generation.work", "Decoding.step", "_Borrowed.step"]


def test_no_module_is_long_and_there_are_few() -> None:
    """Packages that a person reads in an hour."""
    for folder in (FRONT, MODEL):
        lengths = {path.stem: path.read_text().count("\n") for path in folder.glob("*.py")}
        assert len(lengths) <= 10
        assert not {name: length for name, length in lengths.items() if length > 400}


def test_one_module_takes_a_lock() -> None:
    """The service's; the scheduler's state belongs to its thread."""
    taking = {
        path.stem: path.read_text().count("with self.lock") + path.read_text().count("with service.lock")
        for path in FILES
    }
    assert {name for name, count in taking.items() if count} == {"service"}
    assert taking["service"] <= 10
    assert not [path.stem for path in FILES if "Condition(" in path.read_text() or "acquire(" in path.read_text()]
