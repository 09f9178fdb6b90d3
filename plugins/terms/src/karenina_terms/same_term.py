"""`SameTerm`, the primitive for names and identifiers that a table lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

from pydantic import Field

from karenina_core.models.settings_models import AllowedInFiles
from karenina_template.templates.primitives import ReadingPrimitive, Undecided, Unreadable, find_file
from karenina_template.templates.primitives.values import text_of
from karenina_terms.names import NAME, RELATED, clean, key_of, name_alone, names_in, names_in_list
from karenina_toolkit.files.bounded_files import FileError

if TYPE_CHECKING:
    from karenina_terms.term_table import TermTable

_LONGEST: Final = 1_000


class SameTerm(ReadingPrimitive, defer_build=True):
    """Passes if both texts name the same term of a table: *p53* or *HGNC:11998* for *TP53*.

    Use it for a text field into which the judge copies the name, as the response writes it.

    - `table`: a CSV, TSV, OBO or OWL file, relative to the benchmark's folder. Imports of ontologies are not followed.
    - `column`: the columns of a CSV or TSV file with names and identifiers: the main name first, then synonyms.
      Columns whose names end in `id` contain identifiers. The default is `id`, `name` and `synonyms`.
    - `separator`: what separates several synonyms in a cell.
    - `related`: whether broad, narrow and related synonyms of an ontology count. Without it, they are undecided.
    - `sha256`: the digest of the file. If it is set, a file with another content is an error.
    - `unreadable`: whether a text that names no term of the table counts as wrong ("wrong") or leaves the item
      undecided ("not_judged", the default).

    Case, accents, hyphens and spaces make no difference, unless a name is equal without that: *CO* is not *Co* if both
    are main names, and *co* is undecided. A name that also belongs to another term is undecided, unless it is the main
    name or identifier of the ground truth alone. The name of another term is wrong, also that of a broader one. Several
    names, such as *ERBB2 (HER2)* and *ERBB2/HER2*, must mean one term. Obsolete terms of an ontology are left out.
    """

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    is_slow: ClassVar[bool] = True
    table: str = Field(
        min_length=1, description="The file with the terms.", json_schema_extra={"allowed_in_files": "below"}
    )
    column: str | tuple[str, ...] | None = Field(default=None, description="The columns with names and identifiers.")
    separator: str = Field(default="|", min_length=1, description="What separates several synonyms in a cell.")
    related: bool = Field(default=False, description="Whether related synonyms of an ontology count.")
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = Field(
        default=None, description="The digest of the file."
    )

    def check_expected(self, expected: object) -> None:
        """Raise `ValueError` unless the ground truth is a short text. The table is not read; see `check_files`."""
        self._written(expected)

    def check_files(self, expected: object) -> None:
        """Raise `ValueError` if the table cannot be read, or the ground truth does not name one of its terms."""
        self._truth(self._table(is_new=True), expected)

    def mutate(self, expected: object) -> object:
        """Return the name of another term of the table, or None if the table or the ground truth cannot be used."""
        try:
            table = self._table()
            return table.other_name(self._truth(table, expected))
        except ValueError:  # `check_files` reports it
            return None

    def check(self, extracted: object, expected: object) -> bool | Undecided:
        """Return whether the texts name the same term, `Unreadable` if the value names no term of the table, or
        `Undecided` if it names several with the ground truth among them, is only related to a term, is too long, or the
        table cannot be read. An empty value fails. Raises `ValueError` if the ground truth does not name a single term
        of the table.
        """
        written, text = self._written(expected), text_of(extracted)
        if text is None or not text.strip():
            return False
        if len(text) > _LONGEST:
            return Undecided(f"the value has more than {_LONGEST:,} characters")
        try:
            table = self._table()
        except FileError as error:
            return Undecided(str(error))
        truth, value = self._truth(table, expected), clean(text)
        if value == written:
            return True
        found = table.terms(value) or table.terms(name_alone(value))
        if not found and (named := self._all_terms(table, names_in(value))):
            found = _common(named)
            if not found and any(truth in terms for terms in named):
                return Unreadable(f"{value[:60]!r} names several terms, one of which is the ground truth")
            if not found:
                return False
        found = found or _common(self._all_terms(table, names_in_list(value)))
        exact = table.exact_terms(value)
        if exact and truth not in exact and truth in found and min(exact.values()) < RELATED:
            return Undecided(f"{value[:60]!r} is a name of another term, and of the ground truth only in another case")
        return self._judge(found, truth, value)

    @staticmethod
    def _all_terms(table: TermTable, names: Sequence[str]) -> list[dict[str, int]]:
        """Return the terms that each name has, or an empty list if one has none."""
        found = [table.terms(name_alone(name)) for name in names]
        return found if all(found) else []

    def _judge(self, found: dict[str, int], truth: str, value: str) -> bool | Undecided:
        """Return whether a value that names the terms in `found`, with their ranks, passes for the correct term
        `truth`, or `Undecided` if it names no term, other terms as well as this one, or only related ones.
        """
        if not found:
            return Unreadable(f"{value[:60]!r} names no term of the table {self.table}")
        strong = {term for term, rank in found.items() if rank < RELATED or self.related}
        if truth not in found:
            return False if strong else Undecided(f"{value[:60]!r} is only related to terms of the table")
        if strong == {truth} or [term for term, rank in found.items() if rank <= NAME] == [truth]:
            return True
        if truth not in strong:
            return Undecided(f"{value[:60]!r} is only related to the ground truth (set `related` to accept it)")
        return Undecided(f"{value[:60]!r} names {len(strong)} terms of the table, one of which is the ground truth")

    def _written(self, expected: object) -> str:
        """Return the ground truth without markup. Raises `ValueError` if it is not a text, or empty, or too long."""
        text = text_of(expected)
        if text is None or not key_of(text) or len(text) > _LONGEST:
            raise self._wrong_truth("the name or identifier of a term", expected)
        return clean(text)

    def _truth(self, table: TermTable, expected: object) -> str:
        """Return the identifier of the term that the ground truth names, where a term's own name takes precedence over
        synonyms. Raises `ValueError` if no term fits, or several fit equally well.
        """
        written = self._written(expected)
        found = table.exact_terms(written) or table.terms(written)
        if not found:
            raise self._wrong_truth(f"a term of the table {self.table}", expected)
        main = [term for term, rank in found.items() if rank <= NAME]
        for terms in (main, list(found)):
            if len(terms) == 1:
                return terms[0]
        raise self._wrong_truth(f"a unique name from the table {self.table} (otherwise, use its identifier)", expected)

    def _table(self, *, is_new: bool = False) -> TermTable:
        """Return the table. With `is_new`, it is read again if the file has changed. Raises `FileError` if it cannot be
        read.
        """
        from karenina_terms.known_tables import find_table  # with SQLite, which most commands do not need

        columns = (self.column,) if isinstance(self.column, str) else self.column or ()
        return find_table(find_file(self.table), columns, self.separator, self.sha256, is_new=is_new)


def _common(named: Sequence[dict[str, int]]) -> dict[str, int]:
    """Return the terms that are in all, with the strongest way in which they are named."""
    common = set.intersection(*map(set, named)) if named else set()
    return {term: min(terms[term] for terms in named) for term in common}
