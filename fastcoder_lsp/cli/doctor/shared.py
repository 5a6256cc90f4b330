"""What `doctor` looks at of the process that has the model for all editors."""

from collections.abc import Iterator

from fastcoder_lsp.cli.doctor.check import Check
from fastcoder_lsp.errors import UsageError


def check_host() -> Iterator[Check]:
    """That there is a folder for it, and that what runs answers; nothing is said where none runs and one could."""
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
            text = f"the shared process {host.process_id or ''} does not answer"
            yield Check("host", "wrong", text, "End it: fastcoder-lsp host stop", details)
            continue
        model = host.told.model or "no model loaded"
        text = f"process {host.told.process_id} has {model} for {len(host.told.fronts)} editors"
        yield Check("host", "ok", text, details=details | {"fronts": len(host.told.fronts), "build": host.told.build})
