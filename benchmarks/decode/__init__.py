"""`bench decode`: the model for real, every drafter against plain decoding."""
