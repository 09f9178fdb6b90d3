"""What stages that get answers from the model under test share: few-shot examples, the call, and what is recorded."""
