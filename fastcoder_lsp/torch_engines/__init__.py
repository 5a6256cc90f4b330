"""Engines on torch, for GPUs, for comparison, and for model families without an engine of ours."""
