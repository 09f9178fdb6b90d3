"""Models: their configuration, the ports that call them, adapter specifications, and prompts."""
