"""fastcoder-lsp: ghost text from a local code model, with exact speculative decoding."""

__version__ = "0.1.0"
