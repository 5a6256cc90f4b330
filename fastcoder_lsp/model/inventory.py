"""The models on this disk: their list, and the removal of our files and of what the user names in the hub's cache."""

import hashlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fastcoder_lsp.errors import ModelInvalidError, ModelMissingError, UsageError
from fastcoder_lsp.model import hub
from fastcoder_lsp.model.catalogue import WHEEL_MODELS, WheelModel, wheel_model
from fastcoder_lsp.model.files import ORIGIN, Origin, gguf_of, read_origin
from fastcoder_lsp.model.find import NameKind, Reference, find, is_converted, missing, understand
from fastcoder_lsp.model.store import ModelStore, folder_bytes, known_sha256


@dataclass(frozen=True, slots=True)
class Entry:
    """A model on this disk: `name` is for `--model`; `paths` are all its files and folders, `size` bytes together.

    `folder`: from which it loads; None if it is damaged.
    """

    name: str
    source: str
    paths: tuple[Path, ...]
    size: int
    digest: str
    folder: Path | None


def entries(cache: Path | None = None) -> list[Entry]:
    """All models that are ready to load: whole ones in the hub's cache, and converted ones."""
    store = ModelStore.at(cache)
    found = [_hub(hub_id, cache) for hub_id in hub.cached_ids()]
    found += [_wheels(known, store) for known in WHEEL_MODELS if is_converted(store, known.sha256)]
    return [*found, *_conversions(store)]


def _hub(hub_id: str, cache: Path | None) -> Entry:
    paths = (hub.repository_folder(hub_id),)
    try:
        files = find(hub_id, cache)
    except ModelInvalidError as error:  # one damaged model hides no other
        return _entry(hub_id, f"the hub's cache, damaged: {error.message}", paths, "", None)
    return _entry(hub_id, "the hub's cache", paths, files.digest, files.folder)


def remove(name: str, cache: Path | None = None) -> Entry:
    """Delete a model's files and everything converted from them; returns the entry of the deleted model.

    Raises ModelMissingError if it is not here, UsageError if the files are the user's own.
    """
    store, reference = ModelStore.at(cache), understand(name)
    if reference.kind is NameKind.FOLDER:
        raise UsageError(f"{name} is your own folder, not a download", "Delete it yourself if you no longer need it.")
    try:
        entry = _named(reference, store, cache)
    except ModelMissingError as error:
        raise ModelMissingError(error.message, "List the models that are here: fastcoder-lsp model list") from None
    for path in (*entry.paths, *engine_conversions(entry.digest, store.cache)):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    return entry


def engine_conversions(digest: str, cache: Path) -> list[Path]:
    """The engine's packed files for the weights of this digest; their names begin with a hash of it."""
    name = hashlib.sha256(digest.encode()).hexdigest()[:32]
    return sorted(path for bits in (4, 8) for path in cache.glob(f"int{bits}/{name}*")) if digest else []


def _named(reference: Reference, store: ModelStore, cache: Path | None) -> Entry:
    """The entry that a name stands for; a wheel model's unfinished download counts."""
    listed = entries(cache)
    if reference.kind is NameKind.WHEELS:
        return _wheels(wheel_model(reference.value), store)
    if reference.kind is NameKind.GGUF:
        sha256 = known_sha256(Path(reference.value), store.digests)
        chosen = [entry for entry in listed if sha256 is not None and store.converted(sha256) in entry.paths]
    else:
        found = find(reference.name, cache)
        chosen = [entry for entry in listed if entry.digest == found.digest]
    if not chosen:
        raise missing(reference)
    return chosen[0]


def _wheels(known: WheelModel, store: ModelStore) -> Entry:
    gguf, folder = store.gguf(known.file), store.converted(known.sha256)
    paths = tuple(path for path in (gguf, gguf.with_name(f"{gguf.name}.partial"), folder) if path.exists())
    if not paths:
        raise missing(Reference(NameKind.WHEELS, known.name, known.key))
    source = f"{known.title}, a checked copy of {known.copy_of}"
    return _entry(known.name, source, paths, _digest(folder), folder if folder in paths else None)


def _conversions(store: ModelStore) -> Iterator[Entry]:
    from_wheels = {known.sha256 for known in WHEEL_MODELS}
    for folder in sorted(store.root.glob("converted/*")):
        if folder.name not in from_wheels and (folder / ORIGIN).is_file() and not _is_left_over(folder):
            source = _origin(folder).source
            yield _entry(source.removeprefix("gguf "), "your own GGUF", (folder,), _digest(folder), folder)


def _is_left_over(folder: Path) -> bool:
    """Whether the GGUF that `folder` reads its weights from was moved or deleted."""
    try:
        gguf = gguf_of(folder)
    except ModelInvalidError:
        return False
    return gguf is not None and not gguf.is_file()


def _digest(folder: Path) -> str:
    return _origin(folder).digest


def _origin(folder: Path) -> Origin:
    try:
        return read_origin(folder)
    except ModelInvalidError:
        return Origin()


def _entry(name: str, source: str, paths: tuple[Path, ...], digest: str, folder: Path | None) -> Entry:
    total = sum(folder_bytes(path) if path.is_dir() else path.stat().st_size for path in paths)
    return Entry(name, source, paths, total, digest, folder)
