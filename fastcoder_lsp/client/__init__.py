"""A language client, for `play` and for benchmarks that type as a person does."""
