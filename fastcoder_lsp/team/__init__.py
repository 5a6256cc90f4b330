"""A server for a team: replicas of the model's host on Ray Serve, behind one gateway with keys."""
