"""The kinds of plugins that `karenina new` can write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class PluginKind:
    """A kind of plugin. `entry`, `command` and `usage` are templates with the fields of `Names`.

    `requires` lists distributions, to which version bounds are added later. `group` and `entry` are the group and name
    of the entry point. `command` shows the installed plugin in a shell, and `usage` says how to use it. `tests` lists
    further distributions for the tests, and `modules` lists the package's modules in addition to `__init__`.
    """

    name: str
    description: str
    requires: tuple[str, ...]
    group: str
    entry: str
    command: str
    usage: str
    tests: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()


_RUNS: Final = ("karenina",)
"""The distributions that tests need if their contract runs the command `karenina`."""

KINDS: Final = {
    kind.name: kind
    for kind in (
        PluginKind(
            "stage",
            "A stage for Karenina that counts the words in an answer.",
            ("karenina-core",),
            "karenina.stages",
            "$class_name",
            "karenina plan",
            "The plan shows the stage $class_name in its place, with the reasons.",
        ),
        PluginKind(
            "parse-stage",
            "A stage for Karenina that fills answer templates.",
            ("karenina-core", "karenina-template"),
            "karenina.stages",
            "$class_name",
            "karenina plan --set slots.parse_template=$class_name",
            'The configuration selects the stage: slots = {parse_template = "$class_name"}',
        ),
        PluginKind(
            "check",
            "A check for Karenina in which a judge fails impolite answers.",
            ("karenina-checks", "karenina-core", "pydantic>=2"),
            "karenina.stages",
            "$class_name",
            "karenina plan --set $module.enabled=true",
            "The configuration enables the check: $module.enabled = true",
        ),
        PluginKind(
            "adapter",
            "An adapter for Karenina, for the models of our own server.",
            ("karenina-core", "karenina-toolkit[http]"),
            "karenina.adapters",
            "$module.chat",
            "karenina plugins",
            "A run uses the adapter: karenina run FILE --answering $module.chat:MODEL@http://localhost:8000/",
        ),
        PluginKind(
            "primitive",
            "A primitive for Karenina, which compares a field with its ground truth.",
            ("karenina-core", "karenina-template", "pydantic>=2"),
            "karenina.plugins",
            "$name",
            "karenina primitives $module.$class_name",
            "Templates use the primitive: verify_with: $module.$class_name",
        ),
        PluginKind(
            "trait",
            "A kind of rubric trait for Karenina, with its evaluator.",
            ("karenina-core", "karenina-rubric", "pydantic>=2"),
            "karenina.plugins",
            "$name",
            "karenina traits $module.short",
            "Rubrics use the kind: {type: $module.short, name: brief, words: 50}",
        ),
        PluginKind(
            "format",
            "A benchmark file format for Karenina.",
            ("karenina-benchmark", "karenina-core"),
            "karenina.plugins",
            "$name",
            "karenina plugins",
            "Every command takes files of the format: karenina check FILE$suffix",
        ),
        PluginKind(
            "import-format",
            "An import format for Karenina, for the files of another tool.",
            ("karenina-core", "karenina-importing"),
            "karenina.plugins",
            "$name",
            "karenina plugins",
            "`karenina import FILE.jsonl -o benchmark.yaml` recognizes files of the format; `--from $name` names it.",
            tests=_RUNS,
        ),
        PluginKind(
            "command",
            "A Karenina command that prints a benchmark's longest questions.",
            ("karenina-benchmark", "karenina-core", "karenina-terminal[commands]", "typer>=0.15"),
            "karenina.plugins",
            "$name",
            "karenina $name --help",
            "Run the command: karenina $name FILE",
            tests=_RUNS,
            modules=("command",),
        ),
        PluginKind(
            "exporter",
            "An export format for Karenina, with one line per result.",
            ("karenina-core", "karenina-report"),
            "karenina.plugins",
            "$name",
            "karenina plugins",
            "Results are exported by name or by suffix: karenina export RESULTS -o FILE$suffix",
            tests=_RUNS,
        ),
        PluginKind(
            "report-section",
            "A section for Karenina's reports that shows how long the answers are.",
            ("karenina-core", "karenina-report"),
            "karenina.plugins",
            "$name",
            "karenina plugins",
            "Reports contain the section: karenina report RESULTS -o report.html",
            tests=_RUNS,
        ),
        PluginKind(
            "observer",
            "An observer for Karenina's runs, which adds a line for each result to a file.",
            ("karenina-core", "pydantic>=2"),
            "karenina.plugins",
            "$name",
            "karenina config",
            "A run is observed if the setting is given: karenina run FILE --set $module.file=lines.txt",
            tests=_RUNS,
        ),
        PluginKind(
            "price-source",
            "A price list for Karenina, for the models of our own server.",
            ("karenina-core", "karenina-engine"),
            "karenina.plugins",
            "$name",
            "karenina plugins",
            "Costs and budgets of runs use the list: karenina run FILE --dry-run",
        ),
        PluginKind(
            "executor",
            "An executor for Karenina's runs, which runs one answer after another.",
            ("karenina-core", "karenina-engine"),
            "karenina.plugins",
            "$name",
            "karenina plugins",
            "A run selects the executor: karenina run FILE --executor $name",
            tests=_RUNS,
        ),
        PluginKind(
            "panel",
            "A panel of judges for Karenina, whose verdict counts only if all of them agree.",
            ("karenina-core", "karenina-engine", "pydantic>=2"),
            "karenina.plugins",
            "$name",
            "karenina config",
            "The configuration enables the panel: karenina run FILE -j JUDGE -j JUDGE --set $module.enabled=true",
            tests=_RUNS,
        ),
    )
}
"""The plugin kinds, keyed by name."""
