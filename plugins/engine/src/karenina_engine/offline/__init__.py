"""Work that needs no model calls: estimates, prompt previews, rescoring and replays."""
