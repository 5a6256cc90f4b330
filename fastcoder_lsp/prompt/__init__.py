"""WHAT THE MODEL SEES: fill-in-the-middle templates, anchoring, token healing, repository context."""
