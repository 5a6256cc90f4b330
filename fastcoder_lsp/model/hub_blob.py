"""One big file of the hub's: fetched with resume, even after a kill, and checked before it gets its name.

Owns that download alone. The hub's client starts such a file anew whenever its process ends; what is put in place here,
it then finds in its cache.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fastcoder_lsp.errors import ModelInvalidError
from fastcoder_lsp.model.digest import sha256_file

TRIES = 4
"""How often a connection that brings nothing is tried."""
PAUSE_S = 1.0
TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Blob:
    """A file of a repository at one commit, of `size` bytes with the sum `sha256`."""

    hub_id: str
    commit: str
    name: str
    size: int
    sha256: str


def transport_error() -> type[Exception]:
    """What the client raises when a connection fails."""
    from huggingface_hub.errors import HfHubHTTPError  # noqa: PLC0415

    # The client's transport differs between its versions (httpx, httpx2): this is the base of all its errors.
    base: type[Exception] = HfHubHTTPError.__bases__[0]
    return base


def fetch_blob(blob: Blob, blobs: Path, advance: Callable[[int], None]) -> None:
    """Make `blobs/SHA256`, going on from what an earlier try left; `advance` is told the bytes that are here.

    Raises:
        ModelInvalidError: the sum is wrong; the file was deleted.
        OSError, that of `transport_error`: the download failed; what came is kept.
    """
    partial = blobs / f"{blob.sha256}.fastcoder.incomplete"
    partial.touch()
    here, tries = partial.stat().st_size, 0
    while here < blob.size:
        failure: Exception = OSError("the connection closed early")
        try:
            _fetch_rest(blob, partial, here, advance)
        except transport_error() as error:
            failure = error
        before, here = here, min(partial.stat().st_size, blob.size)
        tries = 0 if here > before else tries + 1
        if tries == TRIES:
            raise failure
        if here < blob.size:
            time.sleep(PAUSE_S)
    if sha256_file(partial) != blob.sha256:
        partial.unlink()
        raise ModelInvalidError(
            f"{blob.name} of {blob.hub_id} has a wrong SHA-256 sum, and was deleted", "Download it again."
        )
    partial.replace(blobs / blob.sha256)


def _fetch_rest(blob: Blob, partial: Path, here: int, advance: Callable[[int], None]) -> None:
    """One request for the bytes from `here` on, appended as they come."""
    from huggingface_hub import get_session, hf_hub_url  # noqa: PLC0415
    from huggingface_hub.utils import (  # type: ignore[attr-defined] # noqa: PLC0415 documented, not in its __all__
        build_hf_headers,
        hf_raise_for_status,
    )

    headers = build_hf_headers() | {"Range": f"bytes={here}-", "Accept-Encoding": "identity"}
    url = hf_hub_url(blob.hub_id, blob.name, revision=blob.commit)
    request = get_session().stream("GET", url, headers=headers, follow_redirects=True, timeout=TIMEOUT_S)
    with request as response, partial.open("r+b") as file:
        hf_raise_for_status(response)
        if response.status_code != 206:  # the whole file: this server knows no ranges
            here = 0
        file.seek(here)
        file.truncate()
        for chunk in response.iter_bytes():  # as they come: a broken connection then loses none
            file.write(chunk[: blob.size - here])
            here += len(chunk)
            advance(min(here, blob.size))
            if here > blob.size:
                break  # more than it should be: the sum will tell
