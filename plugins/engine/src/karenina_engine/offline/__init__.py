"""Work without model calls: estimates, prompt previews, rescoring and replays."""
