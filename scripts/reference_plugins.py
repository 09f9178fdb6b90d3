"""The reference pages for what plugins add: settings, primitives, traits, stages, hooks, adapters."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Collection, Iterable, Sequence
from typing import get_args

from markdown_text import as_json, code, default, field_table, page, prose, table
from pydantic_core import to_jsonable_python

from karenina_cli.commands.config_command import nested_fields
from karenina_cli.commands.kinds_command import ListedKind, list_primitives, list_trait_kinds, meaning_of
from karenina_cli.commands.plugins_command import example_of_hook
from karenina_cli.output.field_listing import list_fields, type_of
from karenina_core.artifacts import keys as key_module
from karenina_core.artifacts.artifact import AllArtifacts, AnyKey, ArtifactKey, EvaluationMode, Slot
from karenina_core.artifacts.keys import ArtifactKeys, standard_keys
from karenina_core.config import Setting, all_settings
from karenina_core.models.model import ModelConfig
from karenina_core.plugins import active_plugins
from karenina_core.stage_selection import SLOT_RULES
from karenina_core.stages.stage import RegisteredStage, Stage, registered_stages
from karenina_engine.model_settings import allowed_in_files, model_settings
from karenina_toolkit.hook_policy import policy_of
from karenina_toolkit.plugin_lookup import registered_adapters

_FROM_FILES = {
    "any": "A benchmark file may set it.",
    "never": "A benchmark file needs the user's trust to set it.",
}


def settings() -> str:
    """Make the page on all settings, grouped by owner."""
    owned = all_settings()
    parts = [
        "Every name of a configuration. [Running](../how-to/running.md#configuration) says where they are set; "
        "`karenina config` prints the same information for your installation.",
        table(
            ["name", "default", "owner"],
            [[f"[{code(one.name)}](#{one.name})", _default(one), one.owner] for one in owned.values()],
        ),
    ]
    for owner in dict.fromkeys(one.owner for one in owned.values()):
        parts.append(f"## {owner}")
        parts += [_setting(one) for one in owned.values() if one.owner == owner]
    return page("Settings", *parts)


def _setting(setting: Setting) -> str:
    """Make the section on a setting, with the fields of the models in its value."""
    trust = _FROM_FILES.get(
        str(allowed_in_files(setting)), "A benchmark file may set some of its values; see its fields."
    )
    facts = [
        ["type", prose(type_of(setting.info))],
        ["default", _default(setting)],
        ["environment", ", ".join(map(code, setting.environment))],
        ["in files", trust],
    ]
    parts = [f"### {setting.name}", prose(setting.meaning), table(["", ""], facts)]
    others = model_settings().keys() - {"answering_models"}
    for title, fields in nested_fields(setting).items():
        if setting.name in others or "interface" in title:
            continue
        parts += [f"Fields of {code(title)}:", field_table(fields)]
    if setting.name in others:
        parts.append("Its models have the fields of [`answering_models`](#answering_models).")
    return "\n\n".join(parts)


def _default(setting: Setting) -> str:
    """Return a setting's default value as Markdown."""
    value = to_jsonable_python(setting.default, fallback=str)
    return default(as_json(value))


def primitives() -> str:
    """Return the page that documents all primitives."""
    return page(
        "Primitives",
        "A primitive compares the value that a judge extracted with the ground truth. A file names the primitive "
        "under `verify_with`; in Python, primitives are in `karenina.templates`. `karenina primitives` prints those "
        "in your installation.",
        *_kinds(list_primitives()),
    )


def traits() -> str:
    """Return the page that documents all trait kinds."""
    return page(
        "Kinds of traits",
        "A rubric trait scores a quality that has no correct answer. A file names the trait's kind under `type`; "
        "`karenina traits` prints those in your installation.",
        *_kinds(list_trait_kinds()),
    )


def _kinds(kinds: Iterable[ListedKind]) -> list[str]:
    """Return a section for each primitive or trait kind."""
    return [
        "\n\n".join(
            [
                f"## {kind.name}",
                f"From {kind.owner}.",
                prose(kind.meaning),
                field_table(kind.fields),
                f"```yaml\n{kind.usage}\n```",
            ]
        )
        for kind in kinds
    ]


def stages() -> str:
    """Make the page on all stages, in the order of their slots."""
    found = registered_stages(active_plugins())
    slots = [
        [
            str(slot.value),
            code(slot.config_name),
            _modes(SLOT_RULES[slot].modes),
            "one stage" if SLOT_RULES[slot].single else "any number",
            _keys(SLOT_RULES[slot].produces),
            ", ".join(f"[{one.stage.name}](#{one.stage.name.lower()})" for one in found if one.slot is slot),
        ]
        for slot in Slot
    ]
    parts = [
        "A stage is one step from a question to its result. It declares what it reads and produces, from which "
        "`karenina plan` makes the order. [Plugins](../how-to/plugins.md) shows how to add one.",
        "## Slots",
        table(["slot", "name", "modes", "takes", "must produce", "stages"], slots),
    ]
    for slot in (*Slot, None):
        parts += [_stage(one) for one in found if one.slot is slot]
    return page("Stages", *parts)


def _modes(modes: Collection[str]) -> str:
    """Format evaluation modes as Markdown, or as "all"."""
    every: tuple[str, ...] = get_args(EvaluationMode)
    return "all" if len(modes) == len(every) else ", ".join(code(mode) for mode in every if mode in modes)


def _stage(one: RegisteredStage) -> str:
    """Make the section on a stage, with its declarations and conditions."""
    stage = one.stage
    settings = [
        f"[{code(name)}](settings.md#{name})" for name in (stage.settings.model_fields if stage.settings else ())
    ]
    facts = [
        ["distribution", one.distribution],
        ["slot", code(one.slot.config_name) if one.slot else "none: only its relations place it"],
        ["runs", "once for each judge" if stage.scope == "item" else "once for all judges of an answer"],
        ["requires (skipped without them)", _keys(stage.requires)],
        ["reads if they exist", _keys(stage.optional)],
        ["produces", _keys(stage.produces)],
        ["revises", _keys(stage.revises)],
        ["settings of its distribution", ", ".join(settings)],
        ["prompts", ", ".join(code(task.name) for task in stage.prompts)],
        ["outcome if it fails", code(stage.error_outcome.value)],
    ]
    parts = [f"## {stage.name}", prose(meaning_of(stage)), table(["", ""], [fact for fact in facts if fact[1]])]
    conditions = [_condition(stage, "included", "In the plan"), _condition(stage, "should_run", "Runs")]
    return "\n\n".join([*parts, *filter(None, conditions)])


def _condition(stage: type[Stage], method: str, what: str) -> str:
    """Return the docstring of a stage's own method, labelled `what`.

    Returns an empty string if the stage does not define it.
    """
    text = vars(stage)[method].__doc__ if method in vars(stage) else None
    return f"**{what}**: {prose(inspect.cleandoc(text))}" if text else ""


def _keys(keys: Iterable[AnyKey]) -> str:
    """Return links to artifacts, sorted by name, or "every artifact" for `ANY`."""
    if isinstance(keys, AllArtifacts):
        return "every artifact"
    return ", ".join(f"[{code(name)}](artifacts.md#{_anchor(name)})" for name in sorted(key.name for key in keys))


def _anchor(name: str) -> str:
    """Return the anchor for an artifact's heading."""
    return name.replace(".", "")


def artifacts() -> str:
    """Make the page on all artifacts: the standard keys, and those of stages in plugins."""
    found = registered_stages(active_plugins())
    keys = dict(standard_keys())
    keys |= {key.name: key for one in found for key in one.stage.produces if key.name not in keys}
    constants = {key.name: name for name, key in _constants()}
    declared = _declared_types()
    types = {name: declared[constant] for name, constant in constants.items()}
    parts = [
        "The values that stages pass to each other. A key with a field of the result fills that field when a stage "
        "sets the artifact; None is always accepted and means that there is no value, for a known reason."
    ]
    for name, key in keys.items():
        facts = [
            ["type", code(types.get(name, key.type.__name__))],
            ["in Python", code(f"ArtifactKeys.{constants[name]}" if name in constants else repr(key))],
            ["field of the result", code(f"result.{key.section}.{key.field}" if key.section else "")],
            ["produced by", _stages_with(found, "produces", key)],
            ["revised by", _stages_with(found, "revises", key)],
            ["required by", _stages_with(found, "requires", key)],
            ["read by", _stages_with(found, "optional", key)],
        ]
        parts += [f"## {name}", table(["", ""], [fact for fact in facts if fact[1]])]
    return page("Artifacts", *parts)


def _declared_types() -> dict[str, str]:
    """Return the type of each key in `ArtifactKeys` as written in the source, such as `list[Message]`."""
    found, aliases = {}, {}
    for node in ast.walk(ast.parse(inspect.getsource(key_module))):
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Call(func=ast.Subscript(slice=type))):
                found[name] = ast.unparse(type).strip("'")
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript() as type):
                aliases[name] = ast.unparse(type)
    alias = re.compile(rf"\b({'|'.join(aliases)})\b")
    return {name: alias.sub(lambda named: aliases[named[1]], type) for name, type in found.items()}


def _constants() -> list[tuple[str, AnyKey]]:
    """Return the keys in `ArtifactKeys`, each with the name of its constant."""
    return [(name, key) for name, key in vars(ArtifactKeys).items() if isinstance(key, ArtifactKey)]


def _stages_with(found: Sequence[RegisteredStage], relation: str, key: AnyKey) -> str:
    """Return links to the stages that declare the key under `relation`, without those that declare all."""
    names = [
        one.stage.name
        for one in found
        if not isinstance(getattr(one.stage, relation), AllArtifacts) and key in getattr(one.stage, relation)
    ]
    return ", ".join(f"[{name}](stages.md#{name.lower()})" for name in names)


def hooks() -> str:
    """Make the page on all hooks, grouped by distribution."""
    owners = active_plugins().specifications.owners
    parts = [
        "The functions that a plugin may implement, each marked with `@hookimpl`. "
        "[Plugins](../how-to/plugins.md) shows a whole plugin; `karenina plugins --hooks` prints the hooks in your "
        "installation. [Changes to hooks](../explanation/hook-policy.md) states what stable and provisional mean."
    ]
    for owner in owners:
        for name in owner.hooks:
            function = getattr(owner.module, name)
            policy = policy_of(function)
            parts += [
                f"## {name}",
                f"From {owner.info.distribution}, {code(owner.module.__name__)}; {policy.stability} since "
                f"{policy.since}.",
                f"```python\n{example_of_hook(function)}\n```",
                prose(inspect.getdoc(function) or ""),
            ]
    return page("Hooks", *parts)


def adapters() -> str:
    """Make the page on all adapters, with their ports and settings."""
    parts = [
        "An adapter connects models of one `interface`. `karenina plugins` prints those in your installation.",
        "All of them take the fields of a model:",
        field_table(list_fields(ModelConfig)),
    ]
    for one in registered_adapters(active_plugins()):
        spec = one.spec
        facts = [
            ["distribution", one.distribution],
            ["ports", ", ".join(spec.ports)],
            ["agents", code(spec.tier.value)],
            ["a benchmark file may choose it", "yes" if spec.allowed_in_files else "only with the user's trust"],
        ]
        parts += [f"## {spec.interface}", prose(spec.description), table(["", ""], facts)]
        if spec.extra is not None:
            parts += ["Fields of `extra`:", field_table(list_fields(spec.extra))]
    return page("Adapters", *parts)
