"""The command line: one file per command; parses, calls down, prints."""
