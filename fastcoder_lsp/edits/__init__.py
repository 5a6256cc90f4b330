"""Next-edit suggestions: the next change, anywhere in a file."""
