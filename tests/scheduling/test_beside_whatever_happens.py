"""Whatever happens while other code is prepared beside: a text is what the model says by itself to the prompt shown."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.prompt import ContextSnippet
from tests.prompt.test_context import SECOND, SNIPPETS, Given
from tests.scheduling.typists import Typist

SURPRISE = "q"
"""The model never says it: what was known before a key of it is good for nothing."""
LONG = ContextSnippet("lib/long.py", "def long():\n" + "    return [1, 2, 3, 4, 5]\n" * 28, 1.0, "/w/long.py")
OTHER = ContextSnippet("lib/other.py", "def other():\n    return 7\n" * 9, 2.0, "/w/other.py")
FOUND = [SNIPPETS, SECOND, (LONG,), (OTHER, LONG), (OTHER, *SNIPPETS), ()]
SOURCES = [
    frozenset[str](),
    frozenset({"/w/long.py"}),
    frozenset({"/w/other.py"}),
    frozenset({"/w/long.py", "/w/other.py"}),
]
EVENTS = st.one_of(
    st.tuples(st.just("type"), st.sampled_from(["a", "    value = b(", "\n", "(a)\n\n", "x = 1\ny = 2\n"])),
    st.tuples(st.just("rest"), st.sampled_from([60.0, 400.0, 1500.0, 5000.0])),
    st.tuples(st.just("turns"), st.integers(1, 12)),
    st.tuples(st.just("find"), st.sampled_from(FOUND)),
    st.tuples(st.just("forbid"), st.sampled_from(SOURCES)),
    st.tuples(st.just("full"), st.booleans()),
    st.tuples(st.just("lose"), st.booleans()),
    st.tuples(st.just("go"), st.integers(0, 40)),
    st.tuples(st.just("below"), st.sampled_from(["\nz = 1\n", "\nz = 2\nw = 3\n", ")\n", ""])),
    st.tuples(st.just("close"), st.none()),
)


def do(one: Typist, event: str, how: object) -> None:
    """What somebody does at the document."""
    match event, how:
        case "type", str(text):
            one.type(text)
        case "go", int(line):
            whole = one.before + one.after
            at = len("\n".join(whole.split("\n")[:line]))
            one.before, one.after = whole[:at], whole[at:]
        case "below", str(text):
            one.after = text
        case "close", _:
            one.service.document_closed(one.uri)


def happen(one: Typist, event: str, how: object) -> None:
    """What happens otherwise: time, files that change or are forbidden, memory."""
    match event, how:
        case "rest", float(ms):
            one.rest(ms)
        case "turns", int(turns):
            for _ in range(turns):
                one.scheduler.turn()
        case "find", tuple(snippets):
            one.given.snippets = snippets
        case "forbid", frozenset(sources):
            one.given.forbidden = sources
        case "full", bool(full):
            one.caches.full = full
        case "lose", bool(second):
            for slot in list((one.caches.spare if second else one.caches.engines).values()):
                slot.give_up()


@given(st.lists(st.lists(EVENTS, max_size=5), min_size=1, max_size=5))
@example(
    [  # a key would continue a prefill whose code was forbidden meanwhile
        [("type", "a"), ("find", SECOND), ("find", (OTHER, LONG)), ("type", "a"), ("type", "a")],
        [("type", "(a)\n\n")],
        [("close", None)],
        [("close", None), ("type", "a"), ("close", None), ("go", 29), ("turns", 3)],
        [("lose", False), ("turns", 3), ("forbid", frozenset({"/w/other.py"}))],
    ]
)
@settings(max_examples=30, deadline=None)
def test_a_text_is_what_the_model_says_to_the_prompt_that_is_shown(stretches: list[list[tuple[str, object]]]) -> None:
    one = Typist(whole=True, given=Given(SNIPPETS), budget=600)
    for stretch in stretches:
        for event, how in stretch:
            do(one, event, how)
            happen(one, event, how)
        one.before += SURPRISE
        text = one.answer()
        shown = one.builder.shown(one.uri)
        assert shown is not None
        assert one.given.forbidden.isdisjoint(piece.source for piece in shown.found.snippets)
        plain = Typist(
            whole=True, prompts=one.builder, before=one.before, after=one.after, version=one.version, policy=Policy()
        )
        whole = plain.answer()
        again = one.builder.shown(one.uri)
        assert again is not None
        assert again.text == shown.text
        assert whole.text.startswith(text.text)
        assert text.text == whole.text or text.finish == "budget"
