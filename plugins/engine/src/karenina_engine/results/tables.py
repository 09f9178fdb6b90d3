"""Result tables, as rows of plain values or as pandas, Polars and Arrow tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from karenina_core.catalog import install_command
from karenina_core.errors import ConfigError, KareninaError
from karenina_core.text import did_you_mean
from karenina_engine.results import table_columns as columns
from karenina_engine.results.table_columns import Cell, Column, ExcerptRow, FieldRow, Row, StageRow, TraitRow, make_row

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from karenina_core.data.result import VerificationResult


class LibraryMissing(KareninaError, ImportError):
    """Raised if the library for a kind of table is not installed."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table with columns and rows. Each iteration reads the rows again.

    Each row maps column names to cells, in the order of the columns. A cell without a value is None.
    """

    name: str
    columns: Sequence[Column[Any]]
    rows: Callable[[], Iterable[Row]]

    def __iter__(self) -> Iterator[Row]:
        """Return an iterator over the rows. It reads the rows again."""
        return iter(self.rows())

    def cells(self) -> dict[str, list[Cell]]:
        """Return the cells of each column, by column name."""
        rows = list(self.rows())
        return {column.name: [row[column.name] for row in rows] for column in self.columns}

    def to_pandas(self) -> pandas.DataFrame:
        """Return a pandas DataFrame with the types `string`, `Int64`, `Float64` and `boolean`, and times in UTC. Raises
        `LibraryMissing` if pandas is not installed.

        All of these types can represent missing values. Columns of type `texts` contain lists, and columns of type
        `json` contain JSON text.
        """
        try:
            import pandas
        except ImportError as error:
            raise _library_missing("pandas") from error
        types = {"text": "string", "json": "string", "integer": "Int64", "number": "Float64", "boolean": "boolean"}
        series: dict[str, Any] = {}
        for column, cells in zip(self.columns, self.cells().values(), strict=True):
            if column.type == "time":
                series[column.name] = pandas.to_datetime(pandas.Series(cells, dtype="object"), utc=True)
            else:
                series[column.name] = pandas.Series(cells, dtype=types.get(column.type, "object"))
        return pandas.DataFrame(series)

    def to_polars(self) -> polars.DataFrame:
        """Return a Polars DataFrame. Columns of type `json` contain JSON text. Raises `LibraryMissing` if Polars is not
        installed.
        """
        try:
            import polars
        except ImportError as error:
            raise _library_missing("polars") from error
        types: Mapping[str, Any] = {
            "integer": polars.Int64,
            "number": polars.Float64,
            "boolean": polars.Boolean,
            "time": polars.Datetime("us", "UTC"),
            "texts": polars.List(polars.String),
        }
        return polars.DataFrame(
            self.cells(), schema={column.name: types.get(column.type, polars.String) for column in self.columns}
        )

    def to_arrow(self) -> pyarrow.Table:
        """Return an Arrow table. The metadata of each field describes the meaning of the column. Raises
        `LibraryMissing` if pyarrow is not installed.
        """
        try:
            import pyarrow
        except ImportError as error:
            raise _library_missing("pyarrow") from error
        types: Mapping[str, Any] = {
            "integer": pyarrow.int64(),
            "number": pyarrow.float64(),
            "boolean": pyarrow.bool_(),
            "time": pyarrow.timestamp("us", "UTC"),
            "texts": pyarrow.list_(pyarrow.string()),
        }
        schema = pyarrow.schema(
            [
                pyarrow.field(
                    column.name, types.get(column.type, pyarrow.string()), metadata={"meaning": column.meaning}
                )
                for column in self.columns
            ]
        )
        return pyarrow.table(self.cells(), schema=schema)


def result_table(results: Iterable[VerificationResult], name: str = "results", only: Set[str] = frozenset()) -> Table:
    """Return a table of results. `name` is `results`, `fields`, `traits`, `excerpts` or `stages`. Raises `ConfigError`
    for other names of tables. The table has the columns in `only`, as far as they exist, or all columns if it is empty.
    Each iteration over the rows reads `results` again.
    """
    table = _TABLES.get(name)
    if table is None:
        raise ConfigError([unknown_table(name, _TABLES)])
    of_table, rows_of = table
    if only:
        of_table = _choose_columns(name, frozenset(only))
    return Table(name, of_table, lambda: (make_row(of_table, row) for result in results for row in rows_of(result)))


@lru_cache
def _choose_columns(table: str, names: frozenset[str]) -> columns.Columns[Any]:
    """Return the columns of a table of results that have one of the given names."""
    return tuple(column for column in _TABLES[table][0] if column.name in names)


def unknown_table(name: str, known: Iterable[str]) -> str:
    """Return the error message for an unknown table. It suggests a name from `known`. For `calls`, it names the command
    that exports them from a journal.
    """
    if name == "calls":
        return "calls are stored in the journal, not in results; use `karenina export JOURNAL --table calls`"
    known = list(known)
    tables = f"; the tables are {', '.join(known)}"
    return f"there is no table {name!r}{did_you_mean(name, known, tables)}"


def _library_missing(library: str) -> LibraryMissing:
    """Return the error for a missing library, with the command that installs it."""
    extra = {"pyarrow": "arrow"}.get(library, library)
    return LibraryMissing(f"{library} is not installed: {install_command(f'karenina-engine[{extra}]')}")


def _fields(result: VerificationResult) -> Iterator[FieldRow]:
    """Yield a row for each field that has a ground truth, an extracted value or a result."""
    template = result.template
    parts = (template.parsed_gt_response, template.parsed_llm_response, template.field_results)
    return (FieldRow(result, name) for name in dict.fromkeys(name for part in parts for name in part or ()))


def _traits(result: VerificationResult) -> Iterator[TraitRow]:
    """Yield a row for each trait, including those that could not be scored."""
    rubric = result.rubric
    if rubric is None:
        return
    scores = rubric.get_all_trait_scores()
    for name in dict.fromkeys([*scores, *(rubric.trait_errors or {})]):
        yield TraitRow(result, rubric, name, scores.get(name))


def _excerpts(result: VerificationResult) -> Iterator[ExcerptRow]:
    """Yield a row for each excerpt, starting with those of fields."""
    fields, traits = result.deep_judgment, result.deep_judgment_rubric
    for name, excerpts in ((fields.extracted_excerpts if fields is not None else None) or {}).items():
        yield from (ExcerptRow(result, "field", name, number, excerpt) for number, excerpt in enumerate(excerpts, 1))
    for name, excerpts in ((traits.extracted_rubric_excerpts if traits is not None else None) or {}).items():
        yield from (ExcerptRow(result, "trait", name, number, excerpt) for number, excerpt in enumerate(excerpts, 1))


def _stages(result: VerificationResult) -> Iterator[StageRow]:
    """Yield a row for each stage, numbered from 1."""
    return (StageRow(result, number, stage) for number, stage in enumerate(result.stages, 1))


_TABLES: Final[Mapping[str, tuple[columns.Columns[Any], Callable[[VerificationResult], Iterable[Any]]]]] = {
    "results": (columns.RESULTS, lambda result: (result,)),
    "fields": (columns.FIELDS, _fields),
    "traits": (columns.TRAITS, _traits),
    "excerpts": (columns.EXCERPTS, _excerpts),
    "stages": (columns.STAGES, _stages),
}
RESULT_TABLES: Final = tuple(_TABLES)
"""The names of the tables made from results."""
