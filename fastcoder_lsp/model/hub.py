"""The hub and its cache on this disk: which models are there, and downloads with resume.

Takes configuration, tokenizer and safetensors or GGUF weights; never pickles, never code. The hub's client starts a big
file anew whenever its process ends, so big files are downloaded here, resumed even after a kill, and checked before
they get their names; the client then finds them in its cache.
"""

import fnmatch
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fastcoder_lsp.errors import ModelInvalidError, ModelMissingError, NetworkError
from fastcoder_lsp.model.downloads import Dialogue, DownloadOffer, ProgressStep
from fastcoder_lsp.model.files import INDEX, PICKLE_HINT, PICKLE_MESSAGE, PICKLE_SUFFIXES, WEIGHTS, is_complete
from fastcoder_lsp.model.store import FORBIDDEN, FULL, folder_bytes, require_space, sha256_file, write_error

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


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a repository; `sha256` is empty for small files, for which the hub keeps no sum.

    Raises ModelInvalidError for a name or a sum that could lead to another place of this disk: both become paths.
    """

    name: str
    size: int
    sha256: str

    def __post_init__(self) -> None:
        if not _PLAIN_NAME.fullmatch(self.name) or (self.sha256 and not _SHA256.fullmatch(self.sha256)):
            raise ModelInvalidError(
                f"the hub names a file {self.name!r} with the SHA-256 sum {self.sha256!r}, which is refused",
                "Check that HF_ENDPOINT names a hub that you trust, or use another model.",
            )


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


def look_up(hub_id: str) -> HubModel:
    """Ask the hub for the files of a model.

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
    except (transport_error(), OSError, ValueError) as error:  # a login page answers in HTML, which is no JSON
        raise unreachable(error) from error
    siblings = info.siblings or []
    by_name = {one.rfilename: one for one in siblings}
    chosen = (by_name[name] for name in choose_files(hub_id, list(by_name)))
    files = tuple(RemoteFile(one.rfilename, one.size or 0, one.lfs.sha256 if one.lfs else "") for one in chosen)
    card = info.card_data
    licence = str(getattr(card, "license", None) or "not stated")
    commit = info.sha if info.sha and _COMMIT.fullmatch(info.sha) else "main"
    return HubModel(hub_id, commit, licence, files)


def unreachable(error: Exception) -> NetworkError:
    """The error for a hub that does not answer, or whose answer breaks off."""
    reason = str(error).strip().partition("\n")[0] or type(error).__name__
    return NetworkError(f"the hub cannot be reached ({reason})", "Check the connection, and try again.")


def choose_files(hub_id: str, names: Sequence[str]) -> tuple[str, ...]:
    """The files of a repository that make a model: descriptions and safetensors weights of its top folder, or a GGUF.

    Raises ModelInvalidError if it has no safetensors weights, and not exactly one GGUF.
    """
    weights = [WEIGHTS] if WEIGHTS in names else [INDEX] if INDEX in names else []
    if weights == [INDEX]:
        weights += sorted(name for name in fnmatch.filter(names, SHARDS) if "/" not in name)
    if not weights:
        if any(Path(name).suffix in PICKLE_SUFFIXES for name in names):
            raise ModelInvalidError(f"{hub_id} {PICKLE_MESSAGE}", PICKLE_HINT)
        ggufs = [name for name in names if name.endswith(".gguf") and "/" not in name]
        if len(ggufs) == 1:
            return (ggufs[0],)
        if any(name.endswith(".gguf") for name in names):
            hint = f"Download one of them (hf download {hub_id} FILE.gguf) and name that file."
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
    from huggingface_hub import snapshot_download  # noqa: PLC0415
    from huggingface_hub.utils.tqdm import disable_progress_bars  # noqa: PLC0415

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
        done = 0
        for file in remote.files:
            if file.sha256 and not (blobs / file.sha256).exists():
                fetch_blob(remote, file, blobs, advance)
            done += file.size
        disable_progress_bars()  # the client's own; only small files are left for it
        names = [file.name for file in remote.files]
        return Path(snapshot_download(remote.hub_id, allow_patterns=names))
    except transport_error() as error:
        raise unreachable(error) from error
    except OSError as error:
        if error.errno in (*FULL, *FORBIDDEN):
            raise write_error(error, cache, f"downloading {remote.hub_id}") from error
        raise unreachable(error) from error
    except ValueError as error:
        raise unreachable(error) from error


def _partial(blobs: Path, sha256: str) -> Path:
    return blobs / f"{sha256}.fastcoder.incomplete"


def _bytes_here(file: RemoteFile, blobs: Path) -> int:
    for path in (blobs / file.sha256, _partial(blobs, file.sha256)) if file.sha256 else ():
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


def fetch_blob(remote: HubModel, blob: RemoteFile, blobs: Path, advance: Callable[[int], None]) -> None:
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
    if sha256_file(partial) != blob.sha256:
        partial.unlink()
        raise ModelInvalidError(
            f"{blob.name} of {remote.hub_id} has a wrong SHA-256 sum, and was deleted", "Download it again."
        )
    partial.replace(blobs / blob.sha256)


def _fetch_rest(remote: HubModel, blob: RemoteFile, partial: Path, here: int, advance: Callable[[int], None]) -> None:
    """One request for the bytes from `here` on, appended as they come."""
    from huggingface_hub import get_session, hf_hub_url  # noqa: PLC0415
    from huggingface_hub.utils import (  # type: ignore[attr-defined] # noqa: PLC0415 documented, not in its __all__
        build_hf_headers,
        hf_raise_for_status,
    )

    headers = build_hf_headers() | {"Range": f"bytes={here}-", "Accept-Encoding": "identity"}
    url = hf_hub_url(remote.hub_id, blob.name, revision=remote.commit)
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
