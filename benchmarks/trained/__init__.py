"""`bench trained`: what `train` did to a model: tokens a pass, guesses accepted, speed, quality, before and after."""
