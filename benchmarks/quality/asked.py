"""Asking a model: the answers to a suite's questions in one way of asking, those that are known from the file."""

import sys

from rich.progress import Progress

from benchmarks.common.answers import Answers, key
from benchmarks.common.requests import decode_request, line_end
from benchmarks.datasets import repoeval
from benchmarks.quality.arms import Arm, prompt_of
from benchmarks.quality.suites import Suite
from fastcoder_lsp.bench.model import BenchModel
from fastcoder_lsp.core import Engine
from fastcoder_lsp.decode.loop import decode
from fastcoder_lsp.draft.none import NoDrafter
from fastcoder_lsp.draft.suffix import SuffixDrafter
from fastcoder_lsp.prompt import Prompt

LINE_TOKENS = 64
BODY_TOKENS = 256
CONTEXT = 2560


class AskedModel:
    """One model on one kind of engine, which is loaded when the first answer is not known yet."""

    def __init__(self, model: BenchModel, kind: str, answers: Answers) -> None:
        self._model, self._kind, self._answers = model, kind, answers
        self._engine: Engine | None = None

    def ask(self, suite: Suite, arm: Arm) -> dict[str, str]:
        """task → what the model said."""
        said = {}
        with Progress(transient=True, disable=not sys.stdout.isatty()) as progress:
            bar = progress.add_task(f"{suite.name} {arm.name} {self._kind}", total=len(suite.questions))
            for question in suite.questions:
                prompt = prompt_of(arm, self._model.tokenizer, question)
                name = key(f"{self._model.files.digest} {self._kind}", prompt, "body" if suite.body else "line")
                known = self._answers.get(name)
                if known is None:
                    known = self._decode(prompt, body=suite.body)
                    self._answers.put(name, known)
                said[question.id] = known
                progress.advance(bar)
        return said

    def close(self) -> None:
        """Give the engine's memory back."""
        if self._engine is not None:
            self._engine.close()

    def _decode(self, prompt: Prompt, *, body: bool) -> str:
        engine = self._engine = self._engine or self._model.engine(self._kind, CONTEXT)
        request = decode_request(
            self._model.tokenizer,
            prompt.tokens,
            BODY_TOKENS if body else LINE_TOKENS,
            cut=repoeval.function_end if body else line_end,
            healing=prompt.healing,
        )
        # Drafts change the speed only: they shorten the long answers.
        return decode(engine, SuffixDrafter() if body else NoDrafter(), request, lambda: False).text
