"""The graph engine: a static KV cache, and one captured CUDA graph for every (rows, length) that a step may have.

A step is one replay: the tree's mask is built from its parents, the model runs, every row chooses its token, the
accepted path is found and its keys and values are moved together, all on the device; one small copy tells the host what
was emitted. On the CPU the same programs run launch by launch: capture is the only difference.

Read in this order: `plan` (which sizes), `step_io` (what goes in and out), `cache`, `attention`, `transformer`,
`verifier`, `graphs`, `programs` (a step from end to end), `engine`. `weights` and `products` hold the model, `kernels`
and `fused` are two ways of computing what stands between the products, `tuning` chooses, `shelf` keeps other prefixes.
"""
