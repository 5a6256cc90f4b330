"""A language client of our own: what an editor says to the server, for `play` and for benchmarks as a person types."""
