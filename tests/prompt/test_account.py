"""What is told of the code that a prompt shows: from where, why, at what cost."""

from dataclasses import replace

from fastcoder_lsp.core import Snapshot
from fastcoder_lsp.prompt import ContextSnippet, PromptBuilder, PromptContext, PromptOptions
from fastcoder_lsp.prompt.retrieval import account, reasons
from tests.prompt.test_context import SNIPPETS, Given
from tests.prompt.toy_tokenizers import of_family

QWEN = of_family("Qwen2.5-Coder")
TEXT = "def job(rows):\n    store = open_store(rows)\n    store."


def test_the_prompt_as_it_was_built() -> None:
    budget = 25
    builder = PromptBuilder(QWEN, PromptOptions(context_tokens=budget), Given(SNIPPETS))
    assert builder.shown("u") is None
    prompt = builder.build(Snapshot("u", "main.py", "python", 0, TEXT), len(TEXT))
    shown = builder.shown("u")
    assert shown is not None
    assert shown.tokens == len(prompt.tokens)
    assert shown.text.startswith("<|repo_name|>project\n<|file_sep|>lib/high.py\ndef high():")
    assert shown.text.count("<|fim_middle|>") == 1
    assert [piece.path for piece in shown.found.snippets] == ["lib/high.py"]
    assert 0 < shown.found.snippets[0].tokens <= budget
    builder.rename("u", "v")
    assert builder.shown("v") == shown
    builder.forget("v")
    assert builder.shown("v") is None


def test_lines_for_a_person() -> None:
    builder = PromptBuilder(QWEN, PromptOptions(context_tokens=300), Given(()))
    builder.build(Snapshot("u", "main.py", "python", 0, TEXT), len(TEXT))
    shown = builder.shown("u")
    assert shown is not None
    assert "0 pieces" in next(account(shown, TEXT, len(TEXT)))
    pieces = (
        ContextSnippet("a.py", "x = open_store(y)\n", 2.5, "/w/a.py", 7, line=12),
        ContextSnippet("main.py", "def rows_of(): ...", 1.0, "", 5),
        ContextSnippet("b.py", "unlike = 1", 0.0, "/w/b.py", 3),
    )
    told = list(account(type(shown)(shown.text, shown.tokens, PromptContext(pieces)), TEXT, len(TEXT)))
    assert told[0].endswith("including 15 of other code in 3 pieces")
    assert told[1] == "  a.py:12: 7 tokens, score 2.5: open_store, store"
    assert told[2].startswith("  main.py (this file, beyond what the prompt shows of it): 5 tokens")
    assert told[3].endswith("recently edited, visited or copied, or its tests")
    found = PromptContext(pieces, copied=("/w/a.py", 12))
    assert list(account(type(shown)("", 9, found), TEXT, len(TEXT)))[1].endswith("score 2.5: copied just now")
    costing = replace(shown, found=PromptContext(pieces), prefill_ms=2.0)
    assert next(account(costing, TEXT, len(TEXT))).endswith("in 3 pieces (read once, about 30 ms)")


def test_reasons_are_the_longest_shared_names() -> None:
    piece = ContextSnippet("a.py", "open_store(key)")
    assert reasons(piece, TEXT, len(TEXT)) == ["open_store", "store"]
