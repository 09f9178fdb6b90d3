"""`karenina doctor`: check the installation, the configuration, servers and journals.

No model is called.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlsplit

import typer
from rich.text import Text

from karenina_cli.input.configuration import read_configuration
from karenina_cli.input.model_options import ModelOptions, option_names
from karenina_cli.input.options import ConfigFile, Settings
from karenina_core.errors import ConfigError, KareninaError
from karenina_terminal.completion import journal_files
from karenina_terminal.options import PrintJSON, with_option_groups
from karenina_terminal.screen import ExitCode, get_screen
from karenina_toolkit.package_check.metadata import Finding
from karenina_toolkit.printable import clean, quantity

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_core.models.model import ModelConfig
    from karenina_core.plugins import Plugins

_CONNECT_SECONDS: Final = 3.0
_PORTS: Final = {"http": 80, "https": 443}
_MARKS: Final = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "problem": ("✗", "red")}


@with_option_groups
def doctor(
    ctx: typer.Context,
    *,
    journals: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[JOURNAL]...",
            help="Journals to check. Default: all files named *.journal in this folder.",
            autocompletion=journal_files,
        ),
    ] = None,
    config: ConfigFile = None,
    models: ModelOptions,
    settings: Settings = None,
    as_json: PrintJSON = False,
) -> None:
    """Check the installation, configuration, models, servers and journals, and print how to fix problems.

    No model is called and no key is sent; the only traffic is a connection to each configured server, and questions to
    llama.cpp and Ollama about what their models understand. Exits with 2 if there is a problem.
    """
    screen = get_screen(ctx)
    with screen.report_errors():
        chosen = journals or sorted(Path().glob("*.journal"))
        findings = []
        for finding in diagnose(lambda: read_configuration(None, config, settings, models=models), chosen):
            findings.append(finding)
            if not as_json:
                mark, style = _MARKS[finding.state]
                screen.out.print(
                    Text(f"{mark} ", style) + Text(clean(f"{finding.area}: {finding.text}"), ""), soft_wrap=True
                )
        problems = sum(finding.state == "problem" for finding in findings)
        if as_json:
            screen.json({"problems": problems, "findings": [finding.to_json() for finding in findings]})
        elif not problems:
            screen.out.print("No problems found.")
        if problems:
            screen.note(f"{quantity(problems, 'problem')} found.")
            raise typer.Exit(ExitCode.BAD_INPUT)


def diagnose(read: Callable[[], VerificationConfig], journals: Sequence[Path]) -> Iterator[Finding]:
    """Run the checks of `karenina doctor`, and yield their findings in order. The servers of the configured models are
    contacted, but no model is called. `read` returns the configuration or raises a `KareninaError`.
    """
    from karenina_core import plugins as plugin_room
    from karenina_toolkit.plugin_lookup import plugins_of

    python = ".".join(map(str, sys.version_info[:3]))
    yield Finding("Python", "ok", f"{python}, {sys.executable}")
    config: VerificationConfig | None = None
    plugins = plugin_room.active_plugins()
    try:
        config = read()
        plugins = plugins_of(config)
        problem = None
    except KareninaError as error:
        problem = error
    yield from check_plugins(plugins)
    yield from check_versions()
    if problem is not None or config is None:
        yield from _problems("Configuration", problem)
    else:
        yield from check_configured(plugins, config)
        yield from check_machine(plugins, config)
    yield from check_journals(journals)


def check_plugins(plugins: Plugins) -> Iterator[Finding]:
    """Yield findings about broken or blocked plugins and ineffective hooks, and the number of loaded plugins."""
    from karenina_core.stages.stage import registered_stages
    from karenina_engine.check.plugin_checks import broken_plugins, deprecated_hooks, misplaced_plugins, misspelt_places
    from karenina_terminal.command_hook import failed_commands
    from karenina_toolkit.package_check.offers import reject_wrong_offers
    from karenina_toolkit.plugin_lookup import registered_adapters

    reject_wrong_offers(plugins)
    registered_stages(plugins)
    registered_adapters(plugins)
    for owner, names, failure in broken_plugins(plugins):
        cure = (
            f"fix or uninstall the package, or block its plugins with [plugins] block = [{', '.join(map(repr, names))}]"
        )
        yield Finding("Plugins", "problem", f"{', '.join(names)} of {owner} cannot be used: {failure}; {cure}")
    for info in failed_commands(plugins):
        why = f"the commands of {info.distribution} {info.version} are missing: {info.failure}"
        yield Finding("Plugins", "problem", f"{why}; fix or uninstall the package")
    yield from (Finding("Plugins", "problem", text) for text in misplaced_plugins())
    yield from (Finding("Plugins", "warning", text) for text in [*misspelt_places(plugins), *deprecated_hooks(plugins)])
    infos = plugins.describe()
    for info in infos:
        for reason in info.ignored:
            yield Finding("Plugins", "warning", f"{info.name} of {info.distribution} {info.version}: {reason}")
        if info.state == "blocked":
            yield Finding("Plugins", "warning", f"{info.name} of {info.distribution} is blocked under [plugins]")
    loaded = [info for info in infos if info.state == "loaded"]
    yield Finding(
        "Plugins",
        "ok",
        f"{len(loaded)} loaded from {quantity(len({plugin.distribution for plugin in loaded}), 'distribution')}",
    )


def check_versions(found: Iterable[Distribution] | None = None) -> Iterator[Finding]:
    """Yield findings about distributions of Karenina and its plugins that are installed twice, and about requirements
    of these on each other that are not met. If all are met, a finding says so. `found` replaces the installed
    distributions, in the order of `sys.path`.
    """
    from karenina_core.plugins.discovery import canonical
    from karenina_toolkit.package_check.metadata import unmet_requirements

    installed: dict[str, Distribution] = {}
    for distribution in distributions() if found is None else found:
        name = canonical(distribution.name or "")
        if not _concerns_karenina(name, distribution):
            continue
        first = installed.setdefault(name, distribution)
        if first is not distribution and _install_folder(first) != _install_folder(distribution):
            hidden = f"{distribution.version} in {_install_folder(distribution)}"
            text = f"{name} {first.version} in {_install_folder(first)} hides {hidden}; uninstall one of the two"
            yield Finding("Versions", "problem", text)
    unmet = [
        text
        for distribution in installed.values()
        for text in unmet_requirements(distribution, installed, lambda name: name.startswith("karenina"))
    ]
    yield from (Finding("Versions", "problem", text) for text in unmet)
    if not unmet:
        versions = sorted(
            {distribution.version for name, distribution in installed.items() if name.startswith("karenina")}
        )
        yield Finding(
            "Versions", "ok", f"{len(installed)} distributions are compatible; Karenina {', '.join(versions)}"
        )


def check_configured(plugins: Plugins, config: VerificationConfig) -> Iterator[Finding]:
    """Yield findings about the configuration, its models and their servers, which are contacted. A problem becomes a
    finding, and is not raised.
    """
    from karenina_core.data.question import Question
    from karenina_engine.check.planner import Planner
    from karenina_engine.check.plugin_checks import check_selection
    from karenina_engine.check.stage_checks import check_configuration
    from karenina_engine.model_settings import configured_models
    from karenina_toolkit.attachments.support import describe_support
    from karenina_toolkit.plugin_lookup import find_adapter

    count = len(config.given())
    yield from _attempt("Configuration", lambda: check_selection(plugins, config), None)
    yield from _attempt(
        "Configuration", lambda: check_configuration(plugins, config), f"{quantity(count, 'setting')} set"
    )
    if plugins.of_kind("stage"):
        plain = Question(question="A plain question", id="plain")
        for finding in _attempt("Plan", lambda: Planner(config, plugins).plan(plain), "the stages can be planned"):
            yield finding if finding.state == "ok" else replace(finding, state="warning")
    models = configured_models(config)
    if not models:
        text = (
            f"no models are configured; specify the models to check with {option_names()}, or in a file with --config"
        )
        yield Finding("Models", "warning", text)
    for role, model in models:
        named = f"{role} {model.id!r}: {model.display_string} can be used"
        usable = True
        for finding in _attempt("Models", partial(_check_model, plugins, config, role, model), named):
            usable = finding.state == "ok"
            yield finding
        if usable:
            support = describe_support(find_adapter(plugins, model.interface).spec, model)
            yield Finding("Attachments", "ok", f"{role} {model.id!r}: {support}")
    yield from check_servers([model for _, model in models])
    with ThreadPoolExecutor(max_workers=8) as pool:
        yield from filter(None, pool.map(partial(_compare_with_server, plugins), models))


def _check_model(plugins: Plugins, config: VerificationConfig, role: str, model: ModelConfig) -> None:
    """Raise `ConfigError` with everything that is known to make calls to a model fail. The model is not called."""
    from karenina_engine.calls.program_sandboxes import check_programs
    from karenina_engine.check.stage_checks import check_models

    check_models(plugins, [(role, model)])
    check_programs(plugins, config, [(role, model)])


def check_machine(plugins: Plugins, config: VerificationConfig) -> Iterator[Finding]:
    """Yield the findings of all plugins that check this machine."""
    from karenina_cli.hookspecs import Diagnosis, karenina_diagnoses

    for diagnosis in plugins.call(karenina_diagnoses, Diagnosis):
        yield from diagnosis.findings(config, plugins)


def check_servers(models: Iterable[ModelConfig]) -> Iterator[Finding]:
    """Connect to each HTTP server of the models, including MCP servers, without sending a request, and yield the
    findings. Servers behind a proxy are not tried, and count as working.
    """
    addresses = dict.fromkeys(
        address
        for model in models
        for address in (model.endpoint_base_url, *(model.mcp_urls_dict or {}).values())
        if address is not None and _is_http(address)
    )
    with ThreadPoolExecutor(max_workers=8) as pool:
        yield from pool.map(_check_server, addresses)


def check_journals(paths: Iterable[Path]) -> Iterator[Finding]:
    """Yield each journal's progress and whether it is in use, or the reason why it cannot be read."""
    from karenina_engine.journal.file import JournalError
    from karenina_engine.journal.view import JournalView

    for path in paths:
        try:
            with JournalView(path) as view:
                status = view.status()
        except JournalError as error:
            yield Finding("Journals", "problem", str(error))
            continue
        done = f"{status.done} of {status.items} items done"
        if status.pid is not None:
            process = f"process {status.pid}" if status.pid else "another process"
            yield Finding("Journals", "warning", f"{path} is in use by {process}: {done}")
        else:
            yield Finding("Journals", "ok", f"{path}: {done}, not in use")


def _attempt(area: str, check: Callable[[], object], passed: str | None) -> Iterator[Finding]:
    """Run a check, and yield the problems listed by the `KareninaError` that it raises; other exceptions propagate. If
    the check passes, yield a finding with the text `passed`, unless that is None.
    """
    try:
        check()
    except KareninaError as error:
        yield from _problems(area, error)
    else:
        if passed is not None:
            yield Finding(area, "ok", passed)


def _problems(area: str, error: KareninaError | None) -> Iterator[Finding]:
    """Yield a finding for each problem that the error lists."""
    lines = error.problems if isinstance(error, ConfigError) else [str(error)]
    yield from (Finding(area, "problem", line) for line in lines)


def _is_http(address: str) -> bool:
    """Return whether the address is an HTTP URL with a host. It is not if it is invalid, such as `http://[::1`."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return parts.scheme in _PORTS and bool(parts.hostname)


def _check_server(address: str) -> Finding:
    """Connect to a server without sending a request, and return the finding. A server behind a proxy is not tried, and
    counts as working.
    """
    from karenina_toolkit.http.urls import redact_url, uses_proxy

    parts, shown = urlsplit(address), redact_url(address)
    host = parts.hostname or ""
    if uses_proxy(address):
        return Finding("Servers", "ok", f"{shown} was not tried because connections to this server go through a proxy")
    try:
        port = parts.port or _PORTS[parts.scheme]
        with socket.create_connection((host, port), timeout=_CONNECT_SECONDS):
            return Finding("Servers", "ok", f"{shown} accepts connections")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        cure = "check that the server is running and that the URL is correct"
        return Finding("Servers", "problem", f"could not connect to {shown} ({why}); {cure}")


def _compare_with_server(plugins: Plugins, named: tuple[str, ModelConfig]) -> Finding | None:
    """Ask the server of a model, named by its role, whether the model understands images and sound, and return a
    finding that compares this with the settings. Returns None if the server need not be asked or does not say.
    """
    from karenina_toolkit.attachments.support import find_support, limits_of
    from karenina_toolkit.http.served_media import ask_server
    from karenina_toolkit.plugin_lookup import find_adapter

    role, model = named
    if not _is_http(model.endpoint_base_url or ""):
        return None
    try:
        spec = find_adapter(plugins, model.interface).spec
        limits = limits_of(spec, model)
        known = {kind: find_support(spec, model, kind) for kind in ("image/png", "audio/wav") if kind in limits}
    except (KareninaError, ValueError):  # a problem of the model's settings, which is listed already
        return None
    stated = ask_server(model.endpoint_base_url or "", model.model_name) if known else None
    if stated is None:
        return None
    able = {"image/png": stated.images, "audio/wav": stated.sound}
    wrong = [kind for kind, support in known.items() if support.understands and not able[kind]]
    words = f"images: {'yes' if stated.images else 'no'}, sound: {'yes' if stated.sound else 'no'}"
    text = f"{role} {model.id!r}: {words} (stated by the server, {stated.server})"
    if wrong:
        cure = "start llama.cpp with --mmproj" if stated.server == "llama.cpp" else "choose a model that has it"
        sources = ", ".join(dict.fromkeys(known[kind].source for kind in wrong))
        return Finding("Attachments", "warning", f"{text}, but yes is {sources}; {cure}, or correct extra.media")
    if any(support.understands is None for support in known.values()):
        types = [name for name, yes in (("image/*", stated.images), ("audio/wav", stated.sound)) if yes]
        text = f"{text}; a run does not ask the server: declare extra.media = {types}"
    return Finding("Attachments", "ok", text)


def _concerns_karenina(name: str, distribution: Distribution) -> bool:
    """Return whether the distribution belongs to Karenina or contains one of its plugins."""
    if name == "karenina" or name.startswith("karenina-"):
        return True
    return any(point.group.startswith("karenina.") for point in distribution.entry_points)


def _install_folder(distribution: Distribution) -> Any:
    """Return the folder that the distribution is installed in."""
    return distribution.locate_file("")
