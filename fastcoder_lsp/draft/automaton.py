"""A suffix automaton over token ids, extended token by token, with the number of times each of its strings was seen.

Blumer et al. 1985; the form with counts is what SAM-Decoding (Hu et al. 2024, section 3.1) and SuffixDecoding (Oliaro
et al. 2024, section 4.1, as a suffix tree) draft from. A state stands for all strings that end at the same places; its
suffix link leads to the longest suffix that ends at more places. So the state linked from the whole text's state is the
longest suffix that occurred before, and the states linked from there are shorter ones.

Legend: S states, E edges, N nodes or tokens, F entries of a frontier.
"""

from typing import Any

import numpy as np

from fastcoder_lsp.core.arrays import Int32s
from fastcoder_lsp.kernels import inner, inner_with_arrays, kernel, kernel_with_arrays

_LENGTH, _LINK, _COUNT, _EDGES, _END = range(5)
_TOKEN, _TARGET, _NEXT, _STATE = range(4)
_STATES, _EDGE_COUNT, _LAST, _CURSOR, _MATCH = range(5)


class SuffixAutomaton:
    """The automaton of at most `capacity` tokens.

    A negative token separates texts and is never drafted. `follow` keeps a cursor: the longest suffix of *another* text
    that occurs in this one.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.size = 0
        slots = 1 << max(3 * capacity * 2, 8).bit_length()
        self._states_S5 = np.zeros((2 * capacity + 2, 5), np.int32)
        self._edges_E4 = np.zeros((3 * capacity + 3, 4), np.int32)
        self._slots = np.full(slots, -1, np.int32)
        self._counters = np.zeros(5, np.int64)
        self.clear()

    def clear(self) -> None:
        """Hold nothing."""
        _clear(self._states_S5, self._slots, self._counters)
        self.size = 0

    def extend(self, tokens_N: Int32s) -> None:
        """Append tokens; no more than `capacity` in all."""
        assert self.size + len(tokens_N) <= self.capacity
        _extend(self._states_S5, self._edges_E4, self._slots, self._counters, tokens_N)
        self.size += len(tokens_N)

    def rewind(self) -> None:
        """Reset the cursor to the empty match."""
        self._counters[_CURSOR] = self._counters[_MATCH] = 0

    def follow(self, tokens_N: Int32s) -> None:
        """Advance the cursor over another text's next tokens."""
        _follow(self._states_S5, self._edges_E4, self._slots, self._counters, tokens_N)

    @property
    def matched(self) -> int:
        """Length of the cursor's match."""
        return int(self._counters[_MATCH])

    def earlier(self) -> tuple[int, int]:
        """The longest suffix of its own text that occurred before: length, and index after its first place, or 0, 0."""
        link = int(self._states_S5[int(self._counters[_LAST]), _LINK])
        return (0, 0) if link <= 0 else (int(self._states_S5[link, _LENGTH]), int(self._states_S5[link, _END]))

    def draft(
        self, nodes_3N: Int32s, *, own: bool, factor: float, offset: float, least: float
    ) -> tuple[int, int, float]:
        """The best draft from the longest match or from one of its suffixes.

        A match of m tokens may draft factor·m + offset nodes, the likeliest continuations first: a node's likelihood is
        its parent's times the share of occurrences that continue with its token; those below `least` are left out. The
        match with the greatest sum of likelihoods is taken (SuffixDecoding, section 4.2).

        Args:
            nodes_3N: out: rows tokens, parents, (unused); N nodes at most.
            own: whether to match the end of the automaton's own text; else the cursor's match is used.
            factor: nodes for each matched token.
            offset: further nodes.
            least: least likelihood of a node.

        Returns:
            Nodes written, length of the match, sum of the likelihoods.
        """
        count, match, score = _draft(
            self._states_S5, self._edges_E4, self._counters, nodes_3N, own, factor, offset, least
        )
        return int(count), int(match), float(score)


@kernel
def _clear(states_S5: Any, slots: Any, counters: Any) -> None:
    if counters[_EDGE_COUNT] > 0:
        slots[:] = -1
    counters[:] = 0
    counters[_STATES] = 1
    states_S5[0, _LENGTH], states_S5[0, _LINK] = 0, -1
    states_S5[0, _COUNT], states_S5[0, _EDGES] = 0, -1
    states_S5[0, _END] = 0


@inner
def _hash(state: Any, token: Any) -> Any:
    mixed = np.uint64(np.int64(state)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(np.int64(token)) * np.uint64(
        0xC2B2AE3D27D4EB4F
    )
    return np.int64((mixed ^ (mixed >> np.uint64(31))) & np.uint64(0x7FFFFFFF))


@inner
def _find(edges_E4: Any, slots: Any, state: Any, token: Any) -> Any:
    """The edge of `state` with `token`; -1 for none."""
    mask = len(slots) - 1
    slot = _hash(state, token) & mask
    while slots[slot] != -1:
        edge = slots[slot]
        if edges_E4[edge, _STATE] == state and edges_E4[edge, _TOKEN] == token:
            return edge
        slot = (slot + 1) & mask
    return -1


@inner
def _add_edge(states_S5: Any, edges_E4: Any, slots: Any, counters: Any, state: Any, token: Any, target: Any) -> None:
    edge = np.int32(counters[_EDGE_COUNT])
    counters[_EDGE_COUNT] += 1
    edges_E4[edge, _TOKEN], edges_E4[edge, _TARGET] = token, target
    edges_E4[edge, _NEXT], edges_E4[edge, _STATE] = states_S5[state, _EDGES], state
    states_S5[state, _EDGES] = edge
    mask = len(slots) - 1
    slot = _hash(state, token) & mask
    while slots[slot] != -1:
        slot = (slot + 1) & mask
    slots[slot] = edge


@inner
def _new_state(states_S5: Any, counters: Any, length: Any, link: Any, count: Any, end: Any) -> Any:
    state = np.int32(counters[_STATES])
    counters[_STATES] += 1
    states_S5[state, _LENGTH], states_S5[state, _LINK] = length, link
    states_S5[state, _COUNT], states_S5[state, _EDGES] = count, -1
    states_S5[state, _END] = end
    return state


@kernel
def _extend(states_S5: Any, edges_E4: Any, slots: Any, counters: Any, tokens_N: Any) -> None:
    """Blumer's construction, one token at a time; a new place counts for all its suffixes."""
    for token in tokens_N:
        last = np.int32(counters[_LAST])
        length = states_S5[last, _LENGTH] + 1  # of the whole text, so also the end of its last token
        new = _new_state(states_S5, counters, length, 0, 0, length)
        state = last
        edge = np.int32(-1)
        while state >= 0:
            edge = np.int32(_find(edges_E4, slots, state, token))
            if edge >= 0:
                break
            _add_edge(states_S5, edges_E4, slots, counters, state, token, new)
            state = states_S5[state, _LINK]
        if state >= 0:
            target = edges_E4[edge, _TARGET]
            if states_S5[state, _LENGTH] + 1 == states_S5[target, _LENGTH]:
                states_S5[new, _LINK] = target
            else:
                clone = _split(states_S5, edges_E4, slots, counters, state, token, target)
                states_S5[new, _LINK] = clone
        counters[_LAST] = new
        state = new
        while state >= 0:
            states_S5[state, _COUNT] += 1
            state = states_S5[state, _LINK]


@inner
def _split(states_S5: Any, edges_E4: Any, slots: Any, counters: Any, state: Any, token: Any, target: Any) -> Any:
    """Split the shorter strings of `target` from the longer ones; returns the state of the shorter ones."""
    length, link, count = states_S5[state, _LENGTH] + 1, states_S5[target, _LINK], states_S5[target, _COUNT]
    clone = _new_state(states_S5, counters, length, link, count, states_S5[target, _END])
    edge = states_S5[target, _EDGES]
    while edge >= 0:
        _add_edge(states_S5, edges_E4, slots, counters, clone, edges_E4[edge, _TOKEN], edges_E4[edge, _TARGET])
        edge = edges_E4[edge, _NEXT]
    states_S5[target, _LINK] = clone
    while state >= 0:
        edge = np.int32(_find(edges_E4, slots, state, token))
        if edge < 0 or edges_E4[edge, _TARGET] != target:
            break
        edges_E4[edge, _TARGET] = clone
        state = states_S5[state, _LINK]
    return clone


@kernel
def _follow(states_S5: Any, edges_E4: Any, slots: Any, counters: Any, tokens_N: Any) -> None:
    """Matching statistics: extend the match by the token, after shortening it along links as far as needed."""
    state, match = np.int32(counters[_CURSOR]), counters[_MATCH]
    for token in tokens_N:
        edge = np.int32(_find(edges_E4, slots, state, token))
        while edge < 0 and state > 0:
            state = states_S5[state, _LINK]
            match = np.int64(states_S5[state, _LENGTH])
            edge = np.int32(_find(edges_E4, slots, state, token))
        if edge >= 0:
            state, match = edges_E4[edge, _TARGET], match + 1
    counters[_CURSOR], counters[_MATCH] = state, match


@kernel_with_arrays
def _draft(
    states_S5: Any, edges_E4: Any, counters: Any, nodes_3N: Any, own: Any, factor: Any, offset: Any, least: Any
) -> Any:
    """Try the match and its suffixes, shorter and shorter; keep the draft with the greatest score."""
    if own:
        state = states_S5[counters[_LAST], _LINK]
        match = np.int64(states_S5[state, _LENGTH]) if state >= 0 else np.int64(0)
    else:
        state, match = np.int32(counters[_CURSOR]), counters[_MATCH]
    best_count, best_match, best_score = np.int64(0), np.int64(0), 0.0
    trial_3N = np.empty_like(nodes_3N)
    while state > 0:
        room = min(np.int64(factor * match + offset), nodes_3N.shape[1])
        if room <= best_score:
            break
        count, score = _likeliest(states_S5, edges_E4, state, trial_3N[:, :room], least)
        if score > best_score:
            best_count, best_match, best_score = count, match, score
            nodes_3N[:, :count] = trial_3N[:, :count]
        state = states_S5[state, _LINK]
        match = np.int64(states_S5[state, _LENGTH]) if state >= 0 else np.int64(0)
    return best_count, best_match, best_score


@inner_with_arrays
def _likeliest(states_S5: Any, edges_E4: Any, root: Any, nodes_3N: Any, least: Any) -> Any:
    """The likeliest continuations of a state's strings, likeliest first; returns their number and likelihoods' sum."""
    room = nodes_3N.shape[1]
    size = 64 * (room + 1)
    edge_F, above_F, likely_F = np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.float64)
    waiting, taken, score = 0, 0, 0.0
    state, place, likely = root, np.int32(-1), 1.0
    while taken < room:
        total = 0
        edge = states_S5[state, _EDGES]
        while edge >= 0:
            if edges_E4[edge, _TOKEN] >= 0:
                total += states_S5[edges_E4[edge, _TARGET], _COUNT]
            edge = edges_E4[edge, _NEXT]
        edge = states_S5[state, _EDGES]
        while edge >= 0 and waiting < size:
            share = likely * states_S5[edges_E4[edge, _TARGET], _COUNT] / max(total, 1)
            if edges_E4[edge, _TOKEN] >= 0 and share >= least:
                edge_F[waiting], above_F[waiting], likely_F[waiting] = edge, place, share
                waiting += 1
            edge = edges_E4[edge, _NEXT]
        if waiting == 0:
            break
        best = 0
        for other in range(1, waiting):
            # Of equals the newest edge: recent text is the likelier to be repeated.
            if likely_F[other] > likely_F[best] or (likely_F[other] == likely_F[best] and edge_F[other] > edge_F[best]):
                best = other
        likely = likely_F[best]
        nodes_3N[0, taken], nodes_3N[1, taken] = edges_E4[edge_F[best], _TOKEN], above_F[best]
        state, place = edges_E4[edge_F[best], _TARGET], np.int32(taken)
        score += likely
        taken += 1
        waiting -= 1
        edge_F[best], above_F[best], likely_F[best] = edge_F[waiting], above_F[waiting], likely_F[waiting]
    return taken, score
