"""`bench trained`: what `train` did to a model: the model before and after, each measured in the parts asked for.

Counts of Jacobi decoding are those of Kou et al. 2024 (arXiv 2403.00835), section 4.2: the *fast-forward* count of a
step is how many tokens became final in it; *stationary* tokens are those of a guess that are right already though one
before them is wrong, and stay. Counts of SDSAT are those of Liu et al. 2024 (arXiv 2403.18647v2), figures 3 and 4: of k
guesses, how many are accepted.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from typing_extensions import override

from benchmarks.datasets import body_prompt, data_folder, infilling_rows, load_functions, load_lines, require, spread
from benchmarks.drafting import DrafterParts, ObservedDrafter, Pair, figures, make, run_once
from benchmarks.harness import Mean, Reported, decode_request, line_end, paired, write
from benchmarks.questions import InfillQuestion, PromptVariant, prompt_of
from fastcoder_lsp.bench.model import BenchModel, find_model
from fastcoder_lsp.bench.report import print_table
from fastcoder_lsp.cli.options import option
from fastcoder_lsp.config.table import ENGINES
from fastcoder_lsp.core import Draft, DraftContext, DraftTree, Engine, Sampler, Verified
from fastcoder_lsp.decode.loop import DecodeRequest, decode
from fastcoder_lsp.draft.base import NoDrafter, Trained, load_trained
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.model.files import read_record
from fastcoder_lsp.papers.jacobi import JacobiDrafter, JacobiParameters
from fastcoder_lsp.papers.sdsat import FROM_SDSAT, SdsatDrafter, SdsatParameters
from fastcoder_lsp.workspace.corpus_files import texts_of

EXAMPLE = "trained --model tuned/model --before auto --limit 12"
CONTEXT = 2048
PROMPT_TOKENS = 512
LINE_TOKENS = 64
GRAM = 4
DISTINCT_LEAST = 0.7
"""Outputs below it loop, which flatters every drafter: they are counted apart."""

CPU_S, MEMORY_BYTES = 4, 512 << 20
"""CPU seconds and memory of a program that a model wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Reported):
    """Decode with a tuned model, and with the one it was tuned from, and compare.

    Jacobi's fast-forward and stationary tokens for each n, SDSAT's accepted guesses for each k, speed against plain
    decoding, exact match of single-line infilling, and whether programs with the model's line pass their tests (run in
    a process with limits on time, memory and files).
    """

    model: str = option("the tuned model: OUT/model of `train`")
    before: str | None = option("the model that it was tuned from, to compare", None, metavar="MODEL")
    parts: str = option("of counts, speed, exact, functional", "counts,speed,exact,functional")
    data: list[Path] = option(
        "folders of code for counts and speed (default: RepoEval)", [], nargs="+", metavar="SOURCE"
    )
    engine: str = option("as the setting `engine`", "auto", choices=ENGINES)
    limit: int = option("prompts for counts and speed", 16, metavar="N")
    tokens: int = option("tokens of each output", 96, metavar="N")
    blocks: str = option("n of Jacobi decoding", "16,32", metavar="N,…")
    ks: str = option("k of SDSAT", "1,3,5,8,13", metavar="K,…")
    drafters: str = option("for speed", "jacobi,lookahead,sdsat,auto,auto:without=trained", metavar="NAMES")
    quality_limit: int = option("tasks of infilling", 100, metavar="N")


@dataclass(frozen=True, slots=True)
class LoadedModel:
    model: BenchModel
    engine: Engine
    trained: Trained


def run(options: Options) -> int:
    tuned = find_model(options.model).files
    record = read_record(tuned.folder, tuned.digest)
    if record is None:
        raise UsageError(
            f"{tuned.name} was not tuned by `fastcoder-lsp train`", "Name the folder that train wrote: OUT/model."
        )
    results: dict[str, Any] = {"record": {"method": record.method, "base": record.base, "figures": record.figures}}
    for side, name in (("before", options.before), ("after", options.model)):
        if name:
            results[side] = _measure(find_model(name), options)
    if "before" in results and results["before"]["digest"] != record.base_digest:
        results["note"] = "the model before is not the one that was tuned"
    tell(results)
    write(options, "trained", results)
    return 0


def _measure(model: BenchModel, options: Options) -> dict[str, Any]:
    engine = model.engine(options.engine, CONTEXT)
    files = model.files
    loaded = LoadedModel(model, engine, load_trained(files.folder, files.digest))
    try:
        found: dict[str, Any] = {"model": files.name, "digest": files.digest, "engine": engine.info.name}
        parts = options.parts.split(",")
        if "counts" in parts:
            found |= counts(loaded, requests_of(loaded, options), options)
        if "speed" in parts:
            found["speed"] = speed(loaded, requests_of(loaded, options), options.drafters.split(","))
        if "exact" in parts:
            found["exact"] = exact(loaded, options.quality_limit)
        if "functional" in parts:
            found["functional"] = functional(loaded, options.quality_limit)
    finally:
        engine.close()
    return found


def requests_of(loaded: LoadedModel, options: Options) -> list[DecodeRequest]:
    """The requests for counts and speed: functions of RepoEval, or places in the user's own files."""
    prompts: list[tuple[int, ...]] = []
    if options.data or data_folder() is None:
        sources = [Path(source) for source in options.data or ()]
        if not sources:
            raise UsageError("there are no benchmark tasks on this machine", "Name folders of code with --data.")
        for _, text in texts_of(sources):
            ids = loaded.model.tokenizer.encode(text)
            if len(ids) > 2 * options.tokens:
                start = len(ids) // 2
                prompts.append(tuple(ids[max(0, start - PROMPT_TOKENS) : start]))
    else:
        tasks = load_functions(require("repoeval"))
        prompts = [
            tuple(body_prompt(loaded.model.tokenizer, tasks.before(task))[-PROMPT_TOKENS:]) for task in tasks.tasks
        ]
    return [decode_request(loaded.model.tokenizer, prompt, options.tokens) for prompt in spread(prompts, options.limit)]


def counts(loaded: LoadedModel, requests: Sequence[DecodeRequest], options: Options) -> dict[str, Any]:
    """Fast-forward and stationary tokens for each n, guesses accepted for each k; loops are left out."""
    outputs = [decode(loaded.engine, NoDrafter(), request, lambda: False).tokens for request in requests]
    lively = [
        request for request, output in zip(requests, outputs, strict=True) if distinct_share([output]) >= DISTINCT_LEAST
    ]
    found: dict[str, Any] = {
        "outputs": len(outputs),
        "outputs_that_loop": len(outputs) - len(lively),
        "distinct_4_grams": distinct_share(outputs),
        "jacobi": {},
        "sdsat": {},
    }
    for block in map(int, options.blocks.split(",")):
        found["jacobi"][block] = count_jacobi(loaded.engine, lively, block)
    for k in map(int, options.ks.split(",")) if loaded.trained.adaptive else ():
        found["sdsat"][k] = count_accepted(loaded.engine, lively, loaded.trained.adaptive, k)
    return found


def speed(loaded: LoadedModel, requests: Sequence[DecodeRequest], drafters: Sequence[str]) -> dict[str, Any]:
    names = [name for name in drafters if name != "sdsat" or loaded.trained.adaptive]
    parts = DrafterParts(piece=loaded.model.tokenizer.piece, trained=loaded.trained)
    pairs: dict[str, list[Pair]] = {name: [] for name in names}
    for place, request in enumerate(requests):
        for name in names:
            plain = run_once(loaded.engine, NoDrafter(), request)
            drafted = run_once(loaded.engine, make(name, parts), request)
            if plain.emitted:
                pairs[name].append(Pair(str(place), plain, drafted))
    return {name: figures(of_name) for name, of_name in pairs.items() if of_name}


def exact(loaded: LoadedModel, limit: int) -> dict[str, float]:
    cases = spread(load_lines(require("humaneval_infilling"), "start"), limit)
    return {case.id: float(_answer(loaded, case.before, case.after).rstrip() == case.expected) for case in cases}


def functional(loaded: LoadedModel, limit: int) -> dict[str, float]:
    found = {}
    for row in spread(infilling_rows(require("humaneval_infilling")), limit):
        line = _answer(loaded, row["prompt"], "\n" + row["suffix"])
        program = f"{row['prompt']}{line}\n{row['suffix']}\n{row['test']}\ncheck({row['entry_point']})\n"
        found[row["task_id"]] = float(passes(program))
    return found


def _answer(loaded: LoadedModel, before: str, after: str) -> str:
    prompt = prompt_of(PromptVariant("anchored"), loaded.model.tokenizer, InfillQuestion("", before, after))
    request = decode_request(loaded.model.tokenizer, prompt.tokens, LINE_TOKENS, cut=line_end, healing=prompt.healing)
    return decode(loaded.engine, NoDrafter(), request, lambda: False).text


class StateListener(ObservedDrafter):
    """Remembers every state of a Jacobi iteration and where it stood: (tokens of output before it, state)."""

    def __init__(self, block: int) -> None:
        super().__init__(JacobiDrafter(JacobiParameters(length=block)))
        self.states: list[tuple[int, tuple[int, ...]]] = []

    @override
    def propose(self, context: DraftContext, nodes: int) -> Draft:
        draft = super().propose(context, nodes)
        self.states.append((len(context.tokens) - context.prompt_length, draft.tokens))
        return draft


class AcceptListener(ObservedDrafter):
    def __init__(self, adaptive: Sequence[int], k: int) -> None:
        super().__init__(SdsatDrafter(adaptive, SdsatParameters(k=k, branch=1, least=0.0, two_step=True)))
        self.accepted: list[int] = []

    @override
    def observe(self, tree: DraftTree, verified: Verified) -> None:
        if FROM_SDSAT.name in tree.sources:
            self.accepted.append(len(verified.path))
        super().observe(tree, verified)


def stationary(states: Sequence[tuple[int, tuple[int, ...]]], output: Sequence[int]) -> tuple[int, int]:
    """How many states there are, and how many of all their tokens are right behind a wrong one."""
    right_behind = 0
    for start, state in states:
        final = output[start : start + len(state)]
        agrees = [token == said for token, said in zip(state, final, strict=False)]
        wrong = agrees.index(False) if False in agrees else len(agrees)
        right_behind += sum(agrees[wrong:])
    return len(states), right_behind


def count_jacobi(engine: Engine, requests: Sequence[DecodeRequest], block: int) -> dict[str, float]:
    """Tokens that become final in a step of Jacobi iteration with n = `block`, and stationary tokens of a state."""
    tokens, steps, states, still = 0, 0, 0, 0
    for request in requests:
        listener = StateListener(block)
        result = decode(engine, listener, _wide(request, block + 1), lambda: False)
        count, right = stationary(listener.states, result.tokens)
        tokens, steps = tokens + len(result.tokens), steps + result.counts.steps
        states, still = states + count, still + right
    return {"fast_forward": tokens / max(steps, 1), "stationary": still / max(states, 1)}


def count_accepted(
    engine: Engine, requests: Sequence[DecodeRequest], adaptive: Sequence[int], k: int
) -> dict[str, Any]:
    """SDSAT in the paper's two steps with k guesses: guesses accepted in a verification, tokens over all passes."""
    tokens, steps, accepted = 0, 0, list[int]()
    for request in requests:
        listener = AcceptListener(adaptive, k)
        result = decode(engine, listener, _wide(request, 2 * k + 2), lambda: False)
        tokens, steps = tokens + len(result.tokens), steps + result.counts.steps
        accepted += listener.accepted
    return {
        "accepted": sum(accepted) / max(len(accepted), 1),
        "tokens_a_pass": tokens / max(steps, 1),
        "histogram": dict(sorted(Counter(accepted).items())),
    }


def distinct_share(outputs: Sequence[Sequence[int]]) -> float:
    """Distinct 4-grams over all of each output, averaged: what loops has few."""
    shares = []
    for output in outputs:
        grams = [tuple(output[place : place + GRAM]) for place in range(len(output) - GRAM + 1)]
        if grams:
            shares.append(len(set(grams)) / len(grams))
    return sum(shares) / max(len(shares), 1)


def _wide(request: DecodeRequest, nodes: int) -> DecodeRequest:
    return replace(request, nodes=nodes + 12, sampler=Sampler())


def tell(results: Mapping[str, Any]) -> None:
    sides = [side for side in ("before", "after") if side in results]
    if "note" in results:
        print(f"Note: {results['note']}.")
    rows: list[tuple[object, ...]] = []
    for side in sides:
        found = results[side]
        for block, count in found.get("jacobi", {}).items():
            rows.append((f"{side}: jacobi n={block}", count["fast_forward"], count["stationary"], ""))
        for k, count in found.get("sdsat", {}).items():
            rows.append((f"{side}: sdsat k={k}", count["tokens_a_pass"], "", count["accepted"]))
    if rows:
        loops = ", ".join(f"{side} {results[side]['distinct_4_grams']:.2f}" for side in sides)
        print_table(
            f"Counts; distinct 4-grams: {loops}", ("what", "tokens a pass", "stationary", "accepted of k"), rows
        )
    speeds = [
        (f"{side}: {name}", r["plain_ms_per_token"], r["ms_per_token"], r["speedup"], r["mat"], r["identical"])
        for side in sides
        for name, r in results[side].get("speed", {}).items()
    ]
    if speeds:
        print_table("Speed", ("drafter", "plain ms/token", "ms/token", "speed-up", "MAT", "identical"), speeds)
    for measure in ("exact", "functional"):
        scored = {side: results[side][measure] for side in sides if measure in results[side]}
        means = {side: Mean.of(list(values.values())) for side, values in scored.items()}
        lines = [(side, 100 * mean.mean, 100 * mean.standard_error, mean.tasks) for side, mean in means.items()]
        if len(scored) == 2 and (change := paired(scored["before"], scored["after"])) is not None:
            lines.append(("change", 100 * change.mean, 100 * change.standard_error, change.tasks))
        if lines:
            print_table(f"Single-line infilling, {measure}, percent", ("model", "mean", "s.e.", "tasks"), lines)


_GUARD = """
import sys
def _refuse(event, arguments):
    kind = event.partition(".")[0]
    if kind in ("socket", "subprocess", "shutil", "ctypes", "winreg", "ftplib", "urllib", "http", "smtplib"):
        raise PermissionError(event)
    if event in ("os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.kill", "os.remove",
                 "os.rename", "os.rmdir", "os.mkdir", "os.chmod", "os.chown", "os.link", "os.symlink", "os.truncate",
                 "os.putenv", "pty.spawn", "signal.pthread_kill"):
        raise PermissionError(event)
    if event == "open":
        mode, flags = arguments[1], arguments[2]
        if (isinstance(mode, str) and set(mode) & set("wax+")) or (isinstance(flags, int) and flags & 0x3):
            raise PermissionError(event)
source = sys.stdin.read()
limit = {limit}
if limit:
    import resource
    cpu, memory = limit
    for kind, value in (("CPU", cpu), ("AS", memory), ("FSIZE", 0), ("CORE", 0), ("NOFILE", 32), ("NPROC", 0)):
        try:
            resource.setrlimit(getattr(resource, "RLIMIT_" + kind), (value, value))
        except (ValueError, OSError, AttributeError):
            pass
code = compile(source, "answer", "exec")
sys.addaudithook(_refuse)
exec(code, {{"__name__": "answer"}})
sys.exit({reached})
"""
_REACHED = 77
"""The exit code of a program that ran to its end; one that leaves early by itself has another."""


def passes(program: str) -> bool:
    """Whether a program that a model wrote runs to its end without an exception, in a process of its own.

    The system limits CPU and wall time and memory, and lets no file grow and no process begin; on Linux, where it
    allows that, the network has no device. Python refuses sockets, processes and writing. This stops a code model's
    mistakes, not an adversary.
    """
    posix = os.name == "posix"
    guard = _GUARD.format(limit=(CPU_S, MEMORY_BYTES) if posix else None, reached=_REACHED)
    command = [*_without_network(), sys.executable, "-I", "-S", "-B", "-c", guard]
    with tempfile.TemporaryDirectory(prefix="answer-") as folder:
        try:
            done = subprocess.run(
                command,
                input=program.encode("utf-8", errors="replace"),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=folder,
                env={"PATH": os.defpath, "PYTHONHASHSEED": "0"},
                timeout=2 * CPU_S + 2,
                start_new_session=posix,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
    return done.returncode == _REACHED


@cache
def _without_network() -> tuple[str, ...]:
    """The command that gives a process a network of its own, where this system has it and lets us."""
    tool = shutil.which("unshare")
    if tool is None:
        return ()
    command = (tool, "--net", "--map-root-user", "--")
    try:
        tried = subprocess.run([*command, "true"], capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return command if tried.returncode == 0 else ()
