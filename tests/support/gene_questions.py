"""Benchmarks that several tests of the command run."""

TWO_GENES = """karenina: 1
name: Genes
questions:
  - id: first
    question: Which gene does venetoclax target?
    answer:
      gene: {description: The gene, ground_truth: BCL2}
  - id: second
    question: Which gene is mutated most often?
    answer:
      gene: {description: The gene, ground_truth: TP53}
"""
"""A benchmark with two questions, about BCL2 and TP53."""
GENES_IN_ANSWERS = """karenina: 1
name: Genes
questions:
  - id: first
    question: Which gene does venetoclax target?
    answer: {gene: {description: The gene, ground_truth: true, verify_with: {type: TraceContains, substring: BCL2}}}
  - id: second
    question: Which gene is mutated most often?
    answer: {gene: {description: The gene, ground_truth: true, verify_with: {type: TraceContains, substring: TP53}}}
"""
"""The same questions, whose answers no judge reads."""
GENE = """
class Answer(BaseAnswer):
    gene: str = VerifiedField(description="The gene that is named", ground_truth="BCL2", verify_with=ExactMatch())
"""
"""The template of an answer that names BCL2."""
