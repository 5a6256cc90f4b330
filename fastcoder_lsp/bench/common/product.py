"""The one door from the benchmarks to the parts that answer in the server: a loaded runtime, full answers, step costs.

Owns no measurement. Whatever else a benchmark uses of the product lies below it: engine, drafters, decoding, prompt.
"""

from collections.abc import Mapping
from typing import Any

from fastcoder_lsp.bench.common.suggest import suggest
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.config import Layer, resolve
from fastcoder_lsp.core import CompletionRequest
from fastcoder_lsp.prompt import Prompt
from fastcoder_lsp.runtime.costs import measure as measure_costs
from fastcoder_lsp.runtime.load import load_runtime

__all__ = ["FullAnswer", "Status", "measure_costs"]


class FullAnswer:
    """The server's own answer to a request, however long it takes: its prompt, its decoding, its post-processing.

    Args:
        settings: of the server, as an editor would send them.

    Raises:
        FastcoderError: the model is missing, damaged, or does not fit this machine.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        resolved, _ = resolve([Layer("bench", dict(settings), trusted=True)])
        self._runtime = load_runtime(resolved, lambda _share, _what: None)
        self.engine_name = self._runtime.info.name
        self.max_tokens = self._runtime.limits.max_tokens

    def prompt(self, request: CompletionRequest) -> Prompt:
        """What the model is asked; depends on the requests for the same document before."""
        return self._runtime.prompts.build(request.snapshot, request.offset)

    def text(self, request: CompletionRequest) -> str:
        """What would be inserted at the cursor, with no deadline."""
        return suggest(self._runtime, request)

    def forget(self, uri: str) -> None:
        """Let the prompts of a document depend on nothing before."""
        self._runtime.prompts.forget(uri)

    def close(self) -> None:
        """Give the model's memory back."""
        self._runtime.close()
