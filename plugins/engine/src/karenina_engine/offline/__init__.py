"""What needs no model call: estimates, previews of prompts, rescoring, results whose replies are stored."""
