"""A small household ledger."""
