"""What a stage is and what it sees: stages, their context, the state of an item, the final result."""
