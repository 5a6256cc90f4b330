"""Batched Jacobi decoding that keeps every state: where CLLM's trajectories come from.

The iteration of `draft/jacobi.py` (Santilli et al. 2023, Algorithm 1) for a batch, block by block as Kou et al. 2024
collect it (section 3.2): guess n random tokens of the prompt, replace all by the argmax before each, until nothing
moves; then the next block. The KV cache keeps what is right in all texts, the rest of a guess is cut off again.

Legend: B texts, P places in the cache, N tokens of a block, S of them that are right in all texts.
"""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache

from fastcoder_lsp.train.example import Ids
from fastcoder_lsp.train.trajectories import Trajectory


class JacobiCollector:
    """Collects from a model of transformers; on one whose cache can't be cut, one text at a time and without cache."""

    def __init__(self, model: Any, device: str, *, block: int, ends: frozenset[int]) -> None:
        self._model, self._device, self._block, self._ends = model, device, block, ends
        self.batched = _can_cut(model, device)

    @torch.inference_mode()
    def collect(self, prompts: Sequence[Ids], blocks: int, draw: random.Random) -> list[Trajectory]:
        """What the model says to each prompt: up to `blocks` blocks, fewer where it ends its text."""
        if not self.batched:
            return [self._collect([prompt], blocks, draw)[0] for prompt in prompts]
        return self._collect(prompts, blocks, draw)

    def _collect(self, prompts: Sequence[Ids], blocks: int, draw: random.Random) -> list[Trajectory]:
        texts = _Texts(self._model, self._device, prompts, cached=self.batched)
        outputs: list[list[int]] = [[] for _ in prompts]
        states: list[list[Ids]] = [[] for _ in prompts]
        ended = [False] * len(prompts)
        for _ in range(blocks):
            guess_BN = np.array([[draw.choice(prompt) for _ in range(self._block)] for prompt in prompts], np.int64)
            trail, fixed_BN = self._iterate(texts, guess_BN)
            for text, fixed in enumerate(fixed_BN.tolist()):
                if ended[text]:
                    continue
                length = next((place + 1 for place, token in enumerate(fixed) if token in self._ends), len(fixed))
                ended[text] = length < len(fixed) or fixed[-1] in self._ends
                outputs[text] += fixed[:length]
                own = [state[text, :length] for state in trail]
                states[text].append(np.stack([state for state in own if state.tolist() != fixed[:length]] or own[:1]))
            if all(ended):
                break
        return [
            Trajectory(np.asarray(prompt, np.int64), np.array(output, np.int64), tuple(found), self._block)
            for prompt, output, found in zip(prompts, outputs, states, strict=True)
        ]

    def _iterate(self, texts: "_Texts", guess_BN: Ids) -> tuple[list[Ids], Ids]:
        """All states before the fixed point, and the fixed point, which the cache holds then.

        Each iteration makes one token more stable at least, so there are at most N + 1. (Where sums depend on what is
        guessed, as they may on a GPU, the last state is taken for the fixed point.)
        """
        trail = [guess_BN]
        while True:
            state_BN = trail[-1]
            fresh_BN = texts.outputs(state_BN)
            if np.array_equal(fresh_BN[:, :-1], state_BN) or len(trail) > self._block + 1:
                texts.keep(state_BN, fresh_BN[:, -1])
                return trail[:-1] or trail, state_BN
            trail.append(fresh_BN[:, :-1])


class _Texts:
    """The texts of a batch, left-padded to one length, and what the model's cache holds of them."""

    def __init__(self, model: Any, device: str, prompts: Sequence[Ids], *, cached: bool) -> None:
        self._model, self._device, self._cached = model, device, cached
        longest = max(map(len, prompts))
        self._tokens_BP = np.stack([np.pad(prompt, (longest - len(prompt), 0)) for prompt in prompts])
        self._pads_B = np.array([longest - len(prompt) for prompt in prompts])
        self._cache = DynamicCache(config=model.config) if cached else None
        self._next_B = self._run(self._tokens_BP, 1)[:, -1]
        self._right_BS = self._after_BS = np.zeros((len(prompts), 0), np.int64)
        """The beginning of the last guess that is what the model says, and what it says after each token of it."""

    def outputs(self, state_BN: Ids) -> Ids:
        """[B, N+1]: the token that is decided, and what the model says after each token of the guess."""
        held = 0
        if self._cache is not None:
            held = _alike(state_BN, self._right_BS)
            beyond = self._cache.get_seq_length() - self._tokens_BP.shape[1] - held
            if beyond > 0:
                self._cache.crop(-beyond)
        said = self._run(state_BN[:, held:], state_BN.shape[1] - held)
        fresh_BN = np.concatenate([self._next_B[:, None], self._after_BS[:, :held], said], axis=1)
        right = _alike(state_BN, fresh_BN)
        self._right_BS, self._after_BS = state_BN[:, :right], fresh_BN[:, 1 : right + 1]
        return fresh_BN

    def keep(self, fixed_BN: Ids, next_B: Ids) -> None:
        """The guess that `outputs` was asked about last is the text now; the cache holds it already."""
        self._tokens_BP = np.concatenate([self._tokens_BP, fixed_BN], axis=1)
        self._next_B = next_B
        self._right_BS = self._after_BS = fixed_BN[:, :0]

    def _run(self, tokens: Ids, last: int) -> Ids:
        """The argmax at the last places of `tokens`, which follow what is held."""
        held = self._cache.get_seq_length() if self._cache is not None else 0
        if self._cache is None and tokens is not self._tokens_BP:
            tokens = np.concatenate([self._tokens_BP, tokens], axis=1)
        places_P = np.arange(held + tokens.shape[1])
        seen_BP = places_P[None] >= self._pads_B[:, None]
        places_BP = np.maximum(places_P[None, held:] - self._pads_B[:, None], 0)
        # By index, not by number: of hidden states that do not lie together, torch multiplies each text with a copy of
        # the whole vocabulary's matrix.
        kept = torch.arange(tokens.shape[1] - last, tokens.shape[1], device=self._device)
        given: dict[str, Any] = {"input_ids": self._move(tokens), "logits_to_keep": kept}
        if self._pads_B.any() or self._cache is not None:
            given |= {"attention_mask": self._move(seen_BP.astype(np.int64)), "position_ids": self._move(places_BP)}
        outcome = self._model(**given, past_key_values=self._cache, use_cache=self._cache is not None)
        best: Ids = outcome.logits[:, -last:].argmax(-1).cpu().numpy()
        return best

    def _move(self, values: Ids) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(self._device)


def _alike(left_BN: Ids, right_BN: Ids) -> int:
    """How many first tokens are the same in all texts."""
    shorter = min(left_BN.shape[1], right_BN.shape[1])
    same_N = (left_BN[:, :shorter] == right_BN[:, :shorter]).all(0)
    return shorter if same_N.all() else int(same_N.argmin())


@torch.inference_mode()
def _can_cut(model: Any, device: str) -> bool:
    """Whether texts that are padded, cached and cut back give what plain ones give, tried on two short ones."""
    vocabulary = int(model.get_input_embeddings().weight.shape[0])
    long, short = (np.array(ids, np.int64) % vocabulary for ids in ((11, 12, 13, 14, 15), (21, 22, 23)))
    try:
        texts = _Texts(model, device, [long, short], cached=True)
        texts.outputs(np.array([[16, 17], [18, 19]], np.int64) % vocabulary)
        found = texts.outputs(np.array([[26, 27], [28, 29]], np.int64) % vocabulary)
        plain = [
            _Texts(model, device, [prompt], cached=False).outputs(guess)[0]
            for prompt, guess in ((long, np.array([[26, 27]]) % vocabulary), (short, np.array([[28, 29]]) % vocabulary))
        ]
    except (TypeError, ValueError, AttributeError, NotImplementedError, RuntimeError):
        return False
    return bool(np.array_equal(found, np.stack(plain)))
