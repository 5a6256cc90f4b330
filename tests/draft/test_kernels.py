"""The compiled loops against plain Python that is obviously right."""

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fastcoder_lsp.draft.automaton import SuffixAutomaton
from fastcoder_lsp.draft.matching import GAP, continuations, match_suffix
from fastcoder_lsp.papers.trees import Growth

TEXT = st.lists(st.integers(-1, 4), min_size=1, max_size=60)
CONTEXT = st.lists(st.integers(0, 4), min_size=1, max_size=12)


def occurrences(text: list[int], string: list[int]) -> list[int]:
    """Where `string` stands in `text` (its end, exclusive)."""
    return [i + len(string) for i in range(len(text) - len(string) + 1) if text[i : i + len(string)] == string]


@settings(deadline=None)
@given(TEXT, CONTEXT, st.integers(1, 6), st.integers(1, 3))
def test_the_longest_suffix_has_its_latest_continuations(
    text: list[int], context: list[int], n_max: int, n_min: int
) -> None:
    ends = np.zeros(5, np.int64)
    length, found = match_suffix(np.array(text, np.int32), np.array(context, np.int32), n_max, n_min, ends)
    for n in range(min(n_max, len(context)), 0, -1):
        expected = [end for end in occurrences(text, context[-n:]) if end < len(text) and text[end] >= 0]
        if expected:
            break
    else:
        n, expected = 0, []
    if n < n_min:
        n, expected = 0, []
    assert (length, ends[:found].tolist()) == (n, expected[::-1][:5])


@settings(deadline=None)
@given(TEXT, st.integers(1, 6))
def test_continuations_end_at_gaps(text: list[int], depth: int) -> None:
    rows = np.zeros((len(text), depth), np.int32)
    continuations(np.array(text, np.int32), np.arange(len(text)), rows)
    for place, row in enumerate(rows.tolist()):
        follows = text[place : place + depth]
        whole = follows[: follows.index(GAP)] if GAP in follows else follows
        assert row == whole + [GAP] * (depth - len(whole))


ROWS = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=5), min_size=1, max_size=12)


@settings(deadline=None)
@given(ROWS, st.integers(1, 20))
def test_the_heaviest_nodes_are_drafted(rows: list[list[int]], nodes: int) -> None:
    growth = Growth(capacity=20, depth=5)
    for row in rows:
        growth.add(np.array([row], np.int32), 1.0, "s", len(row))
    draft = growth.draft(nodes)
    weights = Counter(tuple(row[: i + 1]) for row in rows for i in range(len(row)))
    paths: list[tuple[int, ...]] = []
    for token, parent in zip(draft.tokens, draft.parents, strict=True):
        paths.append((*paths[parent], token) if parent >= 0 else (token,))
    assert len(set(paths)) == len(paths) == min(nodes, len(weights))
    taken = [weights[path] for path in paths]
    assert taken == sorted(weights.values(), reverse=True)[: len(taken)]


def test_sources_and_weights_are_kept() -> None:
    growth = Growth(capacity=4, depth=3)
    growth.add(np.array([[1, 2, GAP]], np.int32), 1.0, "light", 3)
    growth.add(np.array([[7]], np.int32), 5.0, "heavy", 9)
    draft = growth.draft(2)
    assert (draft.tokens, draft.parents, draft.sources, draft.matches) == ((7, 1), (-1, -1), ("heavy", "light"), (9, 3))
    growth.clear()
    assert growth.draft(2).tokens == ()


def best_draft(text: list[int], match: list[int], room: int, least: float) -> tuple[list[float], int]:
    """Likelihoods of the likeliest `room` continuations of `match` in `text`, by brute force."""
    found: list[float] = []
    waiting = [(1.0, match)]
    while waiting and len(found) <= room:
        waiting.sort(key=lambda item: item[0])
        likely, string = waiting.pop()
        found.append(likely)
        followers = Counter(text[end] for end in occurrences(text, string) if end < len(text) and text[end] >= 0)
        total = sum(followers.values())
        shares = ((likely * count / total, [*string, token]) for token, count in followers.items())
        waiting += [item for item in shares if item[0] >= least]
    return found[1:], len(match)


@settings(deadline=None)
@given(TEXT, st.integers(1, 6), st.sampled_from([0.0, 0.2, 0.6]))
def test_an_automaton_drafts_what_counting_says(text: list[int], nodes: int, least: float) -> None:
    automaton = SuffixAutomaton(64)
    for start in range(0, len(text), 7):
        automaton.extend(np.array(text[start : start + 7], np.int32))
    out = np.zeros((3, nodes), np.int32)
    count, match, score = automaton.draft(out, own=True, factor=10.0, offset=0.0, least=least)
    best = 0.0
    for n in range(len(text) - 1, 0, -1):
        end = text[-n:]
        if len(occurrences(text, end)) > 1:
            best = max(best, sum(best_draft(text, end, nodes, least)[0][:nodes]))
    assert abs(score - best) < 1e-9
    if count:
        likelihoods, _ = best_draft(text, text[-match:], nodes, least)
        assert abs(sum(likelihoods[:nodes]) - score) < 1e-9


@settings(deadline=None)
@given(TEXT, CONTEXT)
def test_a_cursor_follows_another_text(text: list[int], context: list[int]) -> None:
    automaton = SuffixAutomaton(64)
    automaton.extend(np.array(text, np.int32))
    automaton.rewind()
    for token in context:
        automaton.follow(np.array([token], np.int32))
    out = np.zeros((3, 4), np.int32)
    _, match, score = automaton.draft(out, own=False, factor=10.0, offset=0.0, least=0.0)
    longest = next((n for n in range(len(context), 0, -1) if occurrences(text, context[-n:])), 0)
    assert match <= longest
    assert (score > 0) == any(
        end < len(text) and text[end] >= 0 for n in range(1, longest + 1) for end in occurrences(text, context[-n:])
    )


def test_a_cleared_automaton_is_like_new() -> None:
    automaton = SuffixAutomaton(32)
    automaton.extend(np.array([1, 2, 3, 1, 2, 3, 1], np.int32))
    automaton.clear()
    automaton.extend(np.array([1, 2], np.int32))
    assert automaton.draft(np.zeros((3, 4), np.int32), own=True, factor=4.0, offset=0.0, least=0.0)[0] == 0
