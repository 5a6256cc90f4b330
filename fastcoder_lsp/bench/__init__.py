"""MEASUREMENTS: each `bench` subcommand; reports, never asserts a time."""
