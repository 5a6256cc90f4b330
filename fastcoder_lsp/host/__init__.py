"""The process that has the model, shared by all editors of a user, and how fronts and it speak."""
