"""What drafters keep of a document follows its rename, is dropped with it, and is bounded over documents."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from fastcoder_lsp.core import Drafter
from fastcoder_lsp.decode.loop import decode
from fastcoder_lsp.documents import DOCUMENTS_AT_MOST
from fastcoder_lsp.draft.registry import SPECIFICATIONS, make
from fastcoder_lsp.draft.smaller import no_models
from tests.draft.test_exactness import PARTS, request
from tests.draft.toys import RepetitiveEngine

NAMES = [f"{name}:cache_minimum=1" if name == "fastcoder-paper" else name for name in SPECIFICATIONS]
"""The paper's CACHE is asked from its 50th sequence on: too late for a text as short as here."""
UNTIMED = replace(PARTS, smaller=no_models)
"""For `auto`, which asks smaller models where they pay: that goes by the clock."""
Trees = list[tuple[int, ...]]


def trees(drafter: Drafter, document: str, tokens: int = 60) -> Trees:
    """What a drafter drafts in a decode of `document`, step by step."""
    found: Trees = []
    asked = request((1, 2), tokens, nodes=64, document=document)
    decode(RepetitiveEngine(), drafter, asked, lambda: False, on_step=lambda tree, _: found.append(tree.tokens))
    return found


def after(name: str, first: str, then: Callable[[Drafter], None] = lambda _: None, second: str = "d") -> Trees:
    """What is drafted in the document `second` after a decode in the document `first`, and `then`."""
    drafter = make(name, UNTIMED if name == "auto" else PARTS)
    trees(drafter, first)
    then(drafter)
    return trees(drafter, second)


@pytest.mark.parametrize("name", NAMES)
def test_what_a_document_taught_is_drafted_in_it_alone(name: str) -> None:
    """A second decode in a document drafts otherwise than one in a new document, where anything is kept."""
    assert (after(name, "d") == after(name, "other")) != SPECIFICATIONS[name.partition(":")[0]].remembers


@pytest.mark.parametrize("name", NAMES)
def test_what_is_kept_follows_a_rename(name: str) -> None:
    """Under the new name it drafts as it would have under the old one; under the old one nothing is left."""
    expected = after(name, "d")
    assert after(name, "d", lambda drafter: drafter.rename("d", "e"), second="e") == expected
    assert after(name, "d", lambda drafter: drafter.rename("d", "e")) == after(name, "other")


@pytest.mark.parametrize("name", NAMES)
def test_what_is_kept_goes_with_its_document(name: str) -> None:
    """A document that was closed and opened again is a new one."""
    assert after(name, "d", lambda drafter: drafter.forget("d")) == after(name, "other")


@pytest.mark.parametrize("name", NAMES)
def test_what_is_kept_is_bounded_over_documents(name: str) -> None:
    """The least recently used document falls."""

    def many(drafter: Drafter) -> None:
        for number in range(DOCUMENTS_AT_MOST):
            trees(drafter, f"file{number}", tokens=4)

    assert after(name, "d", many) == after(name, "other", many)
