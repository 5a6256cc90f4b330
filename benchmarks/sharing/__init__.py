"""People who type at once and share one model: what each accepts beside what they accept alone, in reckoned time."""
