"""What code of other files is worth to who types: the same keys of histories with and without, in reckoned time."""
