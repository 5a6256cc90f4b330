"""Drafters: one file each behind the interface `core.Drafter`."""
