"""Which work is the most urgent: a function of the clients' state, which changes nothing."""

from fastcoder_lsp.edits.values import EditQuestion
from fastcoder_lsp.scheduling.scheduler import choose
from tests.scheduling.several_fronts import HURRIED, START, loaded
from tests.scheduling.shared import Shared

QUIET = ["prepare", "prepare", "defer"]


def chosen(shared: Shared, *, successor: bool = False) -> list[str]:
    shared.scheduler._receive()
    clients = shared.scheduler._clients
    kinds: list[str] = [piece.kind for piece in choose(clients, successor=successor)]
    assert kinds == [piece.kind for piece in choose(clients, successor=successor)], "it changes nothing"
    return kinds


def test_a_request_comes_before_all_else() -> None:
    shared, (one, two) = loaded(2, HURRIED)
    shared.work()
    assert chosen(shared) == QUIET
    edit = EditQuestion(0, "file:///a.py", "a.py", "python", 1, "x", 0, ())
    two.service.edits.submit(edit)
    assert chosen(shared) == ["edit", *QUIET]
    two.service.accepted(two.request(START), HURRIED)
    assert chosen(shared, successor=True) == ["hand over", "begin", "edit", *QUIET]
    futures = [one.ask(START), two.ask(START)]
    assert chosen(shared, successor=True) == ["serve"]
    [piece] = choose(shared.scheduler._clients, successor=False)
    assert piece.client is not None
    assert piece.client not in piece.others
    assert len(piece.others) == 1
    for future in futures:
        future.cancel()
    assert "serve" not in chosen(shared)
