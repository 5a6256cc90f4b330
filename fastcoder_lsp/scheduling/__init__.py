"""THE MODEL'S HALF: one thread that has the model work on the questions of all fronts, a piece at a time."""
