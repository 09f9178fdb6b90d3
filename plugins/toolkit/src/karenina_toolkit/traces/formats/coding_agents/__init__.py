"""Sessions and trajectories of coding agents."""
