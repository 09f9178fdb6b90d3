"""The kinds of plugins that `karenina new` writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class PluginKind:
    """A kind of plugin. Its texts are templates with the fields of `Names`.

    `requires` are distributions, without versions for those of Karenina; `group` and `entry` are its entry point;
    `command` shows the installed plugin, and `usage` says how to use it.
    """

    name: str
    description: str
    requires: tuple[str, ...]
    group: str
    entry: str
    command: str
    usage: str


KINDS: Final = {
    kind.name: kind
    for kind in (
        PluginKind(
            "stage",
            "A stage of Karenina that counts the words of an answer.",
            ("karenina-core",),
            "karenina.stages",
            "$class_name",
            "karenina plan",
            "The plan shows the stage $class_name in its place, with the reasons.",
        ),
        PluginKind(
            "parse-stage",
            "A stage of Karenina that fills answer templates.",
            ("karenina-core", "karenina-template"),
            "karenina.stages",
            "$class_name",
            "karenina plan --set slots.parse_template=$class_name",
            'The configuration selects the stage: slots = {parse_template = "$class_name"}',
        ),
        PluginKind(
            "check",
            "A check of Karenina: a judge fails impolite answers.",
            ("karenina-checks", "karenina-core", "pydantic>=2"),
            "karenina.stages",
            "$class_name",
            "karenina plan --set $module.enabled=true",
            "The configuration turns the check on: $module.enabled = true",
        ),
        PluginKind(
            "adapter",
            "An adapter of Karenina for models of our own server.",
            ("karenina-core", "karenina-toolkit[http]"),
            "karenina.adapters",
            "$module.chat",
            "karenina plugins",
            "A run uses the adapter: karenina run FILE --answering $module.chat:MODEL@http://localhost:8000/",
        ),
        PluginKind(
            "primitive",
            "A primitive of Karenina, which compares a field with its truth.",
            ("karenina-core", "karenina-template", "pydantic>=2"),
            "karenina.plugins",
            "$name",
            "karenina primitives $module.$class_name",
            "Templates use the primitive: verify_with: $module.$class_name",
        ),
        PluginKind(
            "trait",
            "A kind of rubric trait of Karenina, with its evaluator.",
            ("karenina-core", "karenina-rubric", "pydantic>=2"),
            "karenina.plugins",
            "$name",
            "karenina traits $module.short",
            "Rubrics use the kind: {type: $module.short, name: brief, words: 50}",
        ),
        PluginKind(
            "format",
            "A file format of benchmarks for Karenina.",
            ("karenina-benchmark", "karenina-core"),
            "karenina.plugins",
            "$name",
            "karenina plugins",
            "Every command takes files of the format: karenina check FILE$suffix",
        ),
    )
}
"""The kinds by name."""
