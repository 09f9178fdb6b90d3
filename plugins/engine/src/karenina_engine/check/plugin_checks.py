"""Checks of the installed plugins and of the values that benchmarks set for plugins.

Required plugins must work, and settings must not request blocked stages. All packages of this project should come from
the same release. Values for plugins in questions, traits and template fields must be valid, and a plugin must own them.
"""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ValidationError

from karenina_core.artifacts.artifact import STAGE_HOOKS
from karenina_core.artifacts.declarations import why_refused
from karenina_core.catalog import CORE, read_catalog
from karenina_core.config import all_settings
from karenina_core.config.setting_owners import not_loaded, settings_models
from karenina_core.data.trust import NO_TRUST, Trust
from karenina_core.errors import ConfigError
from karenina_core.namespaces import describe_unknown, namespace_of, owned_fields, read_owned, third_parties
from karenina_core.plugins import active_plugins
from karenina_core.plugins.discovery import GROUPS, canonical, installed
from karenina_core.plugins.specifications import GROUP as SPECIFICATIONS
from karenina_core.stage_selection import SLOT_RULES
from karenina_core.stages import hookspecs
from karenina_core.stages.stage import registered_stages
from karenina_core.text import did_you_mean, list_names
from karenina_template.question_template import field_options_of
from karenina_toolkit.hook_policy import policy_of
from karenina_toolkit.plugin_lookup import unknown_places

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_core.artifacts.artifact import Slot
    from karenina_core.config import VerificationConfig
    from karenina_core.data.question import Question
    from karenina_core.data.rubrics import Rubric
    from karenina_core.plugins import PluginInfo, Plugins
    from karenina_core.stages.stage import Stage


Kind = Literal["question_fields", "trait_fields", "template_fields"]
Models = Mapping[str, type[BaseModel]]
Given = tuple[Kind, str, Mapping[str, object]]
"""The plugin values of a question, trait or template field: the kind, the name, and the values by full name."""


logger = logging.getLogger("karenina")


def check_selection(plugins: Plugins, config: VerificationConfig) -> None:
    """Raise `ConfigError` if the `[plugins]` table requires a plugin that is missing or broken, or if a changed setting
    belongs to a plugin that is not used.
    """
    problems = [problem for name in config.core.plugins.require for problem in _requirement_problems(plugins, name)]
    problems += settings_without_effect(plugins, config)
    if problems:
        raise ConfigError(problems)


def warn_about_plugins(plugins: Plugins) -> None:
    """Log warnings about broken and misplaced plugins, which are not used in the run, misspelt places of stages,
    deprecated hooks and mixed releases.
    """
    _warn_of_broken(plugins)
    for problem in [*misplaced_plugins(), *misspelt_places(plugins), *deprecated_hooks(plugins)]:
        logger.warning("%s", problem)
    _warn_of_mixed_releases(plugins)


def _warn_of_broken(plugins: Plugins) -> None:
    """Log a warning for each distribution with broken plugins, with advice on how to fix it."""
    for owner, names, failure in broken_plugins(plugins):
        logger.warning(
            "%s of %s cannot be used and %s left out: %s. Fix or uninstall the distribution, or block its plugins "
            "with [plugins] block = [%s]",
            ", ".join(names),
            owner,
            "is" if len(names) == 1 else "are",
            failure,
            ", ".join(f'"{name}"' for name in names),
        )


def _warn_of_mixed_releases(plugins: Plugins) -> None:
    """Log a warning if the version of any of this project's packages differs from the core's."""
    versions = loaded_distributions(plugins)
    release = versions.get(CORE)
    differing = [name for name, version in versions.items() if version != release and name in read_catalog()["members"]]
    if release is not None and differing:
        logger.warning(
            "some installed packages are from another release than karenina-core: %s (karenina-core is %s). Only "
            "packages from the same release are tested together; run pip install %s",
            ", ".join(f"{name} {versions[name]}" for name in differing),
            release,
            " ".join(f"{name}=={release}" for name in differing),
        )


def broken_plugins(plugins: Plugins) -> list[tuple[str, list[str], str]]:
    """Return the broken plugins, grouped by distribution and cause. Each entry contains the distribution with its
    version, the names of its plugins, and the cause.
    """
    broken: dict[tuple[str, str], list[str]] = {}
    for info in plugins.describe():
        if info.state in ("failed", "conflict"):
            key = (f"{info.distribution} {info.version}", info.failure or "unknown")
            broken.setdefault(key, []).append(info.name)
    return [(owner, list(dict.fromkeys(names)), failure) for (owner, failure), names in broken.items()]


def misplaced_plugins() -> list[str]:
    """Return a message for each installed entry point that is not used, because its group looks like one of Karenina's
    but does not exist.
    """
    known = (*GROUPS, SPECIFICATIONS)
    unknown = [group for group in installed().groups if group not in known]
    groups = [group for group in unknown if group.startswith("karenina.") or get_close_matches(group, known, 1, 0.8)]
    return [
        f"the entry point {point.name!r}{f' of {point.dist.name}' if point.dist is not None else ''} is not used, "
        f"because it is in the unknown group {group!r}{did_you_mean(group, known)}"
        for group in sorted(groups)
        for point in sorted(installed().select(group=group))
    ]


def misspelt_places(plugins: Plugins) -> list[str]:
    """Return a message for each entry of a stage's `after` and `before` that has no effect, because it is similar to
    the name of a stage but no stage has it. Names of stages that are not installed are no mistake.
    """
    stages = registered_stages(plugins)
    return [
        f"the stage {one.stage.name} of {one.distribution} {one.version}: {text}{near}"
        for one in stages
        for text, near in unknown_places(one.stage, stages)
        if near
    ]


def deprecated_hooks(plugins: Plugins) -> list[str]:
    """Return a message for each distribution that implements a deprecated hook. The message names the replacement."""
    specs = [getattr(owner.module, name) for owner in plugins.specifications.owners for name in owner.hooks]
    deprecated = [spec for spec in specs if policy_of(spec).deprecated is not None]
    return [
        f"{distribution} implements the hook {spec.__name__}, which is deprecated: {policy_of(spec).deprecated}"
        for spec in deprecated
        for distribution in sorted(
            {
                f"{implementation.distribution} {implementation.version}"
                for implementation in plugins.implementations(spec)
            }
        )
    ]


def loaded_distributions(plugins: Plugins) -> dict[str, str]:
    """Return the versions of the distributions whose plugins are in use, sorted by name."""
    owners = [owner.info for owner in plugins.specifications.owners]
    infos = [*owners, *(info for info in plugins.describe() if info.state == "loaded")]
    return dict(sorted({info.distribution: info.version for info in infos}.items()))


def warn_about_absent(journal: Path, used: Mapping[str, str], present: Collection[str]) -> None:
    """Log a warning if the last run in `journal` used distributions that are not among those `present`. `used` contains
    their versions.
    """
    absent = [f"{name} {version}" for name, version in used.items() if name not in present]
    if absent:
        verb, them = ("is", "it") if len(absent) == 1 else ("are", "them")
        why = f"plugins of {list_names(absent)}, which {verb} not in use now, so results may differ"
        logger.warning("the last run in %s used %s; install or unblock %s", journal, why, them)


def _cure_for_missing(name: str, infos: Sequence[PluginInfo]) -> str:
    """Return advice for a required plugin that is not installed, to end an error message: a similar name, or the
    installed distributions.
    """
    distributions = sorted({info.distribution for info in infos})
    names = {*distributions, *(info.name for info in infos)}
    if get_close_matches(name, names, n=1, cutoff=0.6):
        return did_you_mean(name, names)
    installed = f". Installed distributions with plugins: {', '.join(distributions)}" if distributions else ""
    return f". Install it, or remove it from 'require'{installed}"


def _requirement_problems(plugins: Plugins, name: str) -> list[str]:
    """Return the reasons why a required plugin or distribution cannot be used, if there are any."""
    infos = plugins.describe()
    named = [info for info in infos if info.is_named_in([name])]
    if not named:
        owner = canonical(name)
        why = (
            f"but {plugins.why_absent(owner)}"
            if owner in read_catalog()["members"]
            else f"which is not installed{_cure_for_missing(name, infos)}"
        )
        return [f"plugins.require names {name!r}, {why}"]
    return [
        f"plugins.require names {name!r}, but {info.name} of {info.distribution} {info.version} cannot be used: "
        f"{info.failure}"
        for info in named
        if info.state != "loaded"
    ]


def blocked_stages(plugins: Plugins) -> list[tuple[Stage, Slot | None]]:
    """Return instances of the stages blocked by `[plugins]` with their slots, sorted by name. Broken ones, and those
    with the name of a loaded stage, are omitted.

    Plugins blocked by the environment variable `KARENINA_PLUGINS` are never imported, so their stages are not included
    either.
    """
    named = [info for info in plugins.describe() if info.kind == "stage"]
    used = {info.name for info in named if info.state == "loaded"}
    blocked = {(info.name, info.distribution) for info in named if info.state == "blocked" and info.name not in used}
    offers = [
        (_name(offer.value), offer, slot)
        for room in ((active_plugins(), plugins) if blocked else ())
        for hook, slot in STAGE_HOOKS.items()
        for offer in room.offers(getattr(hookspecs, hook))
    ]
    stages = {name: (offer.value, slot) for name, offer, slot in offers if (name, offer.distribution) in blocked}
    usable = [stages[name] for name in sorted(stages) if why_refused(stages[name][0]) is None]
    return [(stage(), slot) for stage, slot in usable]


def settings_without_effect(plugins: Plugins, config: VerificationConfig) -> Iterator[str]:
    """Yield a message for each changed setting whose plugin is not in use. Settings of loaded stages are not checked,
    because whether a stage runs depends on the question.
    """
    of_stages = {offer.value.settings for offer in active_plugins().of_kind("stage")}
    used = {model for model, _ in settings_models(plugins)} | of_stages
    owned = all_settings()
    for name, value in config.given().items():
        if owned[name].model not in used and owned[name].owner != CORE and value != owned[name].default:
            yield f"{name} has no effect: {plugins.why_absent(owned[name].owner)}"


def requested_but_blocked(
    blocked: list[tuple[Stage, Slot | None]], config: VerificationConfig, question: Question
) -> Iterator[str]:
    """Yield a message for each blocked stage that the user's settings would otherwise add to the plan. A stage is
    ignored if the evaluation mode does not use its slot, or if `slots` lists the stages for its slot.
    """
    for stage, slot in blocked:
        if slot is not None and (
            config.core.evaluation_mode not in SLOT_RULES[slot].modes or slot.config_name in config.core.slots
        ):
            continue
        names = _requesting_settings(stage, config, question)
        if names:
            listed = ", ".join(names)
            yield (
                f"the stage {stage.name} is blocked under [plugins] but requested by {listed}; change one of the two"
            )


def _name(stage: object) -> str:
    """Return the stage's name, or an empty string if the object has none."""
    return str(getattr(stage, "name", ""))


def _requesting_settings(stage: Stage, config: VerificationConfig, question: Question) -> list[str]:
    """Return the stage's own settings that, if they had their defaults, would remove the stage from the plan. If only
    several of them together add it, all of its changed settings are returned.
    """
    own = owned_fields([stage.settings])
    defaults = {name: setting.default for name, setting in all_settings().items() if name in own}
    changed = {name: value for name, value in config.given().items() if name in defaults and value != defaults[name]}
    if not changed or not _includes(stage, config, question):
        return []
    if _includes(stage, config, question, **{name: defaults[name] for name in changed}):
        return []
    alone = [name for name in changed if not _includes(stage, config, question, **{name: defaults[name]})]
    return alone or list(changed)


def _includes(stage: Stage, config: VerificationConfig, question: Question, **changes: object) -> bool:
    """Return whether the plan includes the stage with `changes` applied to the configuration. If the changes make the
    configuration invalid, returns False. If it is invalid even without changes, returns True.
    """
    try:
        return bool(stage.included(config.with_values(**changes) if changes else config, question))
    except (ConfigError, ValueError):
        return not changes


def kinds_with(fields: type[BaseModel]) -> tuple[str, ...]:
    """Return the kinds of traits that can have the fields in `fields`, which is a stage's `trait_settings`. The class
    attribute `trait_kinds` lists these kinds. By default, only LLM traits can have the fields.
    """
    kinds: tuple[str, ...] = getattr(fields, "trait_kinds", ("llm",))
    return kinds


class OwnedFields:
    """The fields that belong to installed plugins.

    `models` contains the pydantic models that declare the fields, by kind and full name.
    """

    def __init__(self, plugins: Plugins) -> None:
        stages = [stage.stage for stage in registered_stages(plugins)]
        self.models: Mapping[Kind, Models] = {
            "question_fields": owned_fields(stage.question_settings for stage in stages),
            "trait_fields": owned_fields(stage.trait_settings for stage in stages),
            "template_fields": owned_fields(stage.field_settings for stage in stages),
        }

    def problems(self, question: Question, trust: Trust = NO_TRUST) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield a message and the path of the value for each problem in a question's plugin values. A name that no
        installed plugin owns is a problem, even if the plugin is merely missing. In traits, it is only if it contains a
        dot.

        Options in a template are not checked if the template cannot be loaded, for example because `trust` does not
        cover its code.
        """
        yield from self.problems_in(given_fields(question, trust))
        if question.rubric is not None or question.dynamic_rubric is not None:
            yield from self.misplaced(question.rubric, question.dynamic_rubric)

    def misplaced(self, *rubrics: Rubric | None) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield a message and the field's path for each plugin field that is set on the wrong kind of trait."""
        models = self.models["trait_fields"]
        for rubric in rubrics:
            for trait in rubric.traits if rubric is not None else ():
                for name in trait.extra.keys() & models.keys():
                    kinds = kinds_with(models[name])
                    if trait.type not in kinds:
                        only = " and ".join(kinds)
                        yield (
                            f"trait {trait.name!r}: {name} is for {only} traits, not for {trait.type}; remove it",
                            (name,),
                        )

    def problems_in(self, given: Iterable[Given]) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield the message and the path of the value for each problem in `given`, which has tuples of a kind of
        fields, the place that sets them, and their values by name. In traits, an unknown name is only a problem if it
        contains a dot.
        """
        for kind, place, values in given:
            models = self.models[kind]
            path = ("answer", place) if kind == "template_fields" else ()
            where = f"field {place!r}: " if kind == "template_fields" else f"trait {place!r}: " if place else ""
            for name in values:
                if name not in models and (kind != "trait_fields" or "." in name):
                    why = describe_unknown(name, models, read_catalog()[kind]) + not_loaded()
                    yield f"{where}{name}: {why}", (*path, name)
            for model in {models[name]: None for name in values if name in models}:
                try:
                    read_owned(model, values)
                except ValidationError as error:
                    for detail in error.errors(include_url=False):
                        what = detail["msg"].removeprefix("Value error, ")
                        if detail["loc"]:
                            name = namespace_of(model) + ".".join(map(str, detail["loc"]))
                            yield f"{where}{name}: {what}", (*path, name)
                        else:  # a rule for several fields, which its message names
                            yield f"{where}{what}", path


def given_fields(question: Question, trust: Trust = NO_TRUST) -> Iterator[Given]:
    """Yield the plugin values of a question, its traits and its template fields, in this order, each with their kind
    and the name of the trait or field. Template fields are omitted if the template cannot be loaded, for example
    because `trust` does not cover its code.
    """
    if question.extra:
        yield "question_fields", "", question.extra
    if question.rubric is not None or question.dynamic_rubric is not None:
        yield from trait_fields(question.rubric, question.dynamic_rubric)
    if _may_have_options(question):
        for name, options in field_options_of(question, trust).items():
            yield "template_fields", name, options


def trait_fields(*rubrics: Rubric | None) -> Iterator[Given]:
    """Yield `trait_fields`, the trait's name and its plugin values for each trait in `rubrics` that has any. Rubrics
    that are None are ignored.
    """
    for rubric in rubrics:
        for trait in rubric.traits if rubric is not None else ():
            if trait.extra:
                yield "trait_fields", trait.name, trait.extra


def _may_have_options(question: Question) -> bool:
    """Return whether the question's template may set options for plugins. The template is not loaded, so there may be
    none even if this returns True. If it returns False, there are none.
    """
    if question.answer_class is not None:
        return True
    source = question.answer_template or ""
    text = source if source.isascii() else unicodedata.normalize("NFKC", source)  # as Python reads names
    return any(map(text.__contains__, (*third_parties(), *read_catalog()["template_fields"])))
