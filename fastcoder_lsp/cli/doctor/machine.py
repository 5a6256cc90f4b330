"""`doctor`'s checks of the machine: Python, packages, devices, memory, file watches, the user's folders."""

import hashlib
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from fastcoder_lsp.cli.doctor.check import Check
from fastcoder_lsp.config import cache_folder
from fastcoder_lsp.config.environment import forced_kind, missing_packages, usable_cores
from fastcoder_lsp.core.controls import counted
from fastcoder_lsp.errors import InstallationError
from fastcoder_lsp.extensions import LLAMA

LOW_MEMORY_BYTES = 2 << 30
FEW_WATCHES_SHARE = 0.9
_PROC = Path("/proc")


def check_python() -> Check:
    """The interpreter that runs this."""
    text = f"{platform.python_version()}, {sys.executable}"
    return Check("python", "ok", text, details={"version": platform.python_version(), "executable": sys.executable})


def check_packages() -> Iterator[Check]:
    """Whether the packages load: the CPU engine's, and those that a GPU or tuning needs."""
    from fastcoder_lsp.model.machine import install_line

    again = InstallationError("").hint
    found, broken = _load(("llvmlite", "numba", "tokenizers", "safetensors"))
    versions = ", ".join(f"{name} {number}" for name, number in found.items())
    if broken:
        yield Check("packages", "wrong", "; ".join(broken), again, dict(found))
    else:
        yield Check("packages", "ok", versions, details=dict(found))
    found, broken = _load(("torch", "transformers"))
    if broken:
        text = f"{'; '.join(broken)}; only GPUs, tuning and rare kinds of models need them"
        absent = all("ModuleNotFoundError" in line for line in broken)
        install = f"If you want one of those, run: {install_line('torch', 'transformers')}"
        yield Check("torch", "note", text, install if absent else again, dict(found))
    else:
        text = ", ".join(f"{name} {number}" for name, number in found.items())
        yield Check("torch", "ok", text, details=dict(found))


def _load(names: tuple[str, ...]) -> tuple[dict[str, str], list[str]]:
    """Versions of packages that load, and the errors of the others."""
    found, broken = {}, []
    for name in names:
        try:
            import_module(name)
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "of unknown version"
        except Exception as error:  # noqa: BLE001 a broken library fails in any way
            broken.append(f"{name} cannot be loaded ({type(error).__name__}: {str(error)[:200]})")
    return found, broken


def check_gpu() -> Check:
    """Whether torch sees the GPU that the driver sees."""
    from fastcoder_lsp.model.machine import ask_driver
    from fastcoder_lsp.model.store import size_text

    answer = ask_driver()
    if answer.problem:
        hint = "Check the driver with nvidia-smi. Until it works, use: --engine cpu-int8"
        return Check("gpu", "note", answer.problem, hint)
    driver = answer.memory_bytes
    try:
        import torch
    except Exception:  # noqa: BLE001 the check of the packages reports it
        if not driver:
            return _gpu_without_torch()
        return Check("gpu", "note", f"an NVIDIA GPU with {size_text(driver)}, unused without torch")
    if torch.cuda.is_available():
        name = torch.cuda.get_device_name(0)
        return Check("gpu", "ok", f"{name}, {size_text(driver)}", details={"name": name, "memory_bytes": driver})
    if driver:
        text = f"an NVIDIA GPU with {size_text(driver)}, which this torch cannot use"
        build = "it is built for CPUs" if torch.version.cuda is None else "its CUDA version does not fit the driver"
        return Check("gpu", "wrong", f"{text}: {build}", "Install torch as https://pytorch.org says for your driver.")
    if torch.backends.mps.is_available():
        return Check("gpu", "note", "Apple silicon through MPS", "`auto` uses it only where a test found it faster.")
    return _gpu_without_torch()


def _gpu_without_torch() -> Check:
    """The GPU that llama.cpp's installed build can use, if any."""
    found = ""
    if not missing_packages(*LLAMA.packages):
        with suppress(Exception):  # a broken library fails in any way, and tells it where a model is loaded
            found = LLAMA.load("the engine llama").gpu_name()
    build, _, name = found.partition(" ")
    return Check("gpu", "ok", f"{name}, by llama.cpp ({build})" if found else "none; the model runs on the CPU")


def check_processor() -> Check:
    """The CPU: its cores, and the instructions of its byte products."""
    from fastcoder_lsp.engine.int8.dot import kinds_here

    cores, kinds = usable_cores(), [kind.name for kind in kinds_here()]
    fast = kinds[0] if kinds else "no fast"
    text = f"{platform.machine()}, {counted(cores, 'core')}, {fast} instructions for int8"
    if (forced := forced_kind()) is not None:
        text += f"; FASTCODER_KIND asks for {forced}"
    return Check("processor", "ok", text, details={"cores": cores, "kinds": kinds})


def check_memory() -> Check:
    """The memory available to this process."""
    import psutil

    from fastcoder_lsp.model.machine import available_bytes
    from fastcoder_lsp.model.store import size_text

    total, available = psutil.virtual_memory().total, available_bytes()
    text = f"{size_text(total)}, {size_text(available)} free"
    details: dict[str, object] = {"total_bytes": total, "available_bytes": available}
    if available < LOW_MEMORY_BYTES:
        hint = "The default model needs about 2 GB. Close other programs, or raise the container's limit."
        return Check("memory", "wrong", text, hint, details)
    return Check("memory", "ok", text, details=details)


def check_battery() -> Iterator[Check]:
    """The machine's battery, if it has one."""
    from fastcoder_lsp.lsp.battery import read_battery

    battery = read_battery()
    if battery is None:
        return
    level = "" if battery.percent is None else f"{battery.percent} %, "
    details: dict[str, object] = {"percent": battery.percent, "discharging": battery.discharging}
    if battery.discharging:
        hint = "With `power` set to `auto`, the model works only when you ask until the machine is plugged in."
        yield Check("battery", "note", f"{level}in use", hint, details)
    else:
        yield Check("battery", "ok", f"{level}not in use", details=details)


def check_watches() -> Iterator[Check]:
    """Linux limits the folders that a user can watch: without a free watch, changes on the disk are seen late."""
    most = _number("sys/fs/inotify/max_user_watches")
    if most is None:
        return
    instances = _number("sys/fs/inotify/max_user_instances") or 0
    for kind in ("watches", "instances"):  # a container's own limits may be lower
        limit = _number(f"sys/user/max_inotify_{kind}")
        if limit is not None:
            most, instances = (min(most, limit), instances) if kind == "watches" else (most, min(instances, limit))
    used, opened = _watches_in_use()
    text = f"file watches: {used:,} of {most:,} used, by {opened} of {counted(instances, 'program')}"
    details: dict[str, object] = {"watches": used, "most": most, "instances": opened, "most_instances": instances}
    if used >= FEW_WATCHES_SHARE * most or opened >= instances:
        hint = "fastcoder notices changes outside the editor late. Run: sudo sysctl fs.inotify.max_user_watches=524288 "
        hint += "fs.inotify.max_user_instances=512"
        yield Check("watches", "wrong", f"{text}; few are left", hint, details)
    else:
        yield Check("watches", "ok", text, details=details)


def _number(path: str) -> int | None:
    with suppress(OSError, ValueError):
        return int((_PROC / path).read_text())
    return None


def _watches_in_use() -> tuple[int, int]:
    """Watches and watching processes of this user, as far as they are visible."""
    watches = instances = 0
    own = os.geteuid()
    for process in _PROC.iterdir():
        with suppress(OSError):
            if not process.name.isdecimal() or process.stat().st_uid != own:
                continue
            for entry in (process / "fd").iterdir():
                with suppress(OSError):
                    if str(entry.readlink()) == "anon_inode:inotify":
                        instances += 1
                        watches += (process / "fdinfo" / entry.name).read_text().count("inotify wd:")
    return watches, instances


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
        text = f"{cache} cannot be created: {there} is not writable"
        hint = f"Make {cache} and give it to your user, or set FASTCODER_CACHE to a folder that you can write to."
        return Check("cache", "wrong", text, hint, {"folder": str(cache)})
    disk = shutil.disk_usage(there)
    if not disk.total:
        text = f"{there} has no space for files"
        return Check("cache", "wrong", text, "Set FASTCODER_CACHE to another folder.", {"folder": str(cache)})
    free = disk.free
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
            text, hint = f"{download.name} is being downloaded: {download.text}", ""
        else:
            text = f"the download of {download.name} broke off at {download.text}"
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
    from fastcoder_lsp.kernels.folder import MAGIC

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
