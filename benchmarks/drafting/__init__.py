"""What the benchmarks of drafters share: names, the tasks to draft for, recordings of the model, timed pairs."""
