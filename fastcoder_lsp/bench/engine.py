"""`bench engine`: the cost of a forward pass, beside its products alone and transformers' bf16 in the same run.

A pass is a whole step: rows in, verification, commit; the KV cache holds 700 tokens before it.
"""

import json
import os
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fastcoder_lsp.bench.limits import Limits, measure_limits
from fastcoder_lsp.bench.model import find_model
from fastcoder_lsp.bench.report import print_table, shown, tell_share, write_json
from fastcoder_lsp.config.environment import missing_packages, neutral_folder, python_command
from fastcoder_lsp.core import DraftTree, Engine
from fastcoder_lsp.engine.int8.backend import Int8Backend
from fastcoder_lsp.engine.int8.dot import PLAIN, kinds_of_cpu
from fastcoder_lsp.engine.tree_engine import TreeEngine
from fastcoder_lsp.errors import ResourceError, UsageError
from fastcoder_lsp.model import require_checkpoint, unpacked_bytes
from fastcoder_lsp.model.choice import PROMPT_MS, PROMPT_TOKENS, STEP_MS
from fastcoder_lsp.model.files import WEIGHTS
from fastcoder_lsp.model.machine import install_line
from fastcoder_lsp.model.store import size_text
from fastcoder_lsp.observe import percentile
from fastcoder_lsp.tokenizer import Tokenizer

EXAMPLE = "engine --json engine.json"
WIDTHS = (1, 2, 4, 8, 16, 32, 64)  # rows of a step
PREFILLS = (512, 1024)  # tokens of a prefill
CACHED = 700  # tokens in the KV cache before a step
_COMPARED = ("accelerate", "torch", "transformers")
"""Packages for the comparison; an installation for a CPU has none of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Time steps of 1 to 64 rows with 700 tokens in the KV cache, and prefills.

    Beside them, taking turns in the same run: the byte products alone and, where it is installed, transformers in bf16.
    For a model in a GGUF, transformers needs the weights unpacked, which only --transformers does. On the CPU each
    figure is compared with what the memory and the instructions of this machine allow. --kinds measures the code of
    other classes of CPUs, each in a process of its own: `all`, or names such as avx2,vnni-256.
    """

    model: str = field(default="auto", metadata={"help": "a hub id, a folder or a .gguf"})
    engine: str = field(default="auto", metadata={"help": "kind of engine"})
    threads: int | None = field(default=None, metadata={"help": "CPU threads (default: as the setting `threads`)"})
    kinds: str = field(
        default="", metadata={"help": "kinds of CPU instructions to compare: all, or NAME,NAME", "metavar": "KINDS"}
    )
    rounds: int = field(default=7, metadata={"help": "measurements of each figure"})
    transformers: bool = field(
        default=False, metadata={"help": "unpack a GGUF for the comparison: gigabytes in the cache"}
    )
    no_transformers: bool = field(default=False, metadata={"help": "leave out the comparison"})
    json: Path | None = field(default=None, metadata={"help": "write the full results", "metavar": "FILE"})


@dataclass(frozen=True, slots=True)
class Shares:
    """The machine's limits and, by the name of a figure, the share of the bandwidth, and products a cycle and core."""

    limits: Limits
    bandwidth: dict[str, float]
    products: dict[str, float]


@dataclass(frozen=True, slots=True)
class Figures:
    """Median milliseconds by rows of a step and by tokens of a prefill."""

    forward_ms: dict[str, float]
    prefill_ms: dict[str, float]


def run(options: Options) -> int:
    """Run the command: measure, print the results and write them to a file."""
    if options.rounds < 1:
        raise UsageError(f"--rounds: {options.rounds} is less than 1", "Try: --rounds 3")
    if options.kinds:
        return _compare_kinds(options)
    model = find_model(options.model)
    context = max(CACHED + max(WIDTHS), *PREFILLS) + 1
    with shown("loading the model", 100) as tell:
        engine = model.engine(options.engine, context, threads=options.threads, progress=tell_share(tell))
    tokens = _tokens(model.tokenizer, engine.info.vocabulary)
    subjects: dict[str, Callable[[int, bool], float]] = {"ours": _engine_subject(engine, tokens)}
    products = _products_only(engine)
    if products is not None:
        subjects["products"] = lambda rows, prefill: 0.0 if prefill else _timed(lambda: products(rows))
    if engine.info.name != "llama" and _compares(model.files.folder, options):
        subjects["transformers bf16"] = _transformers_subject(model.files.folder, tokens, options.threads, engine)
    figures = _measure(subjects, options.rounds)
    shares = _shares(engine, figures["ours"])
    _print(engine, figures, shares)
    if options.json:
        info = engine.info
        settings = {"engine": info.name, "device": info.device, "model": model.files.name, "cached": CACHED}
        results = _results(figures) | ({"limits": asdict(shares)} if shares is not None else {})
        write_json(options.json, "engine", settings | {"rounds": options.rounds}, results)
    engine.close()
    return 0


def _compares(folder: Path, options: Options) -> bool:
    """Whether transformers is compared with. If not, stderr says how to add it; if so, what is written for it."""
    if options.no_transformers:
        return False
    if lacking := missing_packages(*_COMPARED):
        sys.stderr.write(f"No comparison with transformers. To add it, run: {install_line(*lacking)}\n")
        return False
    if size := unpacked_bytes(folder):
        written = f"{size_text(size)} of unpacked weights to {folder / WEIGHTS}"
        if not options.transformers:
            sys.stderr.write(
                f"No comparison with transformers, which cannot read this GGUF. To add it, run with --transformers: "
                f"it writes {written}\n"
            )
            return False
        sys.stderr.write(f"Writing {written}\n")
    return True


def _measure(subjects: Mapping[str, Callable[[int, bool], float]], rounds: int) -> dict[str, Figures]:
    """Every figure of every subject, `rounds` times in turns, after a first time that is not counted."""
    steps: dict[tuple[str, int], list[float]] = {}
    prefills: dict[tuple[str, int], list[float]] = {}
    work = [
        (turn, name, size, prefill)
        for turn in range(rounds + 1)
        for name in subjects
        for sizes, prefill in ((WIDTHS, False), (PREFILLS, True))
        for size in sizes
        if not prefill or turn <= 3
    ]
    with shown("measuring", len(work)) as tell:
        for done, (turn, name, size, prefill) in enumerate(work, 1):
            ms = subjects[name](size, prefill)
            if turn:
                (prefills if prefill else steps).setdefault((name, size), []).append(ms)
            tell(done)
    return {
        name: Figures(
            {str(size): percentile(steps[name, size], 0.5) for size in WIDTHS},
            {str(size): percentile(prefills[name, size], 0.5) for size in PREFILLS},
        )
        for name in subjects
    }


def _engine_subject(engine: Engine, tokens: tuple[int, ...]) -> Callable[[int, bool], float]:
    def measure(size: int, prefill: bool) -> float:
        engine.prefill(() if prefill else tokens[:CACHED], _never)
        if prefill:
            return _timed(lambda: engine.prefill(tokens[:size], _never))
        # Drafts below the root alone: one at most is accepted, as where guesses are wrong.
        drafts = tuple(token for token in dict.fromkeys(tokens) if token != tokens[CACHED])[: size - 1]
        tree = DraftTree((tokens[CACHED], *drafts), (-1, *[0] * len(drafts)))
        return _timed(lambda: engine.step(tree))

    return measure


def _transformers_subject(
    folder: Path, tokens: tuple[int, ...], threads: int | None, engine: Engine
) -> Callable[[int, bool], float]:
    """The same work by transformers' own forward: a dynamic cache, its causal mask, logits of all rows of a step."""
    import torch  # noqa: PLC0415 only this comparison needs it
    from transformers import AutoModelForCausalLM, DynamicCache  # noqa: PLC0415
    from transformers.utils import logging  # noqa: PLC0415

    bars: Any = logging
    bars.disable_progress_bar()
    if threads is not None:
        torch.set_num_threads(threads)
    with shown("reading the weights", 100) as tell:
        require_checkpoint(folder, tell_share(tell))
    place = "cuda" if torch.cuda.is_available() and not engine.info.name.startswith("cpu") else "cpu"
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    model.to(place)
    ids = torch.tensor([tokens], device=place)
    filled = DynamicCache()
    with torch.inference_mode():
        model(ids[:, :CACHED], past_key_values=filled, logits_to_keep=1)

    def measure(size: int, prefill: bool) -> float:
        cache = DynamicCache() if prefill else filled
        part = ids[:, :size] if prefill else ids[:, CACHED : CACHED + size]

        def forward() -> None:
            model(part, past_key_values=cache, logits_to_keep=1 if prefill else 0)
            if place == "cuda":
                torch.cuda.synchronize()

        with torch.inference_mode():
            ms = _timed(forward)
            if not prefill:
                filled.crop(-size)
        return ms

    return measure


def _products_only(engine: Engine) -> Callable[[int], None] | None:
    """Runs the matrix products of a step of so many rows; None for an engine that cannot tell them apart."""
    backend = _backend(engine)
    return backend.run_products if backend is not None else None


def _backend(engine: Engine) -> Int8Backend | None:
    return engine.backend if isinstance(engine, TreeEngine) and isinstance(engine.backend, Int8Backend) else None


def _shares(engine: Engine, ours: Figures) -> Shares | None:
    """How near the machine's limits each figure is; None for an engine that is not our CPU engine."""
    backend = _backend(engine)
    if backend is None:
        return None
    with shown("measuring the machine", 1) as tell:
        limits = measure_limits(backend.kind, backend.threads)
        tell(1)
    bandwidth, products = dict[str, float](), dict[str, float]()
    for figures, whole in ((ours.forward_ms, True), (ours.prefill_ms, False)):
        bytes_, numbers = backend.step_work(head=whole)
        for size, ms in figures.items():
            name = f"{'step' if whole else 'prefill'} of {size}"
            passes = 1 if whole else -(-int(size) // backend.chunk)
            bandwidth[name] = passes * bytes_ / ms / 1e6 / limits.gb_s
            products[name] = int(size) * numbers / ms / 1e6 / limits.ghz / backend.threads
    return Shares(limits, bandwidth, products)


def _compare_kinds(options: Options) -> int:
    """Measure each kind of instructions in a process of its own, and print them side by side."""
    found = [kind.name for kind in kinds_of_cpu()]
    names = [name for name in found if name != PLAIN.name] or found
    wanted = names if options.kinds == "all" else list(dict.fromkeys(map(str.strip, options.kinds.split(","))))
    if unknown := [name for name in wanted if name not in found]:
        raise UsageError(f"--kinds: this CPU cannot run {unknown[0]!r}", f"Try: --kinds {','.join(names)}")
    reports = dict[str, Any]()
    with TemporaryDirectory() as folder:
        for name in wanted:
            report = Path(folder) / f"{name}.json"
            sys.stderr.write(f"{name}:\n")
            command = python_command("fastcoder_lsp.cli.main", "bench", "engine", "--json", str(report))
            command += ("--model", options.model, "--engine", options.engine, "--rounds", str(options.rounds))
            command += ("--no-transformers", *(("--threads", str(options.threads)) if options.threads else ()))
            # What the process prints would come before the table of all.
            done = subprocess.run(
                command,
                env=os.environ | {"FASTCODER_KIND": name},
                stdout=subprocess.DEVNULL,
                cwd=neutral_folder(),
                check=False,
            )
            if done.returncode > 0:
                return done.returncode  # its own message is on stderr
            if done.returncode < 0:
                text = f"the measurement of {name} was ended by signal {-done.returncode}"
                raise ResourceError(text, "Close other programs: memory may have run out.")
            reports[name] = json.loads(report.read_text(encoding="utf-8"))
    _print_kinds(reports)
    if options.json:
        write_json(options.json, "engine", {"kinds": wanted, "rounds": options.rounds}, {"kinds": reports})
    return 0


def _print_kinds(reports: Mapping[str, Any]) -> None:
    columns, rows = [""], list[list[object]]()
    engines = {name: report["settings"]["engine"] for name, report in reports.items()}
    alike = len(set(engines.values())) == 1
    for name, kind in engines.items():  # `auto` may take another precision on each
        columns += [name if alike else f"{name}, {kind}", "of limit"]
    for part, sizes in (("step", WIDTHS), ("prefill", PREFILLS)):
        for size in sizes:
            row: list[object] = [f"{part} of {size}"]
            for report in reports.values():
                row += [report["forward_ms" if part == "step" else "prefill_ms"][str(size)], _nearest(report, row[0])]
            rows.append(row)
    settings = next(iter(reports.values()))["settings"]
    measured = f"{settings['model']}: {settings['engine']}" if alike else settings["model"]
    title = f"{measured}; ms, {CACHED} tokens in the KV cache"
    print_table(f"{title}; share of the nearer limit (m memory, p products)", columns, rows)


def _nearest(report: Mapping[str, Any], name: Any) -> str:
    """The share of the limit that a figure comes nearest to; empty where none was measured."""
    if "limits" not in report:
        return ""
    shares = Shares(**report["limits"] | {"limits": Limits(**report["limits"]["limits"])})
    memory, products = shares.bandwidth[name], shares.products[name] / shares.limits.products
    return f"{max(memory, products):.0%} {'m' if memory > products else 'p'}"


def _print(engine: Engine, figures: Mapping[str, Figures], shares: Shares | None) -> None:
    names = list(figures)
    rows: list[list[object]] = [
        [f"step of {size}", *(figures[n].forward_ms[str(size)] for n in names)] for size in WIDTHS
    ]
    rows += [
        [f"prefill of {size}", *("" if n == "products" else figures[n].prefill_ms[str(size)] for n in names)]
        for size in PREFILLS
    ]
    title = f"{engine.info.model}: {engine.info.name} on {engine.info.device}; ms, {CACHED} tokens in the KV cache"
    columns = ["", *names]
    if shares is not None:
        limits = shares.limits
        columns += ["of memory", "products a cycle", "of limit"]
        for row in rows:
            rate = shares.products[str(row[0])]
            row += [f"{shares.bandwidth[str(row[0])]:.0%}", f"{rate:.1f}", f"{rate / limits.products:.0%}"]
        title += (
            f"\nlimits: {limits.gb_s:.1f} GB/s; {limits.products:.0f} products a cycle and core at {limits.ghz:.2f} GHz"
        )
    print_table(title, columns, rows)
    sys.stdout.write(f"{_verdict(figures['ours'])}\n")


def _verdict(ours: Figures) -> str:
    """Whether the figures are good enough for typing, by the limits that `auto` keeps."""
    step, (tokens, prefill) = ours.forward_ms["1"], next(iter(ours.prefill_ms.items()))
    prompt = prefill * PROMPT_TOKENS / int(tokens)
    good = step <= STEP_MS and prompt <= PROMPT_MS
    return (
        f"A token (a step of 1) takes {step:.0f} ms, and a prompt of {PROMPT_TOKENS} tokens {prompt:.0f} ms. "
        + ("That is fast enough" if good else "That is slow")
        + f" for suggestions while you type: the limits are {STEP_MS:.0f} and {PROMPT_MS:,.0f} ms."
        + ("" if good else " A smaller model is faster (docs/models.md).")
    )


def _results(figures: Mapping[str, Figures]) -> dict[str, Any]:
    ours = figures["ours"]
    results: dict[str, Any] = {"forward_ms": ours.forward_ms, "prefill_ms": ours.prefill_ms}
    if "products" in figures:
        results["products_ms"] = figures["products"].forward_ms
    if "transformers bf16" in figures:
        theirs = figures["transformers bf16"]
        results["transformers_bf16"] = {"forward_ms": theirs.forward_ms, "prefill_ms": theirs.prefill_ms}
    return results


def _tokens(tokenizer: Tokenizer, vocabulary: int) -> tuple[int, ...]:
    text = (Path(sysconfig.get_path("stdlib")) / "argparse.py").read_text(encoding="utf-8")
    ids = tokenizer.encode(text)
    return tuple(token for token in ids if token < vocabulary)[: max(PREFILLS) + max(WIDTHS)]


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3


def _never() -> bool:
    return False
