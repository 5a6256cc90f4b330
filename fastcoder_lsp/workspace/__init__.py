"""The user's files: open documents and snapshots, reading rules, scanning, watching, indexing."""
