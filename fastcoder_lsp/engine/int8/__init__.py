"""The CPU engine's arithmetic: int8 products and attention whose sums stand in a fixed order, compiled by numba.

Owns kernels, packed weights and their thread team. Each row's bits depend on that row and the tokens it sees alone: the
products are sums of integers, and every floating-point sum runs over columns in the order of their positions.
"""
