"""`bench leisure`: texts asked for by key with ample time, and whether the editor shows what `complete` says."""
