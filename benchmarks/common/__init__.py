"""What several benchmarks share, beside a model (`bench.model`) and the form of reports (`bench.report`)."""
