"""A MODEL, READY TO ANSWER: the one place that puts its parts together, and what that costs on this machine."""
