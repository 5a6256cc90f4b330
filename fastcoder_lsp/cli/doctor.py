"""`fastcoder-lsp doctor`: what is there, what is wrong, what to do about it. Changes and downloads nothing."""

import argparse
import json
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from fastcoder_lsp import __version__
from fastcoder_lsp.config import Settings
from fastcoder_lsp.errors import FastcoderError, UsageError

SAMPLE = '''def fibonacci(n: int) -> list[int]:
    """The first n Fibonacci numbers."""
    numbers = [0, 1]
    while len(numbers) < n:
        numbers.append('''
SAMPLE_AFTER = "\n    return numbers[:n]\n"
LOW_MEMORY_BYTES = 2 << 30
LOW_DISK_BYTES = 2 << 30


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at. `state`: "ok", "note" (works, worth knowing) or "wrong"; `hint`: what to do about it."""

    name: str
    state: str
    text: str
    hint: str = ""
    details: dict[str, object] = field(default_factory=dict)


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "doctor",
        help="look at everything, and say what to do about what is wrong",
        description="Look at Python, torch, the device, memory, the cache folder, the model and its prompt template; "
        "time one completion. Nothing is changed or downloaded. Exit code 0 if all is right, 1 otherwise.",
        epilog="Example: fastcoder-lsp doctor --json",
    )
    parser.add_argument("--model", help="a hub id, a folder or a .gguf file (default: auto)")
    parser.add_argument("--engine", help="what computes (default: auto)")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print every check as it is made; 0 if nothing is wrong."""
    from fastcoder_lsp.config import Layer, resolve

    chosen = {"model": arguments.model, "engine": arguments.engine}
    settings, problems = resolve([Layer("command line", {k: v for k, v in chosen.items() if v is not None}, True)])
    if problems:
        raise UsageError(str(problems[0]), "See: fastcoder-lsp doctor --help")
    checks = []
    for check in examine(settings):
        checks.append(check)
        if not arguments.json:
            _print(check)
    wrong = [check for check in checks if check.state == "wrong"]
    if arguments.json:
        report = {"ok": not wrong, "version": __version__, "checks": [asdict(check) for check in checks]}
        print(json.dumps(report, indent=1, ensure_ascii=False))
    else:
        print(f"\n{len(wrong)} of {len(checks)} things are wrong: see →" if wrong else "\nAll is right.")
    return 1 if wrong else 0


def examine(settings: Settings) -> Iterator[Check]:
    """All checks in order; one that depends on a failed one is left out."""
    yield Check("fastcoder-lsp", "ok", f"{__version__}, {Path(__file__).parents[1]}", details={"version": __version__})
    yield check_python()
    yield from check_torch()
    yield check_processor()
    yield check_memory()
    yield check_cache()
    model = _attempt("model", lambda: check_model(settings))
    yield model
    if model.state == "wrong":
        return
    yield _attempt("template", lambda: check_template(Path(str(model.details["folder"]))))
    yield _attempt("completion", lambda: check_completion(settings))


def _attempt(name: str, check: Callable[[], Check]) -> Check:
    """A check whose own failure is a finding."""
    try:
        return check()
    except FastcoderError as error:
        return Check(name, "wrong", error.message, error.hint)


def check_python() -> Check:
    """The interpreter that runs this."""
    text = f"{platform.python_version()}, {sys.executable}"
    return Check("python", "ok", text, details={"version": platform.python_version(), "executable": sys.executable})


def check_torch() -> Iterator[Check]:
    """That torch and transformers are there, can be loaded, and see the GPU that the driver sees."""
    hint = f"Install the packages again: {sys.executable} -m pip install --force-reinstall torch transformers"
    try:
        import torch

        found = {"torch": torch.__version__, "transformers": version("transformers")}
    except (ImportError, OSError, PackageNotFoundError) as error:
        yield Check("torch", "wrong", f"torch or transformers cannot be loaded: {error}", hint)
        return
    yield Check("torch", "ok", f"{found['torch']}, transformers {found['transformers']}", details=dict(found))

    from fastcoder_lsp.model import gpu_memory_bytes
    from fastcoder_lsp.model.store import size_text

    driver = gpu_memory_bytes()
    if torch.cuda.is_available():
        name = torch.cuda.get_device_name(0)
        yield Check("gpu", "ok", f"{name}, {size_text(driver)}", details={"name": name, "memory_bytes": driver})
    elif driver:
        text = f"an NVIDIA GPU with {size_text(driver)}, which this torch cannot use"
        build = "it is a build for CPUs" if torch.version.cuda is None else "its CUDA does not fit the driver"
        yield Check("gpu", "wrong", f"{text}: {build}", "Install torch as https://pytorch.org says for your driver.")
    elif torch.backends.mps.is_available():
        yield Check("gpu", "note", "Apple silicon through MPS", "It was never tested: --engine cpu-bf16 avoids it.")
    else:
        yield Check("gpu", "ok", "none; the CPU computes")


def check_processor() -> Check:
    """The CPU: its cores, and the instructions that torch found."""
    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    instructions = torch.backends.cpu.get_cpu_capability()
    text = f"{platform.machine()}, {cores} cores, {instructions}"
    return Check("processor", "ok", text, details={"cores": cores, "instructions": instructions})


def check_memory() -> Check:
    """The machine's memory."""
    import psutil

    from fastcoder_lsp.model.store import size_text

    memory = psutil.virtual_memory()
    text = f"{size_text(memory.total)}, {size_text(memory.available)} free"
    details: dict[str, object] = {"total_bytes": memory.total, "available_bytes": memory.available}
    if memory.available < LOW_MEMORY_BYTES:
        return Check("memory", "wrong", text, "The default model needs about 2 GB: close other programs.", details)
    return Check("memory", "ok", text, details=details)


def check_cache() -> Check:
    """The cache folder: its size by part, free space, and that we can write to it and others cannot."""
    from fastcoder_lsp.config import cache_folder
    from fastcoder_lsp.model.store import folder_bytes, size_text

    cache = cache_folder()
    there = next(folder for folder in (cache, *cache.parents) if folder.exists())
    free = shutil.disk_usage(there).free
    sizes = {part.name: folder_bytes(part) for part in sorted(cache.glob("*/"))}
    parts = ", ".join(f"{name} {size_text(size)}" for name, size in sizes.items() if size)
    text = f"{cache}: {parts or 'empty'}; {size_text(free)} free"
    details: dict[str, object] = {"folder": str(cache), "bytes": sizes, "free_bytes": free}
    if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
        hint = "Give yourself the right to write there, or name another folder: FASTCODER_CACHE=FOLDER"
        return Check("cache", "wrong", f"{text}; {there} cannot be written to", hint, details)
    if free < LOW_DISK_BYTES:
        hint = "Free some space, or name a folder on another disk: FASTCODER_CACHE=FOLDER"
        return Check("cache", "wrong", text, hint, details)
    models = cache / "models"
    if os.name == "posix" and models.is_dir() and models.stat().st_mode & 0o022:
        return Check("cache", "wrong", f"{text}; others may write to it", f"Run: chmod -R go-w {cache}", details)
    return Check("cache", "ok", text, details=details)


def check_model(settings: Settings) -> Check:
    """Which model, from which source, and how it differs from what was asked for."""
    from fastcoder_lsp import model

    files = model.find(settings.model)
    details: dict[str, object] = {
        "name": files.name,
        "source": files.source,
        "variant": files.variant,
        "folder": str(files.folder),
        "digest": files.digest,
    }
    text = f"{files.name}, from {files.source}"
    if not files.variant:
        return Check("model", "ok", text, details=details)
    wanted = "" if settings.model == "auto" else f" {settings.model}"
    hint = f"For the model itself: fastcoder-lsp model pull{wanted} --exact"
    return Check("model", "note", f"{text}; {files.variant}", hint, details)


def check_template(folder: Path) -> Check:
    """How the model is asked to fill in the middle."""
    from fastcoder_lsp.prompt import template_of
    from fastcoder_lsp.tokenizer import Tokenizer

    template = template_of(Tokenizer.load(folder).control)
    details: dict[str, object] = {"name": template.name, "middle": template.middle}
    if template.middle:
        marks = f"{template.prefix} {template.suffix} {template.middle}"
        return Check("template", "ok", f"{template.name}: {marks}", details=details)
    text = "none: this model cannot fill in the middle and sees only what stands before the cursor"
    return Check("template", "note", text, "Take a model trained for it, such as Qwen/Qwen2.5-Coder-0.5B.", details)


def check_completion(settings: Settings) -> Check:
    """One completion through the service that the editors use, timed."""
    from fastcoder_lsp.completion.once import complete_once
    from fastcoder_lsp.core import CompletionRequest, Snapshot

    snapshot = Snapshot("untitled:doctor.py", None, "python", 0, SAMPLE + SAMPLE_AFTER)
    request = CompletionRequest(snapshot, len(SAMPLE), invoked=True)
    completion, _ = complete_once(settings, request, lambda _percent, _message: None)
    spans = {name: round(ms, 1) for name, ms in completion.ms.items()}
    details: dict[str, object] = {"engine": completion.engine, "text": completion.text, "ms": spans}
    details |= {"steps": completion.steps, "tokens": completion.tokens, "prefilled": completion.prefilled}
    if not completion.text:
        hint = "The model ran but suggested nothing for a simple function: try another with --model."
        return Check("completion", "wrong", f"nothing, by {completion.engine}", hint, details)
    first = completion.text.partition("\n")[0]
    each = spans["verify"] / max(1, completion.steps)
    text = f"{spans['total']:.0f} ms by {completion.engine} ({each:.0f} ms a step): numbers.append(«{first}»"
    return Check("completion", "ok", text, details=details)


def _print(check: Check) -> None:
    mark = {"ok": "✓", "note": "•", "wrong": "✗"}[check.state]
    print(f"{mark} {check.name:13} {check.text}")
    if check.hint:
        print(f"{'':16}→ {check.hint}")
