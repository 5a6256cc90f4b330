"""`bench priors`: learns what the drafter `auto` believes at first, and shows how well that carries over."""
