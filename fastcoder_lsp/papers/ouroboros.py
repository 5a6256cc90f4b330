"""Ouroboros: a smaller model drafts phrase by phrase, and phrases lengthen what it drafted.

Zhao et al. 2024, *Ouroboros: Generating Longer Drafts Phrase by Phrase for Faster Speculative Decoding*, section 3.
3.1: the smaller model makes phrases while it drafts, by lookahead decoding of its own, and drafts several tokens a pass
with them; 3.2: phrases that begin with the draft's last token are hung below it, and all are verified at once; 3.3:
after a rejected token, the model's predictions along the rest of the draft and the phrases become phrases; 3.4: the
phrases of earlier decodes are kept. One pool of phrases, that of `jacobi.LookaheadDrafter`, serves all of this.
"""

from dataclasses import dataclass

from typing_extensions import override

from fastcoder_lsp.core import GREEDY, NO_DRAFT, Draft, DraftContext, DrafterTraits, DraftTree, Verified
from fastcoder_lsp.draft.base import Smaller, Source, Specification
from fastcoder_lsp.papers.draft_model import SmallerDrafter
from fastcoder_lsp.papers.jacobi import LookaheadDrafter, LookaheadParameters
from fastcoder_lsp.papers.smaller import SmallModel
from fastcoder_lsp.papers.trees import Trie

FROM_OUROBOROS = Source("ouroboros", "other")
FROM_PHRASE = Source("phrase", "cache")


@dataclass(frozen=True, slots=True)
class OuroborosParameters:
    """Parameters of `ouroboros`."""

    length: int = 6  # γ, tokens that the smaller model drafts at least (published code: 6; by model 4 to 14)
    phrases: int = 15  # K, phrases below the last of them (published code: 15 or 20; here what fits)
    phrase: int = 4  # tokens of a phrase behind its first one (lookahead level 5: 4)
    window: int = 4  # columns of the smaller model's window (published code: 15 or 20; 4 where rows cost)
    rows: int = 32  # of one pass of the smaller model


OUROBOROS = Specification(
    "ouroboros",
    "a smaller model, and phrases of it, of the prompt and of the model's corrections",
    OuroborosParameters(),
    lambda parameters, parts: OuroborosDrafter(parts.smaller, parameters),
    paper="Zhao et al. 2024, Ouroboros, section 3",
    sources=(FROM_OUROBOROS, FROM_PHRASE),
    traits=DrafterTraits(top_k=1),
    remembers=True,
    smaller=True,
)


class OuroborosDrafter(SmallerDrafter):
    """Drafts a chain of the first smaller model, lengthened by phrases."""

    def __init__(self, smaller: Smaller, parameters: OuroborosParameters | None = None) -> None:
        super().__init__(OUROBOROS, smaller)
        self._parameters = params = parameters or OuroborosParameters()
        self._lookahead = LookaheadDrafter(
            LookaheadParameters(window=params.window, gram=params.phrase + 1, guesses=params.phrases, prompt=True)
        )

    @override
    def begin(self, context: DraftContext) -> None:
        super().begin(context)
        self._lookahead.begin(context)

    def propose(self, context: DraftContext, nodes: int) -> Draft:
        """The smaller model's chain, then phrases below it as far as there is room."""
        if nodes < 1 or not self.models or not self.models[0].follow(context.tokens):
            return NO_DRAFT
        length = min(self._parameters.length, nodes)
        tokens = self._chain(self.models[0], context, length)[:nodes]
        draft = Trie(nodes)
        end = draft.chain(-1, tokens, FROM_OUROBOROS)
        for phrase in self._lookahead.pool.peek(tokens[-1] if tokens else context.tokens[-1]):
            draft.chain(end, phrase, FROM_PHRASE)
        return draft.draft()

    def observe(self, tree: DraftTree, verified: Verified) -> None:
        """Section 3.3: the model's predictions along a rejected branch become phrases.

        From the first rejected node on, the model's best ids follow each other as the draft's tokens do, one place
        later, so each run of them is a likely phrase of the model.
        """
        assert verified.top_ids_NK is not None
        best = verified.top_ids_NK[:, 0].tolist()
        size, kept = self._parameters.phrase + 1, set(verified.path)
        inner = set(tree.parents)
        for leaf in range(tree.pending, len(tree)):
            if leaf in inner:
                continue
            branch: list[int] = []
            node = leaf
            while node >= tree.pending - 1 and node not in kept:
                branch.append(node)
                node = tree.parents[node]
            predicted = [best[node] for node in reversed(branch)]
            for start in range(len(predicted) - size + 1):
                self._lookahead.pool.insert(predicted[start], tuple(predicted[start + 1 : start + size]))

    @override
    def forget(self, document: str) -> None:
        super().forget(document)
        self._lookahead.forget(document)

    @override
    def rename(self, old: str, new: str) -> None:
        super().rename(old, new)
        self._lookahead.rename(old, new)

    def _chain(self, model: SmallModel, context: DraftContext, length: int) -> list[int]:
        """At least `length` tokens of the smaller model; each pass gives what its own lookahead decoding accepts."""
        by_chance = context.sampler.rule == "rejection"
        # Tokens that are accepted by chance must not depend on the noise that judges them.
        sampler = GREEDY if by_chance else context.sampler
        output: list[int] = []
        while len(output) < length and model.room(1):
            text = [*context.tokens, *output]
            room = min(self._parameters.rows, model.rows(), model.room(self._parameters.rows))
            guess = self._lookahead.propose(DraftContext(text, context.prompt_length, context.document), room)
            tree = model.below(guess.tokens, guess.parents)
            verified = model.speculate(tree, sampler, 1)
            self._lookahead.observe(tree, verified)
            output += verified.emitted
        return output


SPECIFICATIONS = (OUROBOROS,)
