"""`karenina trust`: show the code and restricted values in a file, and trust them."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from karenina_terminal import completion
from karenina_terminal.options import json_option
from karenina_terminal.screen import Screen, get_screen
from karenina_toolkit.printable import clean

if TYPE_CHECKING:
    from karenina_benchmark import BenchmarkContent
    from karenina_core.data.trust import Trust
    from karenina_engine.check.restricted_values import RestrictedValue


@dataclass(slots=True)
class CodeSource:
    """Source code that is run only if it is trusted.

    `reason` and `line` state why, and where, the source counts as code. `places` lists the parts of the file that
    contain it.
    """

    digest: str
    source: str
    reason: str
    line: int | None
    trusted: bool
    places: list[str] = field(default_factory=list)

    def to_json(self, *, trusted: bool) -> dict[str, Any]:
        """Return the source as a JSON-compatible dict that states whether it is `trusted`.

        This is passed in because the attribute is still False if trust has just been stored.
        """
        return {
            "digest": self.digest,
            "reason": self.reason,
            "line": self.line,
            "places": self.places,
            "trusted": trusted,
            "source": self.source,
        }


@dataclass(slots=True)
class TrustFindings:
    """The contents of a file that need trust: code, restricted `values`, and `paths` outside its folder.

    `digests` contains one digest for all values and one for all paths (from `digest_of_values`). `new` contains the
    digests that are not trusted yet. `unopened` is true if files were not read because their paths are not trusted.
    `broken` contains messages about templates that cannot be used even with trust.
    """

    code: list[CodeSource] = field(default_factory=list)
    values: list[RestrictedValue] = field(default_factory=list)
    paths: list[RestrictedValue] = field(default_factory=list)
    digests: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    unopened: bool = False
    broken: list[str] = field(default_factory=list)

    @property
    def new_code(self) -> list[CodeSource]:
        """The sources that are not trusted yet."""
        return [code for code in self.code if not code.trusted]

    @property
    def untrusted(self) -> bool:
        """Whether any of the contents are not trusted yet."""
        return bool(self.new or self.new_code)


def trust(
    ctx: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="A benchmark, or a template as a .py file.", autocompletion=completion.trusted_files
        ),
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Trust without confirmation.")] = False,
    as_json: Annotated[bool, json_option("Print JSON. Trust is stored only with --yes.")] = False,
) -> None:
    """List the code and the restricted values in a file and, after confirmation, trust exactly that content.

    Trust does not extend to later changes to the file. Restricted values can start programs, choose where requests and
    keys go, name files outside the file's folder, choose plugins, or change costs. Of the files that they refer to,
    only possible programs inside the folder, and what checks add from the workspace root, are opened, because their
    digests are trusted too.
    """
    screen = get_screen(ctx)
    with screen.report_errors():
        from karenina_engine.user_files import store_trust, trust_path

        findings = find_untrusted_content(file)
        if not as_json:
            _print(screen, file, findings)
        if findings.untrusted and not (yes or as_json or sys.stdin.isatty()):
            screen.fail(
                "nothing was trusted because there is no terminal for confirmation. If you have read what is "
                f"printed above, run: karenina trust {shlex.quote(str(file))} --yes"
            )
        agreed = findings.untrusted and (yes or (not as_json and _confirm(findings)))
        count = len(findings.new_code) + (len(findings.values) + len(findings.paths) if findings.new else 0)
        if agreed:
            store_trust([*(code.digest for code in findings.new_code), *findings.new], note=str(file))
        if as_json:
            screen.json(_json(file, findings, stored=count if agreed else 0))
        elif agreed:
            screen.out.print(f"Trusted: {count}. Stored in {trust_path()}", soft_wrap=True, markup=False)
            if findings.unopened:
                screen.note(
                    f"Files outside the folder were not read; run `karenina trust {shlex.quote(str(file))}` again to "
                    "check their contents."
                )
        elif findings.untrusted:
            screen.note("Nothing was trusted.")


def find_untrusted_content(file: Path) -> TrustFindings:
    """Find the contents of a file that need trust, including those that are trusted already. Nothing is executed, and a
    file with untrusted paths outside its folder is read, but the files at these paths are not opened. Raises
    `BenchmarkFileError` if the file cannot be read.
    """
    from karenina_benchmark.benchmark_files import load_benchmark
    from karenina_engine.check import restricted_values
    from karenina_engine.user_files import digest_of_values, load_trust, trusts_values

    stored = load_trust()
    findings = TrustFindings()
    if file.suffix.lower() == ".py":
        findings.code, findings.broken = find_code(file, None, stored)
        return findings

    def may_read(path: Path, names: Sequence[str]) -> bool | None:
        """Record the named paths outside the folder, and return whether they are trusted, or None if there are none."""
        findings.paths = restricted_values.paths_outside(path, names)
        findings.unopened = bool(findings.paths) and not trusts_values(
            stored, path, restricted_values.names_and_values(findings.paths)
        )
        return not findings.unopened if findings.paths else None

    benchmark = load_benchmark(file, may_read)
    findings.code, findings.broken = find_code(file, benchmark, stored)
    findings.values = restricted_values.find_restricted_values(benchmark)
    for values in (findings.values, findings.paths):
        if values:
            digest = digest_of_values(file, restricted_values.names_and_values(values))
            findings.digests.append(digest)
            if digest not in stored.digests:
                findings.new.append(digest)
    return findings


def find_code(file: Path, benchmark: BenchmarkContent | None, stored: Trust) -> tuple[list[CodeSource], list[str]]:
    """Return the code in a file, with whether `stored` covers it, and messages about templates that cannot be used.
    Nothing is executed. If `benchmark` is None, `file` is a template, and it is read here. Raises `BenchmarkFileError`
    if it cannot be read.
    """
    from karenina_benchmark.errors import read_text
    from karenina_core.data.trust import digest_of
    from karenina_template.templates import TemplateError, UntrustedTemplate, load_template

    pieces: dict[str, CodeSource] = {}
    broken: list[str] = []

    def note(source: str, reason: str, line: int | None, place: str) -> None:
        """Add a source, with its reason and line, to `pieces`, or, if it is already there, `place` to its places."""
        digest = digest_of(source)
        code = pieces.setdefault(digest, CodeSource(digest, source, reason, line, stored.covers(source)))
        if place not in code.places:
            code.places.append(place)

    def template(source: str, place: str) -> None:
        """Add the template if it contains code. If it cannot be loaded, add a message to `broken`."""
        try:
            load_template(source)
        except UntrustedTemplate as error:
            note(source, error.code, error.line, place)
        except TemplateError as error:
            broken.append(f"{place}: {error}")

    if benchmark is None:
        template(read_text(file), str(file))
        return list(pieces.values()), broken
    for question in benchmark:
        if question.answer_template is not None:
            template(question.answer_template, f"template of question {question.id}")
    for source, place in _functions(benchmark):
        note(source, "a callable trait is a function", None, place)
    return list(pieces.values()), broken


def _functions(benchmark: BenchmarkContent) -> list[tuple[str, str]]:
    """Return the source of each callable trait, with its location in the benchmark."""
    rubrics = [(benchmark.global_rubric, "the benchmark"), (benchmark.dynamic_rubric, "the benchmark")]
    for question in benchmark:
        rubrics += [(question.rubric, f"question {question.id}"), (question.dynamic_rubric, f"question {question.id}")]
    return [
        (trait.source, f"trait {trait.name} of {place}")
        for rubric, place in rubrics
        if rubric is not None
        for trait in rubric.callable_traits
        if trait.source is not None
    ]


def _json(file: Path, findings: TrustFindings, *, stored: int) -> dict[str, Any]:
    """Return what `--json` prints: the file's code and restricted values, whether they are trusted, and broken
    templates. `stored` is the number of contents that have just been trusted.
    """
    values = [
        {
            "name": content.name,
            "value": content.shown,
            "meaning": content.meaning,
            "places": list(content.places),
            "files": [" ".join(pair) for file in content.files for pair in file.identity()],
            "unread": list(content.unread),
        }
        for content in (*findings.values, *findings.paths)
    ]
    return {
        "file": str(file),
        "code": [code.to_json(trusted=code.trusted or bool(stored)) for code in findings.code],
        "values": values,
        "values_trusted": not findings.new or bool(stored),
        "broken": findings.broken,
        "stored": stored,
    }


def _print(screen: Screen, file: Path, findings: TrustFindings) -> None:
    """Print the restricted values, the code with line numbers and, on standard error, broken templates."""
    if not (findings.code or findings.digests):
        text = f"{file} contains no code and no restricted values, so nothing in it needs to be trusted."
        screen.out.print(Text(text), soft_wrap=True)
    if findings.digests:
        state = "" if findings.new else " (already trusted)"
        screen.out.print(Text(f"Restricted values{state}", "bold"), soft_wrap=True)
        for value in (*findings.values, *findings.paths):
            screen.out.print(Text(f"  {clean(value.in_words())}"), soft_wrap=True)
            for name, what in (pair for file in value.files for pair in file.identity()):
                screen.out.print(Text(f"    {clean(f'{name} {what}')}", "dim"), soft_wrap=True)
            for text in value.unread:
                screen.out.print(Text(f"    {clean(text)}", "dim"), soft_wrap=True)
    for code in findings.code:
        state = " (already trusted)" if code.trusted else ""
        where = f"line {code.line}: " if code.line is not None else ""
        places = ", ".join(code.places[:3]) + (f" and {len(code.places) - 3} more" if len(code.places) > 3 else "")
        screen.out.print(Text(clean(places) + state, "bold"), soft_wrap=True)
        screen.out.print(Text(f"  {where}{clean(code.reason)}\n  SHA-256 {code.digest}"), soft_wrap=True)
        for number, line in enumerate(code.source.splitlines(), 1):
            screen.out.print(Text(f"  {number:4} | {clean(line)}", "dim"), soft_wrap=True)
    for problem in findings.broken:
        screen.note(f"Cannot be used even if trusted: {clean(problem)}")


def _confirm(findings: TrustFindings) -> bool:
    """Ask on standard error whether to trust the new contents, and return the reply. Ctrl-C raises click's `Abort`."""
    count = len(findings.new_code)
    parts = ["this source" if count == 1 else f"these {count} sources"] if count else []
    parts += ["these values"] if findings.new else []
    they = "it" if count == 1 and not findings.new else "they"
    return typer.confirm(f"Have you read {' and '.join(parts)}, and may {they} take effect from now on?", err=True)
