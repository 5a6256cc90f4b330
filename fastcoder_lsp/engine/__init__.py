"""THE MODEL ON A DEVICE: weights, KV cache, forward passes, verification."""
