"""Requests that share an answer, extend the popup's entry or come in a storm; documents renamed and closed."""

from dataclasses import replace

from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.core import SelectedCompletion
from fastcoder_lsp.documents import MAX_CLOSED
from tests.completion.simulated import URI, Simulation, script

SAYS = "value = 1"
MODEL = script(f"{SAYS}\n", "\n")
WAIT_S = 60.0


def test_ghost_text_and_popup_share_an_answer() -> None:
    simulation = Simulation(MODEL, Policy())
    request = simulation.request("y = 3\n")
    first, second = (simulation.service.submit(request, simulation.policy) for _ in range(2))
    assert not first.done()
    first.cancel()
    simulation.work()
    assert second.result(0).text == SAYS
    assert simulation.service.statistics().shown == 1


def test_a_selected_popup_entry_is_continued() -> None:
    simulation = Simulation(script("printer(a)\n", "\n"), Policy())
    request = replace(simulation.request("\npri"), selected=SelectedCompletion(1, 4, "printer"))
    future = simulation.service.submit(request, simulation.policy)
    simulation.work()
    answer = future.result(0)
    assert (answer.text, answer.start, answer.end) == ("printer(a)", 1, 4)


def test_a_closed_document_is_forgotten() -> None:
    simulation = Simulation(MODEL, Policy())
    service = simulation.service

    def finish(uri: str, typed: str = "va") -> str:
        return simulation.answer(f"x = 2\n{typed}", uri=uri).finish

    finish(URI, "")
    service.document_renamed(URI, "file:///c.py")
    assert finish("file:///c.py") == "typed-through"
    service.document_closed("file:///c.py")
    assert finish("file:///c.py") != "typed-through"
    assert simulation.prompts.calls == [("rename", "file:///c.py")]
    service.document_closed("file:///c.py")
    for number in range(MAX_CLOSED):
        finish(f"file:///{number}.py")
        service.document_closed(f"file:///{number}.py")
    finish(URI)
    assert simulation.prompts.calls[1:] == [("forget", "file:///c.py")]
