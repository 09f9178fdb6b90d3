"""The commands, one module each. `primitives` and `traits` share `kinds_command`."""
