"""Finding what changed in a workspace, and making the same changes again."""
