"""`bench exactness`: whatever drafts, the model says the same."""
