"""The commands, with one module for each. `primitives` and `traits` share `kinds_command`."""
