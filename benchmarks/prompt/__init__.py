"""`bench prompt`: how many prompt tokens a keystroke costs, without a model."""
