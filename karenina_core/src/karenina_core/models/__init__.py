"""Models: their configuration, ports, adapters and prompts."""
