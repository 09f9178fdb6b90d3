"""The contract of primitives, with symbols of genes."""

from karenina_testing.contracts import PrimitiveContract

from gene_symbol import GeneSymbol


class TestGeneSymbol(PrimitiveContract):
    entry_point = "gene_symbol"
    primitive = GeneSymbol(aliases=("p53", "TRP53"))
    truths = ("TP53", "BCL2", "IFNG")
    bad_truths = ("", "  ", 53, None)
    passes = (("tp-53", "TP53"), ("P53", "TP53"), ("Bcl-2", "BCL2"), ("IFN-γ", "IFNG"))
    fails = (("TP63", "TP53"), ("", "TP53"), ("BCL2L1", "BCL2"))
