"""The run of a command: its progress, its end on a signal, and conditions and reports for CI."""
