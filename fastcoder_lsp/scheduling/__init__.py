"""Scheduling: one thread that runs the model for the questions of all clients, one piece of work at a time."""
