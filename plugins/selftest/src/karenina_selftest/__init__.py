"""Judge self-tests: answers with known verdicts, and how often a judge gets the verdict wrong."""
