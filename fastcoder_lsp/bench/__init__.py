"""Measurements: `bench engine`, and the reports of all benchmarks of a checkout; asserts no time."""
