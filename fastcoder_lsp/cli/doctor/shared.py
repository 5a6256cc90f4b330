"""`doctor`'s checks of the shared model process."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fastcoder_lsp.cli.doctor.check import Check
from fastcoder_lsp.errors import UsageError

if TYPE_CHECKING:
    from fastcoder_lsp.host.transport import Fronts

_STOP = "To end it, run: fastcoder-lsp host stop"


def check_host() -> Iterator[Check]:
    """Whether its folder exists and running processes answer; no finding if none runs and one could."""
    from fastcoder_lsp.host.address import runtime_folder
    from fastcoder_lsp.host.control import find_hosts

    try:
        folder = runtime_folder()
    except UsageError as error:
        yield Check("host", "wrong", error.message, error.hint)
        return
    for host in find_hosts():
        details: dict[str, object] = {"folder": str(folder), "process_id": host.process_id}
        if host.told is None:
            yield Check("host", "wrong", f"the shared process {host.process_id or ''} does not answer", _STOP, details)
        else:
            yield _at_work(host.told, details)


def _at_work(told: "Fronts", details: dict[str, object]) -> Check:
    """A process that answers: how many editors it serves, and whose turn it is."""
    asking = [front.process_id for front in told.fronts if front.asking]
    turn = next((front.process_id for front in told.fronts if front.turn), None)
    details |= {"fronts": len(told.fronts), "asking": asking, "turn": turn, "build": told.build, "nice": told.nice}
    text = f"process {told.process_id}: {told.model or 'no model loaded yet'}, editors connected: {len(told.fronts)}"
    if asking:
        text += f", {len(asking)} of them waiting for a suggestion"
    if turn is not None:
        text += f"; it works for process {turn}"
    if told.nice:
        slow = f"{text}; it runs at low priority (nice {told.nice}), like the editor that started it"
        return Check("host", "note", slow, f"{_STOP}. An editor at normal priority then starts a new one.", details)
    return Check("host", "ok", text, details=details)
