"""The data that benchmarks read: tasks, lines to infill, recorded histories. Owns their forms; measures nothing."""
