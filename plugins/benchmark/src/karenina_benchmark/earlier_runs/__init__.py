"""What a run may take from an older one: its command for `resume`, its values for `rescore`."""
