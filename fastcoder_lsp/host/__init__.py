"""The shared model process of all editors of a user, and its protocol with fronts."""
