"""Work without model calls: estimates, previews of prompts, rescoring, and results from stored replies."""
