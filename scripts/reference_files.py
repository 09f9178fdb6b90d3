"""The reference pages for files: benchmarks, results, exports, recordings and journals."""

from __future__ import annotations

import inspect
import json
from importlib import import_module
from typing import Any

from markdown_text import code, field_table, page, prose, table

from karenina_benchmark.formats.file_schema import benchmark_schema
from karenina_benchmark.formats.format_registry import list_formats
from karenina_cli.commands.config_command import schema_of
from karenina_cli.output.field_listing import list_fields
from karenina_core.config import all_settings
from karenina_core.plugins import active_plugins
from karenina_engine.journal import schema as journal_schema
from karenina_engine.results import table_columns
from karenina_manual.settings import ManualExtra
from karenina_report.exports.hookspecs import karenina_exporters
from karenina_report.exports.json_lines import published_schema

_BENCHMARKS = {
    "YAML": "karenina_benchmark.formats.yaml_format",
    "Declared templates": "karenina_benchmark.template_declarations",
    "Checkpoints (JSON-LD)": "karenina_benchmark.formats.checkpoint_format",
    "JSON lines": "karenina_benchmark.formats.jsonl_format",
}
_TABLES = ("RESULTS", "FIELDS", "TRAITS", "EXCERPTS", "STAGES", "CALLS")


def schemas() -> dict[str, str]:
    """Return the JSON Schemas by file name."""
    settings = schema_of(all_settings())
    return {
        "configuration.schema.json": json.dumps(settings, indent=1),
        "benchmark.schema.json": json.dumps(benchmark_schema(settings), indent=1),
        "result.schema.json": published_schema(),
    }


def files() -> str:
    """Return the page that documents all file formats."""
    plugins = active_plugins()
    formats = [
        [code(", ".join(one.value.suffixes)), one.value.name, _yes(one.value.write), one.distribution]
        for one in list_formats(plugins)
        if one.value.suffixes
    ]
    exporters = [
        [code(one.value.name), code(", ".join(one.value.suffixes)), prose(one.value.summary), _yes(one.value.read)]
        for one in plugins.offers(karenina_exporters)
    ]
    return page(
        "Files",
        "JSON Schemas (draft 2020-12), as the commands print them:",
        table(
            ["schema", "of", "command"],
            [
                [_link("benchmark"), "a benchmark in YAML", "`karenina config --schema benchmark`"],
                [_link("configuration"), "a configuration file", "`karenina config --schema`"],
                [_link("result"), "a line of a result file", "`karenina export --schema`"],
            ],
        ),
        "## Benchmarks",
        table(["suffixes", "format", "can be saved", "from"], formats),
        *(part for title, module in _BENCHMARKS.items() for part in (f"### {title}", _doc(module))),
        "### Keys of benchmarks in YAML",
        *(part for title, keys in _keys().items() for part in (f"{title}:", table(["key", "meaning"], keys))),
        "### Tables",
        prose(inspect.getdoc(import_module("karenina_benchmark.formats.table_format").read_table) or ""),
        "## Recordings",
        _doc("karenina_manual.recording_index"),
        "Fields of a model with the `manual` interface that choose the columns:",
        field_table(list_fields(ManualExtra)),
        "## Results",
        _doc("karenina_engine.results.result_file"),
        "## Exports",
        table(["format", "suffixes", "contents", "can be read back"], exporters),
        *(part for name in _TABLES for part in _columns(name)),
        "## Journals",
        prose(inspect.getdoc(journal_schema) or ""),
    )


def _keys() -> dict[str, list[list[str]]]:
    """Return the table rows for the keys of a YAML benchmark, by where the keys are."""
    schema = benchmark_schema(schema_of(all_settings()))
    places = {"At the top": schema, "Of a question": schema["$defs"]["Question"]}
    places |= {"Of a field of `answer`": schema["$defs"]["Field"]}
    places |= {"Of an entry of `questions_from`": schema["$defs"]["QuestionsFrom"]}
    return {
        place: [[code(key), prose(one.get("description", ""))] for key, one in found["properties"].items()]
        for place, found in places.items()
    }


def _link(name: str) -> str:
    """Return a Markdown link to the schema with this name."""
    return f"[{name}.schema.json]({name}.schema.json)"


def _doc(module: str) -> str:
    """Return a module's docstring as Markdown."""
    return prose(inspect.getdoc(import_module(module)) or "")


def _yes(value: object) -> str:
    """Return "no" for None, and "yes" for any other value."""
    return "yes" if value is not None else "no"


def _columns(name: str) -> list[str]:
    """Return a heading and a table of a result table's columns."""
    columns: table_columns.Columns[Any] = getattr(table_columns, name)
    rows = [[code(one.name), one.type, prose(one.meaning)] for one in columns]
    return [f"### Table {code(name.lower())}", table(["column", "type", "meaning"], rows)]
