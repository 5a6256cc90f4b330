"""Assembles a loaded model and measures the cost of its steps on this machine."""
