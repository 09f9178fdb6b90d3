"""The commands, one module each; those on a kind of what benchmarks can use share one."""
