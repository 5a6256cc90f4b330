"""Shared by the benchmarks of drafters: names, tasks to draft for, recordings of the model, timed pairs."""
