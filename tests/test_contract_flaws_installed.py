"""Contracts that run the command find one flaw each, in plugins that are installed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace

import pytest

from karenina_core.plugins.discovery import installed
from karenina_report.exports.exporter import Exporter
from karenina_testing.contracts import (
    CommandContract,
    ExecutorContract,
    ExporterContract,
    ObserverContract,
    PanelContract,
    PluginContract,
    ReportSectionContract,
)

pytestmark = pytest.mark.usefixtures("forked_commands")

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Provide a function that installs a package `flawed` with these modules, for commands that tests start."""

    def write(source: str, **modules: str) -> None:
        site = tmp_path_factory.mktemp("site")
        info = site / "flawed-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: flawed\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[karenina.plugins]\nflawed = flawed\n")
        (site / "flawed").mkdir()
        for name, text in {"__init__": source, **modules}.items():
            (site / "flawed" / f"{name}.py").write_text(dedent(text))
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])]))
        monkeypatch.syspath_prepend(site)
        for name in [name for name in sys.modules if name.partition(".")[0] == "flawed"]:
            monkeypatch.delitem(sys.modules, name)
        installed.cache_clear()  # another test of this process may have asked before

    yield write
    installed.cache_clear()


def assert_found(contract: type[PluginContract], test: str, folder: Path) -> None:
    """Assert that a test of a contract fails."""
    with pytest.raises(AssertionError):
        getattr(contract(), test)(folder)


COMMAND = """
    import typer
    from karenina_core import hookimpl
    from karenina_terminal.lazy_commands import add_lazy_command

    @hookimpl
    def karenina_commands(app):
        {how}
"""
LAZY = 'add_lazy_command(app, "flawed", "flawed.command:run", "Print a number.")'
EAGER = "from flawed.command import run; app.command('flawed')(run)"
RUN = """
    def run(number: str) -> None:
        {docstring}
        print(int(number))
"""


class FlawedCommand(CommandContract):
    entry_point = "flawed"
    command = ("flawed",)
    arguments = ("7",)
    prints = "8"
    refused = {("seven",): "seven"}


@pytest.mark.parametrize(
    ("how", "docstring", "test"),
    [
        (LAZY, '"""Print a number."""', "test_it_works"),
        (LAZY, '"""Print a number."""', "test_what_it_cannot_use_is_refused_with_a_message"),
        (LAZY, '"""Do something else."""', "test_it_is_listed_with_the_first_line_of_its_help"),
        ("pass", "", "test_it_is_listed_with_the_first_line_of_its_help"),
        (EAGER, '"""Print a number."""', "test_its_module_is_imported_only_when_it_is_called"),
    ],
)
def test_the_command_contract_finds_a_flaw(
    install: Install, tmp_path: Path, how: str, docstring: str, test: str
) -> None:
    install(COMMAND.format(how=how), command=RUN.format(docstring=docstring))

    assert_found(FlawedCommand, test, tmp_path)


EXPORTER = """
    from karenina_core import hookimpl
    from karenina_report.exports.exporter import Exporter

    def write(request, file):
        {how}

    @hookimpl
    def karenina_exporters():
        return [Exporter("flawed", "flawed", (".flawed",), write, {more})]
"""


class FlawedExporter(ExporterContract):
    entry_point = "flawed"
    exporter = Exporter("flawed", "flawed", (".flawed",), lambda *_: None, takes_table=True, read=lambda _path: [])


ALL = "file.writelines(f'{one.question_id}{one.metadata.question_text}\\n'.encode() for one in request.results)"
EXPORTER_FLAWS = [
    (ALL.replace("request.results)", "request.results if one.outcome.judged)"), "", "test_no_result_is_left_out"),
    (ALL.replace("encode()", "encode('latin-1')"), "", "test_text_is_utf8_with_any_text_in_the_results"),
    (ALL.replace("encode()", "encode('utf-16')"), "", "test_text_is_utf8_with_any_text_in_the_results"),
    (ALL + "; next(iter(request.results))", "", "test_no_results_are_no_error"),
    (ALL, "first_bytes=(b'# flawed',)", "test_an_earlier_export_is_kept_under_another_name"),
    (ALL, "read=lambda path: []", "test_reading_an_export_gives_the_same_results"),
    (ALL, "takes_table=False", "test_a_table_is_written_if_it_says_so"),
]


@pytest.mark.parametrize(("how", "more", "test"), EXPORTER_FLAWS)
def test_the_exporter_contract_finds_a_flaw(install: Install, tmp_path: Path, how: str, more: str, test: str) -> None:
    install(EXPORTER.format(how=how, more=more))

    assert_found(FlawedExporter, test, tmp_path)


SECTION = """
    import uuid
    from karenina_core import hookimpl
    from karenina_report.page.section import Column, PageSection, TableBlock

    def section(page):
        judged = [one for run in page.runs for one in run.results if one.outcome.judged]
        {how}

    @hookimpl
    def karenina_report_sections():
        return [section]
"""


class FlawedSection(ReportSectionContract):
    entry_point = "flawed"
    sections = ("flawed",)


SHOW = "return [PageSection('flawed', 'Flawed', [TableBlock([Column('Share')], [[{cell}]])])]"


@pytest.mark.parametrize(
    ("how", "test"),
    [
        ("return []", "test_a_report_has_the_sections"),
        (SHOW.format(cell="object()"), "test_a_report_has_the_sections"),
        (SHOW.format(cell="1 / len(judged)"), "test_results_without_a_verdict_are_no_error"),
        (SHOW.format(cell="uuid.uuid4().hex"), "test_the_same_results_give_the_same_sections"),
        (SHOW.format(cell="1 / (len(page.runs) == 1)"), "test_several_runs_are_no_error"),
    ],
)
def test_the_section_contract_finds_a_flaw(install: Install, tmp_path: Path, how: str, test: str) -> None:
    install(SECTION.format(how=how))

    assert_found(FlawedSection, test, tmp_path)


SETTINGS = """
    from karenina_core import hookimpl
    from pydantic import BaseModel, Field

    class Settings(BaseModel):
        on: bool = Field(default=False, json_schema_extra={{"allowed_in_files": "any"}})

    @hookimpl
    def karenina_settings():
        return [Settings]
"""
OBSERVER = (
    SETTINGS
    + """
    from pathlib import Path

    class Observer:
        @hookimpl
        def karenina_item_{event}:
            {how}

    @hookimpl
    def karenina_observers(config):
        return [Observer()] if {when} else []
"""
)


class FlawedObserver(ObserverContract):
    entry_point = "flawed"
    settings = {"flawed.on": True}

    def observed(self, folder: Path) -> object:
        return True if (folder / "seen.txt").exists() else None


WRITES = "Path('seen.txt').write_text('seen')"
ON = "config.section(Settings).on"


@pytest.mark.parametrize(
    ("event", "how", "when", "test"),
    [
        ("finished(self, result)", WRITES, "True", "test_only_the_configuration_turns_them_on"),
        ("finished(self, result)", "pass", ON, "test_they_observe_a_run"),
        ("finished(self, result)", f"{WRITES}; 1 / 0", ON, "test_they_observe_a_run"),
        (
            "started(self, event)",
            "self.begun = Path('seen.txt').open('x')",
            ON,
            "test_results_of_the_journal_are_no_error",
        ),
        (
            "finished(self, result)",
            f"{WRITES}; result.template.verify_result + 0",
            ON,
            "test_an_item_without_an_answer_is_no_error",
        ),
    ],
)
def test_the_observer_contract_finds_a_flaw(
    install: Install, tmp_path: Path, event: str, how: str, when: str, test: str
) -> None:
    install(OBSERVER.format(event=event, how=how, when=when))

    assert_found(FlawedObserver, test, tmp_path)


EXECUTOR = """
    from karenina_core import hookimpl
    from karenina_engine.run.executor import Executor

    class Flawed(Executor):
        name = "flawed"

        async def execute(self, session):
            for task in session.matrix:
                judges, kept = session.pending_judges(task)
                {how}

    @hookimpl
    def karenina_executors():
        return [Flawed()]
"""


class FlawedExecutor(ExecutorContract):
    entry_point = "flawed"
    executor = SimpleNamespace(name="flawed", description="It is flawed.", settings=None)


EACH = "async for judge, result in session.runner.answer(task, {judges}): {then}"
STORED = "yield await session.store_result(task, judge, result)"


@pytest.mark.parametrize(
    ("how", "test"),
    [
        (
            EACH.format(judges="judges", then="yield await session.store_result(task, judge, result)"),
            "test_stored_results_are_kept",
        ),
        (EACH.format(judges="[0]", then=STORED), "test_stored_results_are_kept"),
        (EACH.format(judges="judges[:task.replicate == 1]", then=STORED), "test_a_run_has_the_results_of_asyncio"),
        (
            EACH.format(judges="judges", then="\n                    if result.outcome.judged: " + STORED),
            "test_a_failure_ends_one_item_only",
        ),
    ],
)
def test_the_executor_contract_finds_a_flaw(install: Install, tmp_path: Path, how: str, test: str) -> None:
    install(EXECUTOR.format(how=how))

    assert_found(FlawedExecutor, test, tmp_path)


PANEL = (
    SETTINGS
    + """
    from karenina_core.data.outcome import Outcome
    from karenina_engine.calls.call import PanelModel
    from karenina_engine.run.panel import not_judged

    class Flawed:
        def __init__(self, config):
            judges = config.core.parsing_models
            self.model = PanelModel(id="flawed", interface="flawed", model_name="flawed", members=judges)

        async def evaluate(self, answer):
            asked = [await answer.ask(judge) for judge in self.model.members]
            base = asked[0]
            {how}

    @hookimpl
    def karenina_panel(config):
        return Flawed(config) if {when} else None
"""
)


class FlawedPanel(PanelContract):
    entry_point = "flawed"
    settings = {"flawed.on": True}


FAILED_IS_WRONG = "base = base if base.outcome.judged else base.model_copy(update={'outcome': Outcome.WRONG})"
RESULT = "return answer.result_of(self.model, base, asked)"
ONE_NAME = "test_each_answer_has_one_result_with_the_name_of_the_panel"


@pytest.mark.parametrize(
    ("how", "when", "test"),
    [
        ("return base", ON, ONE_NAME),
        ("return answer.result_of(self.model, base, asked[:1])", ON, ONE_NAME),
        (RESULT, "config.core.parsing_models", "test_without_its_settings_each_judge_has_its_result"),
        (f"{FAILED_IS_WRONG}; {RESULT}", ON, "test_a_failing_judge_makes_no_answer_wrong"),
        (f"{FAILED_IS_WRONG}; {RESULT}", ON, "test_an_answer_that_no_judge_could_read_is_not_judged"),
        (f"base = not_judged(base, 'no'); {RESULT}", ON, "test_judges_that_agree_decide"),
    ],
)
def test_the_panel_contract_finds_a_flaw(install: Install, tmp_path: Path, how: str, when: str, test: str) -> None:
    install(PANEL.format(how=how, when=when))

    assert_found(FlawedPanel, test, tmp_path)


PLUGINS: list[tuple[type[PluginContract], str, str]] = [
    (FlawedExporter, EXPORTER.format(how=ALL, more=""), "test_no_result_is_left_out"),
    (FlawedSection, SECTION.format(how=SHOW.format(cell="0.5")), "test_a_report_has_the_sections"),
    (FlawedObserver, OBSERVER.format(event="finished(self, result)", how=WRITES, when=ON), "test_they_observe_a_run"),
    (
        FlawedExecutor,
        EXECUTOR.format(how=EACH.format(judges="judges", then=STORED)),
        "test_a_failure_ends_one_item_only",
    ),
    (FlawedPanel, PANEL.format(how=RESULT, when=ON), ONE_NAME),
]


@pytest.mark.parametrize(("contract", "source", "test"), PLUGINS)
def test_the_same_plugin_without_a_flaw_passes(
    install: Install, tmp_path: Path, contract: type[PluginContract], source: str, test: str
) -> None:
    install(source)

    getattr(contract(), test)(tmp_path)


def test_the_same_command_without_a_flaw_passes(install: Install, tmp_path: Path) -> None:
    install(COMMAND.format(how=LAZY), command=RUN.format(docstring='"""Print a number."""'))

    for test in (
        "test_it_is_listed_with_the_first_line_of_its_help",
        "test_its_module_is_imported_only_when_it_is_called",
    ):
        getattr(FlawedCommand(), test)(tmp_path)
