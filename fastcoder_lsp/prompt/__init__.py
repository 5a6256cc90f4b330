"""The prompt: fill-in-the-middle templates, the window around the cursor, token healing, context."""

from fastcoder_lsp.prompt.anchor import allowed
from fastcoder_lsp.prompt.build import Prompt, PromptBuilder, PromptOptions
from fastcoder_lsp.prompt.context import NO_CONTEXT, Context, ContextSnippet, PromptContext
from fastcoder_lsp.prompt.templates import PLAIN, TEMPLATES, Template, template_of

__all__ = [
    "NO_CONTEXT",
    "PLAIN",
    "TEMPLATES",
    "Context",
    "ContextSnippet",
    "Prompt",
    "PromptBuilder",
    "PromptContext",
    "PromptOptions",
    "Template",
    "allowed",
    "template_of",
]
