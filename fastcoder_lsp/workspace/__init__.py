"""THE USER'S FILES: open documents and snapshots, the rules of what may be read, the scan of a folder."""
