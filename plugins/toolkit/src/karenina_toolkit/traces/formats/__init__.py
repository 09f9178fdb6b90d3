"""The shapes of conversations that other programs write, each read by a module of its own."""
