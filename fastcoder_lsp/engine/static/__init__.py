"""The graph engine: a static KV cache, and one captured CUDA graph for every (rows, length) that a step may have.

A step is one replay: the tree's mask is a comparison of numbers that the host sends along, the model runs, and every
row says its token; one small copy tells the host, which walks down the tree and has what was accepted moved together
while it drafts. On the CPU the same programs run launch by launch: capture is the only difference.

Read in this order: `plan` (which sizes), `layout` and `step_io` (what goes in and out), `device`, `cache`, `weights`,
`transformer`, `verifier`, `programs` (a step from end to end), `backend` and `engine`, `build` and `check`. `fused` and
`triton_kernels` are another way of computing attention and a step's end, off by default.
"""
