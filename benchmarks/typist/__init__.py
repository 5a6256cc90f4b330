"""How a person types: the rules, the loop, a real server to type at, a model in reckoned time, and the ceiling."""
