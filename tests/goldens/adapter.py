"""The goldens' only imports of the package's modules; a refactoring changes this file and no other of this folder."""

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from importlib.metadata import entry_points
from typing import Any
from zlib import crc32

from fastcoder_lsp.client.client import RequestFailedError, ServerGoneError
from fastcoder_lsp.config.table import specs
from fastcoder_lsp.core import Snapshot, at_once
from fastcoder_lsp.core.reason_codes import CODES
from fastcoder_lsp.draft.registry import specifications
from fastcoder_lsp.errors import FastcoderError, understood
from fastcoder_lsp.lsp.methods import DEBUG_METHODS, METHODS
from fastcoder_lsp.prompt import TEMPLATES, PromptBuilder, PromptOptions
from fastcoder_lsp.workspace.rules import ExclusionReason as Exclusion
from tests.prompt.toy_tokenizers import byte_level, of_family


def run_command(arguments: Sequence[str]) -> int:
    """Run `fastcoder-lsp` in this process; the exit code."""
    [command] = entry_points(group="console_scripts", name="fastcoder-lsp")
    code: int = command.load()(list(arguments))
    return code


def settings() -> dict[str, Any]:
    """Name → default, scope, limits, choices, description."""
    return {
        name: {"default": spec.default, "scope": spec.scope.value, "limits": [spec.low, spec.high]}
        | {"choices": list(spec.choices), "description": spec.description}
        for name, spec in specs().items()
    }


def drafters() -> dict[str, Any]:
    """Name → parameters with their values, sources and traits."""
    return {
        name: {
            "guesses from": known.guesses_from,
            "paper": known.paper,
            "parameters": _values(known.parameters),
            "sources": [list(source) for source in known.sources],
            "traits": _values(known.traits),
            "reads": sorted(known.reads),
            "needs": [need for need in ("tuned_by", "smaller", "own_weights", "remembers") if getattr(known, need)],
        }
        for name, known in specifications().items()
    }


def methods() -> list[str]:
    return sorted(name for name, _ in (*METHODS, *DEBUG_METHODS))


def reason_codes() -> list[str]:
    return sorted(CODES)


def exclusions() -> list[str]:
    return sorted(reason.value for reason in Exclusion)


def errors() -> dict[str, int]:
    """Name of an error class → exit code of the command line."""
    kinds: set[type[FastcoderError]] = {FastcoderError, RequestFailedError, ServerGoneError}
    kinds |= set(FastcoderError.__subclasses__())
    return {kind.__name__: kind.exit_code for kind in kinds}


def understood_as(error: BaseException) -> str:
    """What a person is told of an exception that nothing foresaw."""
    known = understood(error)
    return f"{type(known).__name__}: {known}"


def families() -> list[str]:
    return [template.name for template in TEMPLATES]


class Prompts:
    """Builds prompts for the toy tokenizer of a family of `families()`; the last one has no marks."""

    def __init__(self, family: str, **options: Any) -> None:
        plain = family == TEMPLATES[-1].name
        tokenizer = byte_level(True, ("<|endoftext|>",)) if plain else of_family(family)
        self._builder = PromptBuilder(tokenizer, PromptOptions(**options))

    def build(self, uri: str, language: str, version: int, text: str, offset: int) -> dict[str, Any]:
        """The prompt's text, its number of tokens and their checksum, and what generated tokens must spell first."""
        prompt = at_once(
            self._builder.build(Snapshot(uri, uri.removeprefix("file://"), language, version, text), offset)
        )
        shown = self._builder.shown(uri)
        assert shown is not None
        ids = b"".join(token.to_bytes(4, "little") for token in prompt.tokens)
        told = {"text": shown.text, "typed": prompt.typed, "healing": prompt.healing.decode("utf-8", "replace")}
        return told | {"tokens": len(prompt.tokens), "crc32": crc32(ids)}


def _values(value: Any) -> dict[str, str]:
    return {entry.name: repr(getattr(value, entry.name)) for entry in fields(value)} if is_dataclass(value) else {}
