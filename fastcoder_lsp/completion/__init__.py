"""ONE REQUEST: the service (latest wins, one worker), and answers that need no model."""
