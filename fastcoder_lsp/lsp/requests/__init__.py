"""One file per kind of request: each converts what the client sends, hands it on, and converts the answer."""
