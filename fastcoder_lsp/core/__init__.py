"""Values and protocols that several layers share; the bottom of the import order.

Everything here is plain data that could cross a process boundary: tuples, numpy arrays, strings. No torch, no LSP
types, no I/O. A token id is an `int`; an offset counts characters (Unicode code points) from the start of a text.
"""

from fastcoder_lsp.core.drafting import NO_DRAFT, Draft, DraftContext, DrafterTraits, Rewrite
from fastcoder_lsp.core.engine import (
    GREEDY,
    NORMED,
    CacheLost,
    Engine,
    EngineInfo,
    Engines,
    KeepingEngine,
    LaunchingEngine,
    Prefilled,
    Preparing,
    Progress,
    Sampler,
    ShouldStop,
    SkimmingEngine,
    StepCosts,
)
from fastcoder_lsp.core.requests import (
    Completion,
    CompletionRequest,
    Definition,
    Extra,
    Late,
    RawPrompt,
    Reason,
    SelectedCompletion,
    Snapshot,
    Yank,
)
from fastcoder_lsp.core.trees import Counts, DraftTree, Draw, Proposal, StepTrace, Tokens, TracedToken, Verified

__all__ = [
    "GREEDY",
    "NORMED",
    "NO_DRAFT",
    "CacheLost",
    "Completion",
    "CompletionRequest",
    "Counts",
    "Definition",
    "Draft",
    "DraftContext",
    "DraftTree",
    "DrafterTraits",
    "Draw",
    "Engine",
    "EngineInfo",
    "Engines",
    "Extra",
    "KeepingEngine",
    "Late",
    "LaunchingEngine",
    "Prefilled",
    "Preparing",
    "Progress",
    "Proposal",
    "RawPrompt",
    "Reason",
    "Rewrite",
    "Sampler",
    "SelectedCompletion",
    "ShouldStop",
    "SkimmingEngine",
    "Snapshot",
    "StepCosts",
    "StepTrace",
    "Tokens",
    "TracedToken",
    "Verified",
    "Yank",
]
