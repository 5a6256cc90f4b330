"""`bench draft`: drafters replayed over what the model said, without the model."""
