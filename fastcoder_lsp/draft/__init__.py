"""GUESSERS: one file each behind the interface `core.Drafter`."""
