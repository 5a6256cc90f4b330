"""`draft-model` with a student: a smaller model that `train distill` tuned on what the model itself says.

Zhou et al. 2024, *DistillSpec*: the decoding is that of speculative decoding; what is different is the smaller model,
and that was made beforehand. Owns the name alone.
"""

from dataclasses import replace

from fastcoder_lsp.draft.draft_model import DRAFT_MODEL

DRAFT_DISTILLED = replace(
    DRAFT_MODEL,
    name="draft-distilled",
    guesses_from="what a smaller model says that `train distill` tuned on the model's own outputs",
    paper="Zhou et al. 2024, DistillSpec, section 4",
)
