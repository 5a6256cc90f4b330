"""Measurements of fastcoder-lsp that need a checkout, its data and its tools; nothing here asserts a time."""
