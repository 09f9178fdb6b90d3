"""A primitive that compares symbols of genes: `Bcl-2`, `BCL 2` and `BCL2` are one gene, and so are listed aliases."""

from __future__ import annotations

from typing import ClassVar, Final

from karenina_core import hookimpl
from karenina_core.models.settings_models import AllowedInFiles
from karenina_template.templates import Primitive
from pydantic import Field

GREEK: Final = str.maketrans({"α": "A", "β": "B", "γ": "G", "δ": "D", "ε": "E", "κ": "K"})


class GeneSymbol(Primitive):
    """Passes if the text is the symbol of the true gene, whatever its case and hyphens, or one of `aliases`."""

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    aliases: tuple[str, ...] = Field(default=(), description="Other names of the gene.")

    def check(self, extracted: object, expected: object) -> bool:
        """Return whether the text names the gene."""
        if not isinstance(extracted, str) or not normalize(extracted):
            return False
        return normalize(extracted) in {normalize(str(expected)), *map(normalize, self.aliases)}

    def check_expected(self, expected: object) -> None:
        """Raise `ValueError` for a truth that is not a symbol."""
        if not isinstance(expected, str) or not normalize(expected).isalnum():
            raise ValueError(f"GeneSymbol needs a symbol such as 'BCL2' as ground truth, not {expected!r}")

    def mutate(self, expected: object) -> object:
        """Return the symbol of another gene: the name of a pseudogene."""
        return f"{expected}P17"


def normalize(symbol: str) -> str:
    """Return a symbol without case, hyphens, spaces and Greek letters."""
    return symbol.casefold().translate(GREEK).upper().replace("-", "").replace(" ", "")


@hookimpl
def karenina_primitives() -> list[type[Primitive]]:
    """Provide the primitive: `verify_with: {type: gene_symbol.GeneSymbol, aliases: [p53]}`."""
    return [GeneSymbol]
