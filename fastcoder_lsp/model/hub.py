"""The hub and its cache on this disk: which models are there, and downloads with resume.

Takes configuration, tokenizer and safetensors or GGUF weights; never pickles, never code. Files are downloaded here and
not by the hub's client, which starts a big file anew whenever its process ends, and makes paths of the server's
headers. Here they are checked before they get their names, in the layout of the client's cache.
"""

import fnmatch
import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastcoder_lsp.core.files import replace_file
from fastcoder_lsp.errors import ModelInvalidError, ModelMissingError, NetworkError
from fastcoder_lsp.model.downloads import Dialogue, DownloadOffer, ProgressStep
from fastcoder_lsp.model.files import INDEX, PICKLE_HINT, PICKLE_MESSAGE, PICKLE_SUFFIXES, WEIGHTS, is_complete
from fastcoder_lsp.model.store import BLOCK, FORBIDDEN, FULL, folder_bytes, require_space, sha256_file, write_error

DESCRIPTIONS = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
)
SHARDS = "model-*-of-*.safetensors"
REACH_TIMEOUT_S = 10.0
_PLAIN_NAME = re.compile(r"\w[\w .+=@,()-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_BLOB_ID = re.compile(r"[0-9a-f]{40}")
_MOST_UNSIZED = 200_000_000  # of a file whose size neither the hub's list nor the answer says


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a repository.

    Raises ModelInvalidError for a name or a sum that could lead to another place of this disk: they become paths.

    Attributes:
        name: its name in the top folder.
        size: its bytes; 0 if a mirror does not say.
        sha256: empty for small files, for which the hub has `blob_id` only.
        blob_id: git's SHA-1 of a small file; empty if a mirror does not say.
    """

    name: str
    size: int
    sha256: str
    blob_id: str = ""

    def __post_init__(self) -> None:
        sums = ((self.sha256, _SHA256), (self.blob_id, _BLOB_ID))
        if (
            _PLAIN_NAME.fullmatch(self.name)
            and all(not said or form.fullmatch(str(said)) for said, form in sums)
            and type(self.size) is int
            and self.size >= 0
        ):
            return
        raise ModelInvalidError(
            f"the hub's name, size or sum of a file is refused: {self.name!r}, {self.size!r}, "
            f"{self.sha256 or self.blob_id!r}",
            "Check that HF_ENDPOINT names a hub that you trust, or use another model.",
        )

    @property
    def blob(self) -> str:
        """Its name among the cache's blobs; empty if only its content can tell."""
        return self.sha256 or self.blob_id


@dataclass(frozen=True, slots=True)
class HubModel:
    """The files of a model in a repository, at one commit."""

    hub_id: str
    commit: str
    licence: str
    files: tuple[RemoteFile, ...]


def cached(hub_id: str) -> Path | None:
    """The snapshot of a repository in the hub's cache, if all files of a model are in it."""
    for snapshot in _snapshots(repository_folder(hub_id)):
        if is_complete(snapshot):
            return snapshot
    return None


def cached_gguf(hub_id: str) -> Path | None:
    """The GGUF in the hub's cache of a repository that has its weights only in one."""
    for snapshot in _snapshots(repository_folder(hub_id)):
        found = sorted(snapshot.glob("*.gguf"))
        if len(found) == 1 and not is_complete(snapshot):
            return found[0]
    return None


def cached_ids() -> list[str]:
    """The repositories in the hub's cache that hold a whole model."""
    prefix = "models--"
    folders = sorted(_cache().glob(f"{prefix}*"))
    ids = [folder.name.removeprefix(prefix).replace("--", "/", 1) for folder in folders]
    return [hub_id for hub_id in ids if cached(hub_id) is not None]


def unfinished_bytes(hub_id: str) -> int:
    """Bytes of a repository's unfinished download; 0 where there is none."""
    blobs = repository_folder(hub_id) / "blobs"
    return folder_bytes(blobs) if any(blobs.glob("*.incomplete")) else 0


def repository_folder(hub_id: str) -> Path:
    """Where the hub's cache keeps a repository."""
    return _cache() / f"models--{hub_id.replace('/', '--')}"


def is_of_precision(file: str, precision: str) -> bool:
    """Whether a file is named as a whole GGUF of this precision, such as Q4_K_M; capitals do not count."""
    return re.search(rf"(?<![^\W_]){re.escape(precision)}\.gguf$", file, re.IGNORECASE) is not None


def look_up(hub_id: str, precision: str = "") -> HubModel:
    """Ask the hub for the files of a model; of one of its GGUFs where `precision` names it.

    Raises:
        NetworkError: the hub cannot be reached.
        ModelMissingError: it has no such model, or access is denied.
        ModelInvalidError: the model has no safetensors weights.
    """
    from huggingface_hub import HfApi  # noqa: PLC0415 a tenth of a second, and `find` needs none of it
    from huggingface_hub.errors import (  # noqa: PLC0415
        GatedRepoError,
        HFValidationError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
    )

    try:
        info = HfApi().model_info(hub_id, files_metadata=True, timeout=REACH_TIMEOUT_S)
    except GatedRepoError as error:
        hint = f"Accept its licence at https://huggingface.co/{hub_id} and log in: hf auth login"
        raise ModelMissingError(f"{hub_id} needs its publisher's permission", hint) from error
    except (RepositoryNotFoundError, HFValidationError) as error:
        hint = "Check the spelling (owner/name). For a private model, log in: hf auth login"
        raise ModelMissingError(f"the hub has no model {hub_id}", hint) from error
    except OfflineModeIsEnabled as error:
        raise NetworkError(
            "the variable HF_HUB_OFFLINE forbids downloads from the hub", "Unset HF_HUB_OFFLINE and try again."
        ) from error
    # A login page answers in HTML, which is no JSON; the client takes JSON of another form for the hub's.
    except (transport_error(), OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise unreachable(error) from error
    if not isinstance(info.sha, str) or not _COMMIT.fullmatch(info.sha):
        raise unreachable(ValueError("its answer names no commit"))
    siblings = info.siblings or []
    by_name = {str(one.rfilename): one for one in siblings}
    chosen = (by_name[name] for name in choose_files(hub_id, list(by_name), precision))
    files = tuple(
        RemoteFile(one.rfilename, one.size or 0, *((one.lfs.sha256, "") if one.lfs else ("", one.blob_id or "")))
        for one in chosen
    )
    card = info.card_data
    licence = str(getattr(card, "license", None) or "not stated")
    return HubModel(hub_id, info.sha, licence, files)


def unreachable(error: Exception) -> NetworkError:
    """The error for a hub that does not answer, or whose answer breaks off."""
    reason = str(error).strip().partition("\n")[0] or type(error).__name__
    return NetworkError(f"the hub cannot be reached ({reason})", "Check the connection, and try again.")


def choose_files(hub_id: str, names: Sequence[str], precision: str = "") -> tuple[str, ...]:
    """The files of a repository that make a model: descriptions and safetensors weights of its top folder, or a GGUF.

    Raises ModelInvalidError if it has no safetensors weights, and not exactly one GGUF (of `precision`, if given).
    """
    ggufs = [name for name in names if name.endswith(".gguf") and "/" not in name]
    if precision:
        found = [name for name in ggufs if is_of_precision(name, precision)]
        if len(found) == 1:
            return (found[0],)
        hint = f"It has: {', '.join(ggufs)[:300]}" if ggufs else "Name a repository that has GGUF files."
        raise ModelInvalidError(f"{hub_id} has no single GGUF file of {precision}", hint)
    weights = [WEIGHTS] if WEIGHTS in names else [INDEX] if INDEX in names else []
    if weights == [INDEX]:
        weights += sorted(name for name in fnmatch.filter(names, SHARDS) if "/" not in name)
    if not weights:
        if any(Path(name).suffix in PICKLE_SUFFIXES for name in names):
            raise ModelInvalidError(f"{hub_id} {PICKLE_MESSAGE}", PICKLE_HINT)
        if len(ggufs) == 1:
            return (ggufs[0],)
        if any(name.endswith(".gguf") for name in names):
            hint = f"Add the precision of one of them: {hub_id}:Q4_K_M"
            raise ModelInvalidError(f"{hub_id} has several GGUF files only", hint)
        raise ModelInvalidError(f"{hub_id} has no safetensors weights", "Use another model.")
    if "tokenizer.json" not in names:
        raise ModelInvalidError(f"{hub_id} has no tokenizer.json", "Use a model with a fast tokenizer.")
    return tuple(name for name in (*DESCRIPTIONS, *weights) if name in names)


def fetch(remote: HubModel, dialogue: Dialogue) -> Path:
    """Download a model's missing files into the hub's cache and check every sum; returns the model's folder.

    Raises:
        NetworkError: the download could not be finished; finished parts are kept.
        ModelInvalidError: a sum is wrong; that file was deleted.
        ResourceError: the disk is full.
    """
    cache, blobs = _cache(), repository_folder(remote.hub_id) / "blobs"
    total = sum(file.size for file in remote.files)
    here = sum(_bytes_here(file, blobs) for file in remote.files)

    def advance(here: int) -> None:
        dialogue.advance(ProgressStep(remote.hub_id, done + here, total))

    dialogue.announce(
        DownloadOffer(
            what=remote.hub_id,
            download_bytes=total - here,
            disk_bytes=total - here,
            origin=f"the hub, commit {remote.commit[:12]}",
            licence=remote.licence,
            folder=str(cache),
        )
    )
    dialogue.advance(ProgressStep(remote.hub_id, here, total))
    try:
        blobs.mkdir(parents=True, exist_ok=True)
        require_space(cache, total - here + (16 << 20), f"downloading {remote.hub_id}")
        done, found = 0, {}
        for file in remote.files:
            found[file.name] = blobs / file.blob
            if not found[file.name].is_file():
                found[file.name] = (fetch_blob if file.sha256 else _fetch_whole)(remote, file, blobs, advance)
            done += file.size
        return _make_snapshot(remote, found)
    except transport_error() as error:
        raise unreachable(error) from error
    except OSError as error:
        if error.errno in (*FULL, *FORBIDDEN):
            raise write_error(error, cache, f"downloading {remote.hub_id}") from error
        raise unreachable(error) from error
    except ValueError as error:
        raise unreachable(error) from error


def _make_snapshot(remote: HubModel, blobs: dict[str, Path]) -> Path:
    """The folder of the commit, whose files are links to `blobs`, and `main` as its name."""
    repository = repository_folder(remote.hub_id)
    folder = repository / "snapshots" / remote.commit
    folder.mkdir(parents=True, exist_ok=True)
    for name, blob in blobs.items():
        place = folder / name
        if place.exists() and place.samefile(blob):
            continue
        place.unlink(missing_ok=True)
        try:
            place.symlink_to(os.path.relpath(blob, folder))
        except OSError:  # Windows, where links need a permission
            shutil.copyfile(blob, place)
    (repository / "refs").mkdir(exist_ok=True)
    replace_file(repository / "refs" / "main", remote.commit.encode())
    return folder


def _partial(blobs: Path, sha256: str) -> Path:
    return blobs / f"{sha256}.fastcoder.incomplete"


def _bytes_here(file: RemoteFile, blobs: Path) -> int:
    for path in (blobs / file.blob, _partial(blobs, file.blob)) if file.blob else ():
        with suppress(OSError):
            return min(path.stat().st_size, file.size)
    return 0


def _cache() -> Path:
    from huggingface_hub.constants import HF_HUB_CACHE  # noqa: PLC0415 10 ms

    return Path(HF_HUB_CACHE)


def _snapshots(repository: Path) -> list[Path]:
    """Snapshots, the one of `main` first, then the newest."""
    snapshots = repository / "snapshots"
    try:
        main = (repository / "refs" / "main").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        main = ""
    try:
        others = sorted(snapshots.iterdir(), key=lambda folder: folder.lstat().st_mtime, reverse=True)
    except OSError:
        return []
    return sorted(others, key=lambda folder: folder.name != main)


TRIES = 4  # tries in a row without a byte before the download fails
PAUSE_S = 1.0
TIMEOUT_S = 30.0


def transport_error() -> type[Exception]:
    """The client's error for a failed connection."""
    from huggingface_hub.errors import HfHubHTTPError  # noqa: PLC0415

    # The client's transport differs between its versions (httpx, httpx2): this is the base of all its errors.
    base: type[Exception] = HfHubHTTPError.__bases__[0]
    return base


def fetch_blob(remote: HubModel, blob: RemoteFile, blobs: Path, advance: Callable[[int], None]) -> Path:
    """Download `blobs/SHA256`, resuming an earlier try; `advance` receives the bytes that are here.

    Raises ModelInvalidError if the sum is wrong (the file was deleted), OSError (that of `transport_error`) if the
    download failed; the part that came is kept.
    """
    partial = _partial(blobs, blob.sha256)
    partial.touch()
    here, tries = partial.stat().st_size, 0
    while here < blob.size:
        failure: Exception = OSError("the connection closed early")
        try:
            _fetch_rest(remote, blob, partial, here, advance)
        except transport_error() as error:
            failure = error
        before, here = here, min(partial.stat().st_size, blob.size)
        tries = 0 if here > before else tries + 1
        if tries == TRIES:
            raise failure
        if here < blob.size:
            time.sleep(PAUSE_S)
    _check(blob, sha256_file(partial), partial, f"{blob.name} of {remote.hub_id}")
    return partial.replace(blobs / blob.sha256)


def _check(blob: RemoteFile, found: str, partial: Path, what: str) -> None:
    if blob.blob in ("", found):
        return
    partial.unlink()
    raise ModelInvalidError(
        f"{what} has a wrong {'SHA-256' if blob.sha256 else 'SHA-1'} sum, and was deleted", "Download it again."
    )


def _fetch_whole(remote: HubModel, blob: RemoteFile, blobs: Path, advance: Callable[[int], None]) -> Path:
    """Download a file without a SHA-256 sum; its name among the blobs is git's id of its content.

    Raises as `fetch_blob`; nothing that came is kept after a failure.
    """
    partial = _partial(blobs, blob.blob or "unnamed")
    for left in reversed(range(TRIES)):
        try:
            with _response(remote, blob, {}) as response, partial.open("wb") as file:
                most, here = blob.size or _length(response, blobs), 0
                for chunk in response.iter_bytes():
                    file.write(chunk)
                    here += len(chunk)
                    advance(min(here, blob.size))
                    if here > most:
                        break  # more than it should be
            break
        except transport_error():
            partial.unlink(missing_ok=True)
            if not left:
                raise
            time.sleep(PAUSE_S)
        except OSError:
            partial.unlink(missing_ok=True)
            raise
    what = f"{blob.name} of {remote.hub_id}"
    if here > most:
        partial.unlink()
        raise ModelInvalidError(f"{what} is longer than the hub says, and was deleted", "Download it again.")
    found = _git_id(partial)
    _check(blob, found, partial, what)
    return partial.replace(blobs / found)


def _length(response: Any, blobs: Path) -> int:
    """The bytes of an answer by its own header, for which there must be space."""
    said = response.headers.get("Content-Length", "")
    if not re.fullmatch(r"[0-9]{1,18}", said):
        return _MOST_UNSIZED
    require_space(blobs, int(said), "downloading a file")
    return int(said)


def _git_id(path: Path) -> str:
    """Git's SHA-1 of a file's content."""
    total = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            total.update(block)
    return total.hexdigest()


@contextmanager
def _response(remote: HubModel, blob: RemoteFile, headers: dict[str, str]) -> Iterator[Any]:
    """The hub's answer to a request for a file; its error where it refuses."""
    from huggingface_hub import get_session, hf_hub_url  # noqa: PLC0415
    from huggingface_hub.utils import (  # type: ignore[attr-defined] # noqa: PLC0415 documented, not in its __all__
        build_hf_headers,
        hf_raise_for_status,
    )

    headers = build_hf_headers() | {"Accept-Encoding": "identity"} | headers
    url = hf_hub_url(remote.hub_id, blob.name, revision=remote.commit)
    with get_session().stream("GET", url, headers=headers, follow_redirects=True, timeout=TIMEOUT_S) as response:
        hf_raise_for_status(response)
        yield response


def _fetch_rest(remote: HubModel, blob: RemoteFile, partial: Path, here: int, advance: Callable[[int], None]) -> None:
    """One request for the bytes from `here` on, appended as they come."""
    headers = {"Range": f"bytes={here}-"}
    with _response(remote, blob, headers) as response, partial.open("r+b") as file:
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
