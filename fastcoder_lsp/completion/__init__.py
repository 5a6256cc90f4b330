"""Completion: `service` answers what needs no model, and sends the other questions to the model's host."""
