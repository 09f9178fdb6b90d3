"""Code shared by stages that query the model under test: few-shot examples, the call, and recording the reply."""
