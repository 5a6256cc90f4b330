"""`scripts/bench_gpu.py`: the graph engine on a GPU, part by part, within minutes.

Runs from a bare checkout with torch, transformers and numpy; what is absent is skipped with a reason. Every part has a
process of its own. With `--smoke` everything runs small on the CPU, so that every line was executed before a GPU is at
hand.
"""
