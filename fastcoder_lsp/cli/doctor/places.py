"""`doctor`'s checks of the user's folders: home, cache, compiled kernels, indexes, unfinished files."""

import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from fastcoder_lsp.cli.doctor.check import Check
from fastcoder_lsp.config import cache_folder
from fastcoder_lsp.core.controls import counted

LOW_DISK_BYTES = 2 << 30
RIGHT_HINT = "Make it writable for you, or set FASTCODER_CACHE to another folder."


def check_home() -> Iterator[Check]:
    """Whether there is a home folder; no finding for an ordinary one."""
    try:
        home = Path("~").expanduser()
    except RuntimeError:
        hint = "Set HOME to your folder, or FASTCODER_CACHE to a folder for the cache."
        yield Check("home", "note", "HOME is not set, so your home folder is unknown", hint)
        return
    if not home.is_dir():
        yield Check("home", "note", f"{home} does not exist", "Set HOME to an existing folder.")
    elif not os.access(home, os.W_OK):
        yield Check("home", "note", f"{home} is not writable", "Set FASTCODER_CACHE to a folder that is.")


def check_cache() -> Check:
    """The cache folder: its size by part, free space, and whether only we can write to it."""
    from fastcoder_lsp.model.store import folder_bytes, size_text

    cache = cache_folder()
    there = next(folder for folder in (cache, *cache.parents) if os.path.exists(folder))  # noqa: PTH110 never raises
    if not there.is_dir():
        return Check("cache", "wrong", f"{there} is not a folder", RIGHT_HINT, {"folder": str(cache)})
    if there != cache and not os.access(there, os.W_OK | os.X_OK):
        text = f"{cache} cannot be made: {there} is not writable"
        hint = f"Make {cache} and give it to your user, or set FASTCODER_CACHE to a folder that you can write to."
        return Check("cache", "wrong", text, hint, {"folder": str(cache)})
    free = shutil.disk_usage(there).free
    sizes = {part.name: folder_bytes(part) for part in sorted(cache.glob("*/"))}
    parts = ", ".join(f"{name} {size_text(size)}" for name, size in sizes.items() if size)
    text = f"{cache}: {parts or 'empty'}; {size_text(free)} free"
    details: dict[str, object] = {"folder": str(cache), "bytes": sizes, "free_bytes": free}
    folders = dict.fromkeys((there, *_parts(cache)))
    if closed := [str(folder) for folder in folders if not os.access(folder, os.W_OK | os.X_OK)]:
        told = f"{closed[0]} is not writable" if len(closed) == 1 else "\n".join(["these are not writable:", *closed])
        return Check("cache", "wrong", f"{text}; {told}", RIGHT_HINT, details)
    if free < LOW_DISK_BYTES:
        hint = "Free some space, or set FASTCODER_CACHE to a folder on another disk."
        return Check("cache", "wrong", f"{text}; the disk is nearly full", hint, details)
    if os.name == "posix" and any(place.stat().st_mode & 0o022 for place in _parts(cache)):
        return Check("cache", "wrong", f"{text}; other users can write to it", f"Run: chmod -R go-w {cache}", details)
    return Check("cache", "ok", text, details=details)


def _parts(cache: Path) -> list[Path]:
    return [part for part in (cache, *sorted(cache.glob("*/"))) if part.is_dir()]


def check_unfinished() -> Iterator[Check]:
    """Unfinished work: partial downloads, which resume, and partial conversions, which are deleted."""
    from fastcoder_lsp.model.downloads import downloads
    from fastcoder_lsp.model.store import ModelStore, folder_bytes, size_text

    store = ModelStore.at(None)
    halves = sorted(store.root.glob("gguf/*.partial"))
    if halves:
        sizes = ", ".join(f"{path.name} {size_text(path.stat().st_size)}" for path in halves)
        yield Check(
            "download", "note", f"an unfinished download: {sizes}", "To continue it, run: fastcoder-lsp model pull"
        )
    for download in downloads(store.cache):
        if download.under_way:
            text, hint = f"{download.name} is being downloaded: {download.told}", ""
        else:
            text = f"the download of {download.name} broke off at {download.told}"
            hint = f"To continue it, run: fastcoder-lsp model pull {download.name}"
        yield Check("download", "note", text, hint)
    left = [folder for folder in store.root.glob("work/*") if folder.is_dir()]
    left += sorted(path for bits in (4, 8) for path in store.cache.glob(f"int{bits}/*.partial"))
    size = sum(folder_bytes(path) if path.is_dir() else path.stat().st_size for path in left)
    if size:
        text = f"{size_text(size)} of unfinished conversions: one is running, or was killed"
        yield Check("unfinished", "note", text, "The next start deletes leftovers of a killed one.")


def check_kernels() -> Iterator[Check]:
    """Compiled code: whether only the user can write it, and whether it is intact. Damaged code is compiled again."""
    from fastcoder_lsp.config import kernels_folder

    folder = kernels_folder()
    if not folder.exists():
        yield Check("kernels", "ok", "none yet; the first start compiles them")
        return
    if os.name == "posix" and folder.stat().st_mode & 0o022:
        hint = f"The next start discards them. To keep new ones safe, run: chmod go-w {folder}"
        yield Check("kernels", "wrong", f"other users can write to {folder}, and make you run their code", hint)
        return
    files = sorted(folder.glob("*/*.kernel"))
    damaged = [path.name for path in files if not _is_whole(path)]
    if damaged:
        text = f"{len(damaged)} of {counted(len(files), 'compiled function')} damaged: {damaged[0]}"
        yield Check("kernels", "wrong", text, "Nothing to do: the next start compiles them again.")
    else:
        text = f"{counted(len(files), 'compiled function')} in {folder}"
        yield Check("kernels", "ok", text, details={"files": len(files)})


def _is_whole(path: Path) -> bool:
    """Whether a file of machine code matches its checksum."""
    from fastcoder_lsp.kernels.files import MAGIC

    content = path.read_bytes()
    total = hashlib.sha256()
    end = len(MAGIC) + total.digest_size
    total.update(content[end:])
    return content.startswith(MAGIC) and total.digest() == content[len(MAGIC) : end]


def check_indexes() -> Iterator[Check]:
    """The indexes of repositories: damaged ones are rebuilt when they are opened."""
    from fastcoder_lsp.index.segment import DamagedError, read_segment
    from fastcoder_lsp.index.stored import FILE_NAME, read_manifest

    manifests = sorted(cache_folder().glob(f"index/*/*/{FILE_NAME}"))
    damaged = []
    for path in manifests:
        try:
            manifest = read_manifest(path.parent)
            for segment in manifest.segments if manifest is not None else ():
                read_segment(path.parent / segment.name, manifest.identity if manifest else "", check=False)
        except FileNotFoundError:
            continue  # a server has merged it meanwhile
        except (DamagedError, OSError, ValueError) as error:
            damaged.append(f"{path.parent}: {error}")
    if damaged:
        text = f"{len(damaged)} of {counted(len(manifests), 'index', 'indexes')} damaged: {damaged[0]}"
        yield Check("indexes", "wrong", text, "Nothing to do: fastcoder rebuilds an index when you open its folder.")
    elif manifests:
        text = counted(len(manifests), "repository", "repositories")
        yield Check("indexes", "ok", text, details={"count": len(manifests)})
