"""What the rest of the program must know of a drafter before anything is loaded for it: what it reads.

Owns no drafter; `registry` makes them, and brings a compiler along.
"""

READS_STORE = frozenset(("auto", "rest", "fastcoder", "fastcoder-paper", "cacheback", "cacheback-frozen"))
"""Drafters that read the datastore, D_r or D_c; for the others none is kept."""


def reads_store(drafter: str) -> bool:
    """Whether a drafter, named as in the setting (`NAME` or `NAME:key=value,…`), reads the datastore."""
    return drafter.partition(":")[0] in READS_STORE
