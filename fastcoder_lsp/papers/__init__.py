"""The methods of the papers as they publish them: drafters by name, and the training of models for them (`train`)."""
