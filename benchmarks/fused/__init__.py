"""Triton kernels for the graph engine, off unless `shapes --kernels fused` asks: no GPU has shown their gain."""
