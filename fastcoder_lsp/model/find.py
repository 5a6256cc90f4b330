"""From a name to a model on this disk: `auto`, a hub id, a folder, a `.gguf`, or `wheels:KEY`.

Never downloads and never asks. `find` answers in milliseconds; `prepare` may also make a GGUF ready that is here.
"""

import re
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from fastcoder_lsp.core import Progress
from fastcoder_lsp.errors import ModelInvalidError, ModelMissingError, UsageError
from fastcoder_lsp.model import hub
from fastcoder_lsp.model.catalogue import WHEELS_PREFIX, WheelModel, stand_in, wheel_model
from fastcoder_lsp.model.choice import current_choice, words
from fastcoder_lsp.model.downloads import Download, read_download
from fastcoder_lsp.model.files import (
    PICKLE_HINT,
    PICKLE_MESSAGE,
    PICKLE_SUFFIXES,
    ModelFiles,
    gguf_of,
    is_complete,
    is_noted,
    open_folder,
    read_origin,
)
from fastcoder_lsp.model.gguf_caches import find_tagged, is_tagged, repository_of
from fastcoder_lsp.model.gguf_folder import follow, holds_weights, make_ready
from fastcoder_lsp.model.store import ModelStore, known_sha256, reading, remembered_sha256, size_text

AUTO = "auto"
BROKEN_HINT = "Repair it: fastcoder-lsp model pull. If it is not the default model, add its name."
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


class NameKind(Enum):
    """The kinds of names."""

    AUTO = "auto"
    HUB = "hub"
    FOLDER = "folder"
    GGUF = "gguf"
    WHEELS = "wheels"
    TAGGED = "tagged"
    """A GGUF of a repository that is not on this disk."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A name, understood: `value` is a hub id, an absolute path or a wheel model's key; empty for others."""

    kind: NameKind
    name: str
    value: str = ""

    def hub_ids(self, cache: Path, gpu_bytes: int | None) -> tuple[str, ...]:
        """The hub ids that the name may mean, best first (`current_choice` has the arguments)."""
        if self.kind is NameKind.AUTO:
            return current_choice(cache, gpu_bytes).hub_ids
        return (self.value,) if self.kind is NameKind.HUB else ()

    def wheel_models(self, cache: Path, gpu_bytes: int | None) -> list[WheelModel]:
        """The models from wheels that the name may mean, or that may replace a hub's."""
        if self.kind is NameKind.WHEELS:
            return [wheel_model(self.value)]
        return [known for hub_id in self.hub_ids(cache, gpu_bytes) if (known := stand_in(hub_id)) is not None]


class BrokenConversionError(ModelInvalidError):
    """The converted model in `folder` is damaged; it can be made anew."""

    def __init__(self, message: str, folder: Path) -> None:
        super().__init__(message, BROKEN_HINT)
        self.folder = folder


def understand(name: str) -> Reference:
    """Understand a name. A hub id comes before a folder of the same relative name: write ./NAME for the folder.

    Raises UsageError if it means nothing, ModelInvalidError for a file of an unsafe or unknown format.
    """
    if not name:
        raise UsageError(
            "the model has no name", "Name a folder, a .gguf file, a model on the hub (owner/name), or auto."
        )
    if name == AUTO:
        return Reference(NameKind.AUTO, AUTO)
    if name.startswith(WHEELS_PREFIX):
        return Reference(NameKind.WHEELS, name, wheel_model(name.removeprefix(WHEELS_PREFIX)).key)
    if is_tagged(name):
        return _tagged(name)
    path = _path(name)
    if path.is_file():
        return _file(name, path)
    if "/" not in name and not path.is_dir() and (latest := find_tagged(f"{name}:latest")) is not None:
        return Reference(NameKind.GGUF, name, str(latest))
    explicit = name.startswith(("/", "~", "./", "../", "\\")) or name.endswith(".gguf") or name.count("/") > 1
    if _HUB_ID.fullmatch(name) and not explicit and not (path.is_dir() and hub.cached(name) is None):
        return Reference(NameKind.HUB, name, name)
    if path.is_dir():
        return Reference(NameKind.FOLDER, name, str(path))
    what = "file" if name.endswith(".gguf") else "folder"
    raise UsageError(f"there is no {what} {name}", "Name a folder, a .gguf file, or a model on the hub (owner/name).")


def _file(name: str, path: Path) -> Reference:
    if path.suffix in PICKLE_SUFFIXES:
        raise ModelInvalidError(f"{name} {PICKLE_MESSAGE}", PICKLE_HINT)
    if path.suffix != ".gguf":
        raise UsageError(
            f"{name} is not a .gguf file", "Name a folder, a .gguf file, or a model on the hub (owner/name)."
        )
    return Reference(NameKind.GGUF, name, str(path))


def _tagged(name: str) -> Reference:
    if (found := find_tagged(name)) is not None:
        return Reference(NameKind.GGUF, name, str(found))
    if repository_of(name) is not None:
        return Reference(NameKind.TAGGED, name)
    raise ModelMissingError(
        f"Ollama's cache has no model {name}", f"Run: ollama pull {name}. Or name a GGUF of the hub: owner/name:Q4_K_M"
    )


def _path(name: str) -> Path:
    try:
        return Path(name).expanduser().absolute()
    except (RuntimeError, OSError) as error:  # an unknown home folder, a working directory that is gone
        raise UsageError(f"{name} cannot be resolved: {error}", "Use an absolute path.") from error


def find(name: str = AUTO, cache: Path | None = None, *, gpu_bytes: int | None = None) -> ModelFiles:
    """The model that `name` means, on this disk.

    Args:
        name: `auto`, a hub id, a folder, a `.gguf` file, or `wheels:KEY`.
        cache: the cache folder; None for the one in the settings.
        gpu_bytes: memory of the GPU that `auto` may count on; 0 for none, None to ask the driver.

    Raises:
        ModelMissingError: it is not here; the hint is the command that fetches it.
        ModelInvalidError: its files are damaged, incomplete or of an unsafe format.
        UsageError: the name means nothing.
    """
    store = ModelStore.at(cache)
    with reading(name):
        return _find(understand(name), store, gpu_bytes)


def _find(reference: Reference, store: ModelStore, gpu_bytes: int | None) -> ModelFiles:
    match reference.kind:
        case NameKind.FOLDER:
            return _folder(reference, store)
        case NameKind.GGUF:
            found = _gguf(Path(reference.value), reference.name, store)
        case NameKind.WHEELS:
            found = wheels_converted(wheel_model(reference.value), store)
        case NameKind.HUB:
            found = _hub_or_stand_in((reference.value,), store) or _hub_gguf(reference.value, store)
        case NameKind.AUTO:
            found = _chosen(store, gpu_bytes)
        case NameKind.TAGGED:
            found = None
    if found is None:
        if (download := download_of(reference, store.cache, gpu_bytes)) is not None and download.under_way:
            what = f"the model {download.name} is being downloaded: {download.text}"
            raise ModelMissingError(what, "Suggestions begin when it is ready.")
        raise missing(reference, *_half(reference, store, gpu_bytes))
    return found


def download_of(reference: Reference, cache: Path, gpu_bytes: int | None) -> Download | None:
    """The download of a model that a name may mean, under way or broken off; None where none has begun."""
    hub_ids, wheels = reference.hub_ids(cache, gpu_bytes), reference.wheel_models(cache, gpu_bytes)
    tagged = [reference.name] if reference.kind is NameKind.TAGGED else []
    begun = (read_download(cache, name) for name in (*hub_ids, *(known.name for known in wheels), *tagged))
    return next((download for download in begun if download is not None), None)


def prepare(name: str, cache: Path | None, progress: Progress, *, gpu_bytes: int | None = None) -> ModelFiles:
    """Like `find`, but makes a GGUF on this disk ready (in a second, or by transformers in a minute).

    Downloads nothing. Raises as `find`, and ResourceError if memory or disk does not suffice.
    """
    store = ModelStore.at(cache)
    store.sweep()
    try:
        return find(name, cache, gpu_bytes=gpu_bytes)
    except ModelMissingError:
        prepared = _unprepared(understand(name), store, gpu_bytes)
        if isinstance(prepared, Path):
            convert_gguf(prepared, store, progress)
        elif prepared is not None:
            make_ready(store.gguf(prepared.file), prepared.sha256, f"wheels {prepared.key}", store, progress)
        else:
            raise
        return find(name, cache, gpu_bytes=gpu_bytes)


def require(name: str, cache: Path | None = None) -> None:
    """Raise as `find` unless `prepare` can make the model ready; for a check before anything slow begins."""
    try:
        find(name, cache)
    except ModelMissingError:
        if _unprepared(understand(name), ModelStore.at(cache), None) is None:
            raise


def _unprepared(reference: Reference, store: ModelStore, gpu_bytes: int | None) -> Path | WheelModel | None:
    """The GGUF on this disk that `prepare` makes ready, as the user's own or as one from wheels; None if none is."""
    if reference.kind is NameKind.GGUF:
        return Path(reference.value)
    gguf = hub.cached_gguf(reference.value) if reference.kind is NameKind.HUB else None
    return gguf if gguf is not None else _fetched(reference, store, gpu_bytes)


def _fetched(reference: Reference, store: ModelStore, gpu_bytes: int | None) -> WheelModel | None:
    for known in reference.wheel_models(store.cache, gpu_bytes):
        if (path := store.gguf(known.file)).is_file() and path.stat().st_size == known.size:
            return known if remembered_sha256(path, store.digests) == known.sha256 else None
    return None


def _half(reference: Reference, store: ModelStore, gpu_bytes: int | None) -> tuple[int, int]:
    """Bytes of a partial download, and of the whole if that is known; zeros where there is none."""
    if reference.kind is NameKind.WHEELS:
        return _half_of_wheels(wheel_model(reference.value), store)
    for hub_id in reference.hub_ids(store.cache, gpu_bytes):
        if here := hub.unfinished_bytes(hub_id):
            begun = read_download(store.cache, hub_id)
            return here, max(here, begun.total) if begun is not None else 0
        known = stand_in(hub_id)
        if known is not None and (half := _half_of_wheels(known, store))[0]:
            return half
    return 0, 0


def _half_of_wheels(known: WheelModel, store: ModelStore) -> tuple[int, int]:
    place = store.gguf(known.file)
    partial = place.with_name(f"{place.name}.partial")
    whole = next((path for path in (place, partial) if path.is_file()), None)
    return (whole.stat().st_size, known.size) if whole is not None else (0, 0)


def missing(reference: Reference, here: int = 0, total: int = 0) -> ModelMissingError:
    """The error for a missing model, or one with `here` bytes of `total`, with the command that downloads it."""
    what = f"the model {reference.name}" if reference.kind is not NameKind.AUTO else "the default model"
    lacks = "is not prepared yet" if reference.kind is NameKind.GGUF else "is not on this machine"
    command = "fastcoder-lsp model pull" + ("" if reference.kind is NameKind.AUTO else f" {reference.name}")
    if here:
        of = f" of {size_text(total)}" if total else ""
        lacks = (
            "is downloaded, but not prepared yet"
            if here == total
            else f"is only partly downloaded: {size_text(here)}{of}"
        )
        return ModelMissingError(f"{what} {lacks}", f"To continue, run: {command}")
    return ModelMissingError(f"{what} {lacks}", f"Run: {command}")


def convert_gguf(path: Path, store: ModelStore, progress: Progress) -> Path:
    """Make a user's own GGUF ready, unless the same bytes are already; returns the folder."""
    store.open()
    sha256 = remembered_sha256(path, store.digests)
    if not is_converted(store, sha256):
        make_ready(path, sha256, f"gguf {path}", store, progress)
    return store.converted(sha256)


def is_converted(store: ModelStore, sha256: str) -> bool:
    """Whether the GGUF with this sum is ready."""
    return is_noted(store.converted(sha256))


def wheels_converted(known: WheelModel, store: ModelStore) -> ModelFiles | None:
    """The wheel-borne model, if it was fetched and made ready."""
    if not is_converted(store, known.sha256):
        return None
    own = store.gguf(known.file)
    if own.is_file() and own.stat().st_size == known.size:
        # The same file may have been made ready from elsewhere, and be gone there.
        follow(store.converted(known.sha256), own, store)
    wheels = known.parts[0].distribution.removesuffix("-part1")
    source = f"a checked copy of {known.copy_of} (SHA-256; wheels {wheels})"
    return _converted(known.sha256, known.title, source, store)


def _folder(reference: Reference, store: ModelStore) -> ModelFiles:
    folder = Path(reference.value)
    if folder.resolve() == store.converted(folder.name).resolve() and is_converted(store, folder.name):
        return _converted(folder.name, folder.name, f"folder {folder}", store)
    if not is_complete(folder) and (gguf := gguf_of(folder)) is not None and gguf.is_file():
        # Of another cache: only the place of the weights is taken from its note.
        digest = remembered_sha256(gguf, store.digests)
        return ModelFiles(name=folder.name, folder=folder, source=f"folder {folder}", variant="", digest=digest)
    ggufs = sorted(folder.glob("*.gguf"))
    if len(ggufs) == 1 and not is_complete(folder):
        found = _gguf(ggufs[0], str(ggufs[0]), store)
        if found is None:
            raise missing(Reference(NameKind.GGUF, str(ggufs[0]), str(ggufs[0])))
        return found
    return open_folder(folder, name=folder.name, source=f"folder {folder}", memory=store.digests)


def _gguf(path: Path, name: str, store: ModelStore) -> ModelFiles | None:
    sha256 = known_sha256(path, store.digests)
    if sha256 is None or not is_converted(store, sha256):
        return None
    found = _converted(sha256, Path(name).name, f"gguf {path}", store)
    follow(found.folder, path, store)
    return found


def _hub_gguf(hub_id: str, store: ModelStore) -> ModelFiles | None:
    path = hub.cached_gguf(hub_id)
    found = None if path is None else _gguf(path, path.name, store)
    return None if found is None else replace(found, name=hub_id, source=f"hub {hub_id}", hub_id=hub_id)


def _chosen(store: ModelStore, gpu_bytes: int | None) -> ModelFiles | None:
    """The model of `auto`: the chosen one or the largest smaller one, else a larger one that fits into memory."""
    choice = current_choice(store.cache, gpu_bytes)
    found = _hub_or_stand_in(choice.hub_ids, store)
    for hub_id in choice.larger_ids if found is None else ():
        if (folder := hub.cached(hub_id)) is not None:
            verdict = choice.best(hub_id)
            variant = f"larger than {choice.hub_ids[0]}, which fits this machine but is not downloaded"
            variant += f": {words(verdict)}" if verdict is not None else ""
            return _in_hub_cache(hub_id, folder, store, variant)
    return found


def _in_hub_cache(hub_id: str, folder: Path, store: ModelStore, variant: str) -> ModelFiles:
    found = open_folder(folder, name=hub_id, source=f"hub {hub_id}", memory=store.digests, variant=variant)
    return replace(found, hub_id=hub_id)


def _hub_or_stand_in(wanted: tuple[str, ...], store: ModelStore) -> ModelFiles | None:
    asked = wanted[0]
    for hub_id in wanted:
        folder = hub.cached(hub_id)
        if folder is not None:
            variant = "" if hub_id == asked else f"smaller than {asked}, which fits this machine but is not downloaded"
            return _in_hub_cache(hub_id, folder, store, variant)
    for hub_id in wanted:
        known = stand_in(hub_id)
        found = wheels_converted(known, store) if known is not None else None
        if known is not None and found is not None:
            variant = f"replaces {asked}: {known.difference}"
            return replace(found, variant=variant, hub_id=hub_id)
    return None


def _converted(sha256: str, name: str, source: str, store: ModelStore) -> ModelFiles:
    folder = store.converted(sha256)
    try:
        digest, whole = read_origin(folder).digest, holds_weights(folder)
    except ModelInvalidError as error:
        raise BrokenConversionError(error.message, folder) from error
    whole = whole and (folder / "config.json").is_file() and (folder / "tokenizer.json").is_file()
    if not whole or not digest:
        raise BrokenConversionError(f"{folder} is incomplete", folder)
    return ModelFiles(name=name, folder=folder, source=source, variant="", digest=digest)
