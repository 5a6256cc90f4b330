"""`doctor`'s checks of the machine: Python, packages, devices, memory, file watches."""

import os
import platform
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from fastcoder_lsp.cli.doctor.check import Check
from fastcoder_lsp.config.processor import forced_kind
from fastcoder_lsp.core.controls import counted
from fastcoder_lsp.errors import InstallationError

LOW_MEMORY_BYTES = 2 << 30
FEW_WATCHES_SHARE = 0.9
_PROC = Path("/proc")


def check_python() -> Check:
    """The interpreter that runs this."""
    text = f"{platform.python_version()}, {sys.executable}"
    return Check("python", "ok", text, details={"version": platform.python_version(), "executable": sys.executable})


def check_packages() -> Iterator[Check]:
    """Whether the packages load: the CPU engine's, and those that a GPU or tuning needs."""
    from fastcoder_lsp.model.needs import install_line

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
        text = (
            f"an NVIDIA GPU with {size_text(driver)}, unused without torch"
            if driver
            else "none; the model runs on the CPU"
        )
        return Check("gpu", "note" if driver else "ok", text)
    if torch.cuda.is_available():
        name = torch.cuda.get_device_name(0)
        return Check("gpu", "ok", f"{name}, {size_text(driver)}", details={"name": name, "memory_bytes": driver})
    if driver:
        text = f"an NVIDIA GPU with {size_text(driver)}, which this torch cannot use"
        build = "it is built for CPUs" if torch.version.cuda is None else "its CUDA version does not fit the driver"
        return Check("gpu", "wrong", f"{text}: {build}", "Install torch as https://pytorch.org says for your driver.")
    if torch.backends.mps.is_available():
        return Check("gpu", "note", "Apple silicon through MPS", "`auto` uses it only where a test found it faster.")
    return Check("gpu", "ok", "none; the model runs on the CPU")


def check_processor() -> Check:
    """The CPU: its cores, and the instructions of its byte products."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    from fastcoder_lsp.engine.int8.dot import kinds_here

    kinds = [kind.name for kind in kinds_here()]
    fast = kinds[0] if kinds else "no fast"
    text = f"{platform.machine()}, {counted(cores or 1, 'core')}, {fast} instructions for int8"
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
