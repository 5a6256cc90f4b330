"""The graph engine: a static KV cache, and one captured CUDA graph for every (rows, length) of a step.

A step is one replay: the host sends numbers that encode the tree's mask, the model runs, and every row chooses its
token; one small copy goes back to the host, which walks down the tree and launches the moves of the accepted slots
while it drafts. On the CPU the same programs run operation by operation: capture is the only difference.

Read in this order: `plan` (the sizes), `step_io` (inputs and outputs), `device`, `cache`, `weights`, `transformer`,
`verifier`, `programs` (a step from end to end), `engine`, and `build` with its check.
"""
