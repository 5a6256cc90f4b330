"""`bench edits --latency`: from the last key to an edit, in real time, with real weights that say given answers.

Every pass of the model is computed, and its choice is replaced by the next token of the answer, so that drafts are
accepted as they are with a model that says it. The host, the scheduler, prompts, caches and the gate are the product's.
The pause after a key that the gate asks for is not waited for.
"""

import itertools
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from benchmarks.datasets import EditCase
from benchmarks.harness import WrappedEngine, WrappedEngines
from benchmarks.product import EditHost
from fastcoder_lsp.bench.report import print_table
from fastcoder_lsp.core import (
    GREEDY,
    Change,
    DraftTree,
    Engine,
    Engines,
    Prefilled,
    Sampler,
    ShouldStop,
    Tokens,
    Verified,
)
from fastcoder_lsp.core.bounds import MOST_CHANGES
from fastcoder_lsp.edits.formats import EditFormat, EditLimits, encode_parts, format_named, recognise
from fastcoder_lsp.edits.gate import EditFacts, EditGate, differing
from fastcoder_lsp.edits.prompts import Mark
from fastcoder_lsp.edits.values import EditQuestion
from fastcoder_lsp.tokenizer import Tokenizer

PROMPT = 600
"""Tokens of a prompt, with earlier changes as its beginning."""
LONGER = 120
"""Tokens of the longer answer; the others are recorded ones."""
REPEATS = 5
"""Measurements of the longer answer."""
RECORDED = "sweep-next-edit-0.5B"
TYPED, KNOWN, COLD = "after a key", "history known", "cold"
"""Ways of measuring: the prompt before the key is known; all before the current window is known; nothing is."""
_WINDOW = 20
"""Lines beside the cursor's that are always in the window."""
_END = Mark("<|file_sep|>")


@dataclass(frozen=True, slots=True)
class ScriptedQuestion:
    """A question whose answer is given.

    Attributes:
        asked, before: it after the last key, and before it, without the key in the last change of the history.
        known: the tokens of its prompt before the current window.
        new: the text that the answer gives to the whole document.
    """

    name: str
    asked: EditQuestion
    before: EditQuestion
    known: tuple[int, ...]
    new: str


@dataclass(frozen=True, slots=True)
class EditTimes:
    total_ms: float
    prefill_ms: float
    passes_ms: float
    rest_ms: float
    prompt: int
    computed: int
    passes: int
    tokens: int


def measure(model: str, form: str, cases: Sequence[EditCase]) -> dict[str, Any]:
    found: dict[str, list[EditTimes]] = {}
    with tempfile.TemporaryDirectory(prefix="fastcoder-edits-") as place:
        says = Script()
        with closing(EditHost(model, Path(place), format_named(form), says.engines)) as host:
            for question in scripted(cases, format_named(form), host.tokenizer):
                asked, new = question.asked, question.new
                _ask(host, says, question.before, new)
                found.setdefault(f"{question.name}, {TYPED}", []).append(_ask(host, says, asked, new))
                says.keep(question.known)
                found.setdefault(f"{question.name}, {KNOWN}", []).append(_ask(host, says, asked, new))
                # No cache has the beginning of this prompt.
                asked = replace(asked, uri=f"{asked.uri} {COLD}", history=(_new_change(), *asked.history[1:]))
                found.setdefault(f"{question.name}, {COLD}", []).append(_ask(host, says, asked, new))
    columns = ("ms", "prefill", "passes", "rest", "prompt", "computed", "passes", "tokens")
    rows = [
        (name, len(times), *(f"{median(column):.0f}" for column in zip(*map(astuple, times), strict=True)))
        for name, times in found.items()
    ]
    print_table(f"{model}, {form}: from the last key to the edit, medians", ("", "n", *columns), rows)
    return {name: [asdict(one) for one in times] for name, times in found.items()}


def _new_change() -> Change:
    number = time.perf_counter_ns()
    return Change(f"{number}.py", 0, f"number = {number}\n", f"number = {number + 1}\n")


def _ask(host: EditHost, says: "Script", question: EditQuestion, new: str) -> EditTimes:
    says.answer = tuple(encode_parts((f"\n{new}\n", _END), host.tokenizer))
    gate, began = EditGate(), time.perf_counter()
    held = gate.before(question, EditFacts(0.0))
    answer = host.ask(question)
    held = held or gate.after(question, answer.edits, answer.probability, 0.0, cut=answer.cut)
    total = (time.perf_counter() - began) * 1e3
    assert held is None or not answer.edits, held
    counts, ms = answer.counts, answer.ms
    passes = ms.get("verify", 0.0) + ms.get("draft", 0.0)
    rest = total - counts.prefill_ms - passes
    prompt = counts.prefilled + counts.reused
    return EditTimes(total, counts.prefill_ms, passes, rest, prompt, counts.prefilled, counts.steps, counts.tokens)


def scripted(cases: Sequence[EditCase], form: EditFormat, tokenizer: Tokenizer) -> Iterator[ScriptedQuestion]:
    """The recorded answers of Sweep's 0.5B, and several times a wanted one of about `LONGER` tokens with few new ones.

    The document is what the recorded answer repeats: all of it is the window, and the answer has the recorded tokens
    and the newline before them.
    """
    for number, case in enumerate(cases):
        for answer in case.answers.get(RECORDED, ())[:1]:
            known = recognise(answer.prompt)
            if known is not None and known[1].strip() and answer.output.strip():
                old, new = known[1].removesuffix("\n"), answer.output.removesuffix("\n")
                yield _question("recorded answers", f"{number}", case, cases, (old, new), form, tokenizer)
    wanted = [case for case in cases if case.after is not None and case.text.count("\n") <= _WINDOW]

    def oddness(case: EditCase) -> int:
        old, new = (tokenizer.encode(text) for text in (case.text, case.after or ""))
        return abs(len(new) - LONGER) + len(differing(old, new))

    case = min(wanted, key=oddness)
    for number in range(REPEATS):
        sides = case.text, case.after or ""
        yield _question("a longer answer", f"longer {number}", case, cases, sides, form, tokenizer)


def _question(
    name: str,
    document: str,
    case: EditCase,
    cases: Sequence[EditCase],
    sides: tuple[str, str],
    form: EditFormat,
    tokenizer: Tokenizer,
) -> ScriptedQuestion:
    """The key is the last one of the document's first line, so that all of the window is computed again."""
    old, new = sides
    end = len(old) - len(old.lstrip("\n"))
    end = old.find("\n", end) if "\n" in old[end:] else len(old)
    line = old[:end].lstrip("\n")
    change = Change(case.path, old.count("\n", 0, end), f"{line[: len(line) // 2]}\n", f"{line}\n")
    asked = EditQuestion(0, f"file:///{document}", case.path, case.language, 1, old, end, (change,), 0.0, invoked=True)
    for earlier in itertools.islice(itertools.cycle(one for each in cases for one in each.history), MOST_CHANGES - 1):
        prompt = form.prompt(asked, EditLimits())
        if prompt is None or len(prompt.encode(tokenizer)) >= PROMPT:
            break
        asked = replace(asked, history=(earlier, *asked.history))
    history = (*asked.history[:-1], replace(change, new=f"{line[:-1]}\n"))
    before = replace(asked, text=old[: end - 1] + old[end:], offset=end - 1, history=history)
    prompt = form.prompt(asked, EditLimits())
    assert prompt is not None, "it has been made above"
    window = max(place for place, part in enumerate(prompt.parts) if part.startswith("current/"))
    known = (*tokenizer.start_ids, *encode_parts(prompt.parts[:window], tokenizer))
    return ScriptedQuestion(name, asked, before, known, new)


class Script:
    """The answer that its engines say next, whatever they compute."""

    def __init__(self) -> None:
        self.answer: tuple[int, ...] = ()
        self.last: Engine | None = None
        """The engine that said it last."""

    def keep(self, tokens: Tokens) -> None:
        """Let the last engine know these tokens alone; nobody uses it meanwhile."""
        assert self.last is not None
        self.last.prefill(tokens, lambda: False)

    def engines(self, engines: Engines) -> Engines:
        return WrappedEngines(engines, lambda engine, _: AnsweringEngine(engine, self))


class AnsweringEngine(WrappedEngine):
    """An engine whose steps give the script's tokens after the last prefill (`core.Engine`)."""

    def __init__(self, engine: Engine, script: Script) -> None:
        super().__init__(engine)
        self._script, self._said = script, 0

    @override
    def prefill(self, tokens: Tokens, should_stop: ShouldStop) -> Prefilled:
        self._said = 0
        return super().prefill(tokens, should_stop)

    @override
    def step(self, tree: DraftTree, sampler: Sampler = GREEDY, allowed: Any = None, top_k: int = 0) -> Verified:
        """A whole step of the engine, in which the script's tokens are the only ones that may follow."""
        assert not allowed, "nothing else is asked of the answer"
        children, node, only = tree.children(), tree.pending - 1, dict[int, npt.NDArray[np.int64]]()
        for token in self._script.answer[self._said :]:
            only[node] = np.array([token])
            if (child := children.get(node, {}).get(token)) is None:
                break
            node = child
        verified, self._script.last = super().step(tree, sampler, only, top_k), self
        self._said += len(verified.emitted)
        return verified
