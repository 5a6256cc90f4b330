"""ONE REQUEST: `service` answers what needs no model, `scheduler` has the model work on the rest, the latest first."""
