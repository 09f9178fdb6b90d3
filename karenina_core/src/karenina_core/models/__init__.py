"""Models: their configuration, the ports through which they are called, adapter specifications, and prompts."""
