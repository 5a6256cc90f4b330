"""The CPU engine's arithmetic: int8 products and attention with sums in a fixed order, compiled by numba.

Each row's bits depend only on that row and the tokens it sees: the products are sums of integers, and every
floating-point sum runs over columns in the order of their positions.
"""
