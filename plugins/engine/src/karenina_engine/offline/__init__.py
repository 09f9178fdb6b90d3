"""Work that makes no model calls: estimates, prompt previews, rescoring, and replays of stored replies."""
