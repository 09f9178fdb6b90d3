"""`karenina plugins`: list the installed plugins and whether they can be used."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from textwrap import indent
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from karenina_cli.input import completion_values
from karenina_core.errors import ConfigError
from karenina_terminal.options import PrintJSON
from karenina_terminal.screen import ExitCode, get_screen, print_wrapped
from karenina_toolkit.printable import clean, quantity

if TYPE_CHECKING:
    from karenina_core.models.adapters import AdapterSpec
    from karenina_core.plugins import PluginInfo
    from karenina_terminal.screen import Screen

NOT_INSTALLED = "not installed"
_RESULTS = {"ok": ("ok", "green"), "warning": ("warning", "yellow"), "problem": ("failed", "red")}
_STYLES = {"loaded": "green", "failed": "red", "conflict": "red", "blocked": "yellow"}


def list_plugins(
    ctx: typer.Context,
    as_json: PrintJSON = False,
    hooks: Annotated[
        bool, typer.Option("--hooks", help="List the hooks that plugins can implement, instead of the plugins.")
    ] = False,
    check: Annotated[
        str | None,
        typer.Option(
            "--check",
            metavar="NAME",
            help="Check an installed package, identified by the name of its distribution, import package or plugin.",
            autocompletion=completion_values.plugin_packages,
        ),
    ] = None,
) -> None:
    """List the installed plugins, and the reasons why any of them cannot be used.

    Also lists this project's adapters that are not installed, and hook specifications that cannot be used. `--hooks`
    lists the hooks, each with the distribution that specifies it, whether it is stable or provisional, and a sample
    implementation with its arguments and imports. `--check` tests a single installed package, prints a line for each
    check, and exits with 2 if a check failed.
    """
    from karenina_engine.check.plugin_checks import misplaced_plugins

    screen = get_screen(ctx)
    with screen.report_errors():
        if check is not None:
            if hooks:
                raise ConfigError(["--check and --hooks cannot be used together; use only one of them"])
            _check_package(ctx, check, as_json)
            return
        if hooks:
            _list_hooks(screen, as_json)
            return
        described = describe_plugins()
        if as_json:
            screen.json({"plugins": described})
            return
        kind = None
        for plugin in described:
            if plugin["kind"] != kind:
                kind = plugin["kind"]
                screen.out.print(Text(f"{kind.capitalize()}s", "bold"))
            _print_plugin(screen, plugin)
        for plugin in described:
            if plugin.get("available") is False:  # printed below, without wrapping, so that the command can be copied
                screen.out.print(Text(clean(f"{plugin['name']} is not available: {plugin['reason']}")), soft_wrap=True)
            for reason in plugin.get("ignored", ()):
                screen.out.print(Text(clean(f"{plugin['name']}: {reason}")), soft_wrap=True)
        for problem in misplaced_plugins():
            screen.out.print(
                Text(clean(f"{problem}; correct pyproject.toml, and install the package again")), soft_wrap=True
            )


def _print_plugin(screen: Screen, plugin: dict[str, Any]) -> None:
    """Print a plugin from `describe_plugins` on one line, with its details on the next."""
    owner = f"{plugin['distribution']} {plugin['version'] or ''}".rstrip()
    line = (
        Text(f"  {plugin['name']}  ")
        + Text(plugin["state"], _STYLES.get(plugin["state"], ""))
        + Text(f"  {owner}", "dim")
    )
    print_wrapped(screen.out, line)
    details = _details(plugin)
    if details:
        print_wrapped(screen.out, Text(clean(f"      {details}")))


def _check_package(context: typer.Context, name: str, as_json: bool) -> None:
    """Check an installed package, print the findings, and exit with 2 if a check failed."""
    from karenina_cli.app import check_commands
    from karenina_core.plugins import active_plugins
    from karenina_terminal.command_hook import failed_commands
    from karenina_toolkit.package_check.check import check_package
    from karenina_toolkit.package_check.metadata import Finding

    screen = get_screen(context)
    package, findings = check_package(name)
    who = f"{package.name} {package.distribution.version}"
    failures = {info.failure for info in failed_commands(active_plugins()) if info.distribution == package.name}
    findings += [Finding("Commands", "problem", f"karenina_commands failed: {failure}") for failure in failures]
    findings += check_commands(context, who)
    problems = sum(finding.state == "problem" for finding in findings)
    if as_json:
        screen.json(
            {
                "distribution": package.name,
                "version": package.distribution.version,
                "problems": problems,
                "findings": [finding.to_json() for finding in findings],
            }
        )
    else:
        screen.out.print(Text(clean(who), "bold"))
        for finding in findings:
            word, style = _RESULTS[finding.state]
            line = Text(f"{word:<8}", style) + Text(clean(f"{finding.area}: {finding.text}"))
            screen.out.print(line, soft_wrap=True)
        if not problems:
            screen.out.print("No checks failed.")
    if problems:
        screen.note(f"{quantity(problems, 'check')} failed for {who}.")
        raise typer.Exit(ExitCode.BAD_INPUT)


def _list_hooks(screen: Screen, as_json: bool) -> None:
    """Print each hook with its stability, its description and a sample implementation."""
    from karenina_core import plugins
    from karenina_toolkit.hook_policy import policy_of
    from karenina_toolkit.plugin_lookup import specified_hooks

    active = plugins.active_plugins()
    specs = {name: getattr(owner.module, name) for owner in active.specifications.owners for name in owner.hooks}
    policies = [(hook, policy_of(specs[hook.name])) for hook in specified_hooks(active)]
    if as_json:
        examples = {name: example_of_hook(spec) for name, spec in specs.items()}
        screen.json(
            {
                "hooks": [
                    {**hook._asdict(), **asdict(policy), "example": examples[hook.name]} for hook, policy in policies
                ]
            }
        )
        return
    for hook, policy in policies:
        line = Text(clean(f"{hook.name}  ({hook.distribution} {hook.version})"), "bold")
        line += Text(clean(f"  {policy.stability} since {policy.since}"), "not bold dim")
        print_wrapped(screen.out, line)
        print_wrapped(screen.out, Text(clean(indent(hook.description, "    "))))
        if policy.deprecated is not None:
            print_wrapped(screen.out, Text(clean(f"    Deprecated: {policy.deprecated}"), "yellow"))
        example = indent(example_of_hook(specs[hook.name]), "        ")
        screen.out.print(Text(clean(f"\n{example}\n"), "dim"), soft_wrap=True)


def example_of_hook(specification: Callable[..., Any]) -> str:
    """Return a sample implementation of a hook, with imports, a signature and a return statement.

    Types are looked up in the source of the module that specifies the hook, because it may import them only under
    `TYPE_CHECKING`.
    """
    signature = str(inspect.signature(specification)).replace("'", "")  # annotations are strings
    module = inspect.getmodule(specification)
    names = set(re.findall(r"[A-Za-z_]\w*", signature))
    imports: dict[str, set[str]] = {"karenina_core": {"hookimpl"}}
    lines: set[str] = set()
    for node in ast.walk(ast.parse(inspect.getsource(module) if module is not None else "")):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            types = {name.name for name in node.names if name.name in names}
        elif isinstance(node, ast.ClassDef):
            types = {node.name} & names
        else:
            types = set()
            if isinstance(node, ast.Import):
                lines |= {f"import {name.name}" for name in node.names if name.name in names}
        if types:
            imports.setdefault(str(getattr(node, "module", specification.__module__)), set()).update(types)
    lines |= {f"from {source} import {', '.join(sorted(types))}" for source, types in imports.items()}
    offered = re.fullmatch(r".*-> Sequence\[(?:type\[(\w+)\]|(\w+))\]", signature)
    body = "..." if offered is None else f"return [My{offered[1]}]" if offered[1] else f"return [{offered[2]}(...)]"
    code = f"@hookimpl\ndef {specification.__name__}{signature}:\n    {body}"
    return "\n".join([*sorted(lines), "", "", code])


def describe_plugins() -> list[dict[str, Any]]:
    """Return all plugins as JSON-compatible dicts with name, kind, distribution, version, state and failure, sorted by
    kind and name. This project's adapters are included even if they are not installed.

    Adapters also have `description`, `tier`, `ports`, `available` and `reason`, the last of which explains why an
    adapter is not available. `ignored` lists hook implementations that have no effect, with the reasons. Adapters of
    this project that are not installed have the state `not installed` and no version.
    """
    from karenina_core import plugins
    from karenina_core.stages.stage import registered_stages
    from karenina_terminal.command_hook import failed_commands
    from karenina_toolkit.package_check.offers import reject_wrong_offers
    from karenina_toolkit.plugin_lookup import registered_adapters

    current = plugins.active_plugins()
    reject_wrong_offers(current)
    registered_stages(current)
    adapters = {
        (adapter.spec.interface, adapter.distribution): adapter.spec for adapter in registered_adapters(current)
    }
    described = []
    without_commands = {(info.name, info.distribution): info for info in failed_commands(current)}
    for info in current.describe():
        plugin = _plugin_json(without_commands.get((info.name, info.distribution), info))
        spec = adapters.get((info.name, info.distribution)) if info.kind == "adapter" else None
        if spec is not None:
            reason = _unavailable_reason(spec)
            plugin |= {
                "description": spec.description,
                "tier": spec.tier.value,
                "ports": list(spec.ports),
                "available": reason is None,
                "reason": reason,
            }
        described.append(plugin)
    there = {entry["name"] for entry in described if entry["kind"] == "adapter"}
    return sorted(
        [*described, *_not_installed(there)], key=lambda entry: (entry["kind"], entry["name"], entry["distribution"])
    )


def _unavailable_reason(spec: AdapterSpec) -> str | None:
    """Return the reason why the adapter cannot be used, or None if it can.

    If the adapter's own check raises an exception, that is a reason too.
    """
    try:
        return spec.unavailable() if spec.unavailable is not None else None
    except Exception as error:
        return f"the availability check failed: {type(error).__name__}: {error}"


def _not_installed(there: set[str]) -> list[dict[str, Any]]:
    """Return this project's adapters that are not in `there`, in the format of `describe_plugins`."""
    from karenina_core.catalog import install_command, read_catalog

    return [
        {
            "name": name,
            "kind": "adapter",
            "distribution": owner,
            "version": None,
            "state": NOT_INSTALLED,
            "failure": None,
            **read_catalog()["adapter_details"][name],
            "available": False,
            "reason": f"{owner} is not installed: {install_command(owner)}",
        }
        for name, owner in read_catalog()["adapters"].items()
        if name not in there
    ]


def _missing_requirements(distribution: str) -> Iterator[str]:
    """Yield the distribution's missing requirements, as arguments for pip. Nothing is yielded if the distribution is
    not installed, and nothing more after an invalid requirement.
    """
    from importlib.metadata import PackageNotFoundError, requires, version

    from packaging.requirements import InvalidRequirement, Requirement

    with suppress(PackageNotFoundError, InvalidRequirement):
        for required in map(Requirement, requires(distribution) or ()):
            if required.marker is None or required.marker.evaluate({"extra": ""}):
                try:
                    version(required.name)
                except PackageNotFoundError:
                    yield f"{required.name}{required.specifier}"


def _plugin_json(info: PluginInfo) -> dict[str, Any]:
    """Convert a plugin to JSON. `ignored` is included only if hook implementations have no effect."""
    return {
        "name": info.name,
        "kind": info.kind,
        "distribution": info.distribution,
        "version": info.version,
        "state": info.state,
        "failure": info.failure,
        **({"ignored": list(info.ignored)} if info.ignored else {}),
    }


def _details(plugin: dict[str, Any]) -> str:
    """Return a plugin's failure and how to fix it, or an adapter's description. The text is empty for other plugins."""
    if plugin["failure"]:
        missing = list(_missing_requirements(plugin["distribution"]))
        names = ", ".join(missing)
        cure = (
            f"; {plugin['distribution']} requires packages that are not installed ({names}): "
            f"pip install {shlex.join(missing)}"
        )
        return f"{plugin['failure']}{cure if missing else ''}"
    if "tier" not in plugin:
        return ""
    available = "available" if plugin["available"] else "not available"
    return f"{plugin['description']} ({', '.join(plugin['ports'])}; {plugin['tier']}; {available})"
