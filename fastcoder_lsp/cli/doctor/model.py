"""`doctor`'s checks of the model: its files, its prompt template, one completion."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from fastcoder_lsp.cli.doctor.check import Check
from fastcoder_lsp.config import Settings, cache_folder
from fastcoder_lsp.core.controls import counted

if TYPE_CHECKING:
    from fastcoder_lsp.prompt.retrieval import LatestPrompt

SAMPLE = '''def fibonacci(n: int) -> list[int]:
    """The first n Fibonacci numbers."""
    numbers = [0, 1]
    while len(numbers) < n:
        numbers.append('''
SAMPLE_AFTER = "\n    return numbers[:n]\n"


def check_model(settings: Settings) -> Check:
    """The model, its source, whether its files can be read, and how it differs from the requested one."""
    from fastcoder_lsp import model
    from fastcoder_lsp.model.files import damage
    from fastcoder_lsp.model.find import BROKEN_HINT

    files = model.find(settings.model)
    details: dict[str, object] = {
        "name": files.name,
        "source": files.source,
        "variant": files.variant,
        "folder": str(files.folder),
        "digest": files.digest,
    }
    text = f"{files.name}, from {files.source}"
    if damaged := damage(files.folder):
        return Check("model", "wrong", damaged.why, BROKEN_HINT, details)
    if not files.variant:
        return Check("model", "ok", text, details=details)
    wanted = "" if settings.model == "auto" else f" {settings.model}"
    hint = f"To get the model itself, run: fastcoder-lsp model pull{wanted} --exact"
    return Check("model", "note", f"{text}; {files.variant}", hint, details)


def check_edit_model(settings: Settings) -> Check:
    """The edit model: its files, its prompt format, and whether the free memory holds it."""
    from fastcoder_lsp import model
    from fastcoder_lsp.engine.architecture import fast_shape, read_config
    from fastcoder_lsp.model.files import damage
    from fastcoder_lsp.model.find import BROKEN_HINT
    from fastcoder_lsp.model.machine import available_bytes
    from fastcoder_lsp.model.store import size_text
    from fastcoder_lsp.runtime.edit_model import format_of

    files = model.find(settings.edits_model)
    details: dict[str, object] = {"name": files.name, "source": files.source, "folder": str(files.folder)}
    if damaged := damage(files.folder):
        return Check("edit model", "wrong", damaged.why, BROKEN_HINT, details)
    details["format"] = form = format_of(settings.edits_model, files).name
    shape, free = fast_shape(read_config(files.folder)), available_bytes()
    text = f"{files.name}, from {files.source}; prompts of the format {form}"
    if shape is not None and shape.weight_count > free:
        hint = "Close other programs, or name a smaller model in `edits.model`."
        return Check(
            "edit model", "wrong", f"{text}; its weights need more than the free {size_text(free)}", hint, details
        )
    return Check("edit model", "ok", text, details=details)


def check_choice(settings: Settings) -> Iterator[Check]:
    """The size that `auto` chooses for this machine, and the limits that it exceeds."""
    from fastcoder_lsp.cli.progress import progress_shown, shares
    from fastcoder_lsp.model.choice import words
    from fastcoder_lsp.runtime.compile_ahead import BITS
    from fastcoder_lsp.runtime.model_choice import chosen_model, gpu_for_choice

    if settings.model != "auto":
        return
    threads, gpu, bits = settings.threads or None, gpu_for_choice(settings), BITS.get(settings.engine, 8)
    with progress_shown() as shown:
        chosen = chosen_model(cache_folder(), shares(shown), threads=threads, gpu_bytes=gpu, bits=bits).chosen
    text = f"`auto` chooses {chosen.text}"
    if chosen.against:
        text += f"; it is the smallest, for no size keeps all limits: {words(chosen)}"
    elif chosen.speed is None and not chosen.gpu:
        text += "; nothing could be timed on this machine"
    state = "ok" if chosen.gpu or (chosen.speed is not None and not chosen.against) else "note"
    details: dict[str, object] = {"model": chosen.size.hub_id, "engine": chosen.engine}
    yield Check("choice", state, text, "To compare all sizes, run: fastcoder-lsp model list", details)


def check_template(folder: Path) -> Check:
    """The template of fill-in-the-middle prompts."""
    from fastcoder_lsp.prompt import template_of
    from fastcoder_lsp.tokenizer import Tokenizer

    template = template_of(Tokenizer.load(folder))
    details: dict[str, object] = {"name": template.name, "middle": template.middle}
    if template.marks:
        marks = " ".join(template.marks)
        return Check("template", "ok", f"{template.name}: {marks}", details=details)
    text = "none: this model sees only the text before the cursor"
    return Check("template", "note", text, "Use a fill-in-the-middle model, such as Qwen/Qwen2.5-Coder-0.5B.", details)


def check_completion(settings: Settings) -> Check:
    """One completion through the service that the editors use, timed."""
    from fastcoder_lsp.cli.once import complete_once
    from fastcoder_lsp.cli.progress import progress_shown, shares
    from fastcoder_lsp.core import CompletionRequest, Snapshot
    from fastcoder_lsp.runtime.costs import context_tokens

    snapshot = Snapshot("untitled:doctor.py", None, "python", 0, SAMPLE + SAMPLE_AFTER)
    request = CompletionRequest(snapshot, len(SAMPLE), invoked=True)
    prompts: list[LatestPrompt] = []
    with progress_shown() as display:

        def advance(percent: int | None, what: str) -> None:
            if percent is not None and what:
                shares(display)(percent / 100, what)

        completion, _ = complete_once(settings, request, advance, shown=prompts.append)
    spans = {name: round(ms, 1) for name, ms in completion.ms.items()}
    details: dict[str, object] = {"engine": completion.engine, "text": completion.text, "ms": spans}
    counts = completion.counts
    details |= {"steps": counts.steps, "tokens": counts.tokens, "prefilled": counts.prefilled}
    if not completion.text:
        reason = completion.reason
        details["reason"] = reason.code if reason else ""
        text = f"no suggestion from {completion.engine}" + (f": {reason.text}" if reason else "")
        hint = "The model suggested nothing for a simple function. Try another one with --model."
        return Check("completion", "wrong", text, hint, details)
    first = completion.text.partition("\n")[0]
    each = spans["verify"] / max(1, counts.steps)
    text = f"{spans['total']:.0f} ms by {completion.engine} ({each:.0f} ms a step): numbers.append(«{first}»"
    if prompts and prompts[0].prefill_ms:
        tokens = details["context_tokens"] = context_tokens("auto", prompts[0].prefill_ms)
        text += f'; `context.enabled = "auto"` adds up to {counted(tokens, "token")} of other files'
    return Check("completion", "ok", text, details=details)
