"""What the wire between an editor's server and the shared process adds to a request; the model takes no time."""
