"""The contract of file formats, with questions as Moodle exports them."""

from karenina_testing.contracts import FormatContract

from gift_format import karenina_formats

GENES = """// Pharmacology
::target:: Which gene is the target of venetoclax? {=BCL2}

::approved:: Venetoclax is approved in Europe. {T}

// in years
::year:: When was it approved
in the United States? {#2016:1}
"""


class TestGift(FormatContract):
    entry_point = "gift_format"
    format = karenina_formats()[0]
    sample = GENES
    questions = {
        "target": "Which gene is the target of venetoclax?",
        "approved": "Venetoclax is approved in Europe.",
        "year": "When was it approved in the United States?",
    }
    broken = (
        ("::a:: Which gene?\n", "line 1"),
        (GENES + "\n::b:: Which gene? {=BCL2 ~TP53}\n", "line 10"),
        (GENES + "\n::year:: Which year? {#2016}\n", "line 10"),
        ("// only a comment\n", ""),
    )
