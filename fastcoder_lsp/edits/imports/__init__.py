"""Missing imports as next edits: what a workspace's files import, and where a file wants one more."""
