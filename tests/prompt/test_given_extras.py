"""What a client gives along is what the prompt shows; where it gives nothing, what is found on this machine."""

from collections.abc import Collection

from fastcoder_lsp.core import Extra, Snapshot
from fastcoder_lsp.prompt.context import ContextSnippet, GivenExtras, PromptContext

OWN = PromptContext((ContextSnippet("own.py", "own = 1\n", source="/w/own.py"),))


class Repository:
    """A context that finds one file, and remembers what was edited."""

    def __init__(self) -> None:
        self.observed = list[str]()

    def observe(self, snapshot: Snapshot) -> None:
        self.observed.append(snapshot.text)

    def find(
        self, _snapshot: Snapshot, _offset: int, _shown: tuple[int, int], _kept: PromptContext | None = None
    ) -> PromptContext:
        return OWN

    def may_show(self, sources: Collection[str]) -> bool:
        return "/w/secret.py" not in sources


def given(text: str, *names: str) -> Snapshot:
    extras = tuple(Extra(name, f"{name} = 1\n" if name else "") for name in names)
    return Snapshot("a", None, "python", 1, text, extras=extras)


def test_the_latest_chunk_is_the_best_one_and_empty_ones_tell_nothing() -> None:
    found = GivenExtras(Repository()).find(given("x", "first", "", "last"), 0, (0, 0))
    assert [one.path for one in sorted(found.snippets, key=lambda one: -one.score)] == ["last", "first"]
    assert {one.source for one in found.snippets} == {""}


def test_what_is_shown_stays_while_it_is_given() -> None:
    context = GivenExtras()
    shown = PromptContext(context.find(given("x", "a", "b"), 0, (0, 0)).snippets[:1])
    assert context.find(given("x", "c", "a"), 0, (0, 0), shown) is shown
    assert [one.path for one in context.find(given("x", "c", "b"), 0, (0, 0), shown).snippets] == ["c", "b"]


def test_without_chunks_somebody_else_looks() -> None:
    repository = Repository()
    context = GivenExtras(repository)
    for snapshot in (given("one"), given("two", "a")):
        context.observe(snapshot)
    assert context.find(given("one"), 0, (0, 0)) is OWN
    assert repository.observed == ["one"]
    assert context.may_show({"/w/own.py"})
    assert not context.may_show({"/w/secret.py"})
