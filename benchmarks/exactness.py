"""`bench exactness`: whatever drafts, the model says the same; greedy and sampled, token for token.

Owns the prompts (seeded places in the tasks' repositories) and the comparison; every difference is told with its place.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from benchmarks.drafting import TaskOptions, TaskParts, TaskPin, all_names, drafter_names, load_parts, make
from benchmarks.harness import decode_request, top_two_gap, write
from fastcoder_lsp.bench.report import print_table
from fastcoder_lsp.cli.options import option
from fastcoder_lsp.core import GREEDY, DraftTree, Engine, Sampler, Verified
from fastcoder_lsp.core.differences import common_prefix
from fastcoder_lsp.decode.loop import DecodeRequest, decode
from fastcoder_lsp.draft.base import Drafter, NoDrafter
from fastcoder_lsp.errors import UsageError

EXAMPLE = "exactness --limit 20 --tokens 32 --engine cpu-fp32"
PROMPT_TOKENS = 256
SAMPLED = Sampler(temperature=0.8, top_k=50, top_p=0.95)
LONG_ENOUGH = 400
"""Characters: shorter files have no prompts."""
WIDTHS = (2, 5, 8, 16, 33, 64)
"""Rows of one verification; each prompt takes one of them."""
NEAR = 0.1
"""The gap of two logits that some kernels' rounding can turn over: a near-tie."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(TaskOptions):
    """Decode from seeded places in the tasks' repositories, plainly and with every drafter, and compare the tokens.

    Greedily and sampled, or greedily alone. The exit code is 1 where anything differs.
    """

    limit: int = option("prompts", 200, metavar="N")
    tokens: int = option("tokens from each prompt", 64, metavar="N")
    drafters: str | None = option("drafters (default: all)", None, metavar="NAMES")
    seed: int = option("seed of the places", 0, metavar="N")
    greedy: bool = option("sample nothing", False)


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """The first token that differs: which prompt, greedy or sampled, after how many tokens.

    `gap`: how far the two best logits lie apart there. Where decoding is greedy, a hair's breadth is rounding, which
    widths chosen freely allow on a GPU; more is a mistake.
    """

    prompt: int
    sampled: bool
    position: int
    gap: float


@dataclass(slots=True)
class NearTies:
    """How many of the tokens that the model chose plainly and greedily had a second one nearly as likely."""

    near: int = 0
    tokens: int = 0

    def hear(self, _tree: DraftTree, verified: Verified) -> None:
        assert verified.top_logits_NK is not None, "asked for the best, got none"
        self.tokens += 1
        self.near += bool(verified.top_logits_NK[-1, 0] - verified.top_logits_NK[-1, 1] < NEAR)


@dataclass(slots=True)
class ExactnessCounts:
    """One drafter's comparisons; `tokens` over `steps` shows that something was drafted at all."""

    greedy: int = 0
    sampled: int = 0
    tokens: int = 0
    steps: int = 0
    differences: list[FirstDifference] = field(default_factory=list)

    def decode(
        self, engine: Engine, drafter: Drafter, request: DecodeRequest, plain: tuple[int, ...], number: int
    ) -> None:
        sampled = request.sampler.temperature > 0
        result = decode(engine, drafter, request, lambda: False)
        self.sampled += sampled
        self.greedy += not sampled
        self.tokens += len(result.tokens) + (result.finish == "eos")
        self.steps += result.counts.steps
        if result.tokens != plain:
            same = common_prefix(result.tokens, plain)
            gap = top_two_gap(engine, (*request.prompt, *plain[:same]))
            self.differences.append(FirstDifference(number, sampled, same, gap))

    def figures(self) -> dict[str, Any]:
        return {
            "identical": not self.differences,
            "greedy_prompts": self.greedy,
            "sampled_prompts": self.sampled,
            "mat": self.tokens / max(self.steps, 1),
            "differences": [asdict(difference) for difference in self.differences],
            "differences_per_thousand_tokens": 1e3 * len(self.differences) / max(self.tokens, 1),
            "largest_gap": max((d.gap for d in self.differences), default=0.0),
        }


def run(options: Options) -> int:
    parts = load_parts(options)
    names = drafter_names(options.drafters) if options.drafters else all_names(parts.trained, len(parts.smaller))
    parts.require(names)
    engine = parts.engine()
    try:
        accounts, ties = compare(parts, engine, names, options)
    finally:
        engine.close()
        parts.smaller.close()
    results = {name: account.figures() for name, account in accounts.items()}
    columns = ("greedy_prompts", "sampled_prompts", "mat")
    print_table(
        f"{options.limit} prompts × {options.tokens} tokens, {engine.info.name}, {engine.info.device}",
        ("drafter", "greedy", "sampled", "MAT", "different", "largest gap"),
        [
            (name, *(row[column] for column in columns), len(row["differences"]), f"{row['largest_gap']:.4f}")
            for name, row in results.items()
        ],
    )
    print(f"{ties.near} of {ties.tokens} greedy tokens had a second one within {NEAR:g}")
    sampled = {name: getattr(SAMPLED, name) for name in ("temperature", "top_k", "top_p")}
    found = {"model": parts.model.files.name, "engine": engine.info.name, "prompt_tokens": PROMPT_TOKENS}
    write(options, "exactness", {"drafters": results, "near_ties": asdict(ties)}, **found, **sampled)
    return int(any(account.differences for account in accounts.values()))


def compare(
    parts: TaskParts, engine: Engine, names: Sequence[str], options: Options
) -> tuple[dict[str, ExactnessCounts], NearTies]:
    given = parts.drafter_parts(TaskPin(parts.stores, parts.chosen[0]))
    drafters = {name: make(name, given) for name in names}
    accounts, ties = {name: ExactnessCounts() for name in names}, NearTies()
    for number, (document, prompt) in enumerate(prompts(parts, options.limit, options.seed)):
        sampled = Sampler(SAMPLED.temperature, SAMPLED.top_k, SAMPLED.top_p, seed=number)
        for sampler in (GREEDY,) if options.greedy else (GREEDY, sampled):
            request = decode_request(
                parts.tokenizer,
                prompt,
                options.tokens,
                sampler=sampler,
                document=document,
                nodes=WIDTHS[number % len(WIDTHS)],
            )
            counted = sampler == GREEDY
            asked = replace(request, weighed=counted)
            heard = ties.hear if counted else None
            plain = decode(engine, NoDrafter(), asked, lambda: False, on_step=heard).tokens
            for name, drafter in drafters.items():
                accounts[name].decode(engine, drafter, request, plain, number)
    return accounts, ties


def prompts(parts: TaskParts, count: int, seed: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Document and prompt of `count` seeded places, half of them at a line's end; UsageError without a long file."""
    chance = random.Random(seed)  # noqa: S311 a place is no secret
    files = [
        (f"file:///{repo}/{path}", text)
        for repo, texts in parts.tasks.files.items()
        for path, text in texts.items()
        if len(text) > LONG_ENOUGH
    ]
    if not files:
        raise UsageError(
            f"no file of the tasks has more than {LONG_ENOUGH} characters",
            "Name a folder with longer files: --tasks DIR",
        )
    for number in range(count):
        document, text = chance.choice(files)
        place = chance.randrange(200, len(text))
        if number % 2:
            place = text.find("\n", place) + 1 or place
        before = parts.tokenizer.encode(text[max(place - 8 * PROMPT_TOKENS, 0) : place])[-PROMPT_TOKENS:]
        yield document, (*parts.tokenizer.start_ids, *before)
