"""MEASUREMENTS: `bench engine`, and what all benchmarks of a checkout report with; asserts no time."""
