"""What a model is: ports, model configurations, adapter specifications, prompts."""
