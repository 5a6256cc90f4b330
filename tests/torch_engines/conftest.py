"""Fixtures of the torch engines' tests: those of the engine."""

from tests.engine.conftest import real_engine, real_tokenizer, weights_cache

__all__ = ["real_engine", "real_tokenizer", "weights_cache"]
