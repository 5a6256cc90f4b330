"""THE MODEL'S FILES: finding, fetching, checking, converting them. Never runs a model."""
