"""`karenina trust`: look at the code that came with a file, and let it run from now on."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from karenina_core.cli.screen import Screen, clean, screen_of

if TYPE_CHECKING:
    from karenina_core.benchmark import Benchmark


@dataclass(slots=True)
class Code:
    """One source that would run only with trust: why it is code, from which line on, and where it stands."""

    digest: str
    source: str
    reason: str
    line: int | None
    trusted: bool
    places: list[str] = field(default_factory=list)

    def to_json(self, *, trusted: bool) -> dict[str, Any]:
        """The source as `--json` prints it."""
        return {
            "digest": self.digest,
            "reason": self.reason,
            "line": self.line,
            "places": self.places,
            "trusted": trusted,
            "source": self.source,
        }


def trust(
    ctx: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A benchmark, or a template as a .py file.", show_default=False)
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Trust without being asked.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON; stores only with --yes.")] = False,
) -> None:
    """List the code in a file that runs only with your trust, and trust it: exactly these sources, not the file."""
    screen = screen_of(ctx)
    with screen.telling_errors():
        from karenina_core.templates import store_trust, trust_file

        found, broken = find_code(file)
        new = [code for code in found if not code.trusted]
        if not as_json:
            _print(screen, file, found, broken)
        agreed = bool(new) and (yes or (not as_json and _asked(screen, len(new))))
        if agreed:
            store_trust([code.digest for code in new], note=str(file))
        if as_json:
            sources = [code.to_json(trusted=code.trusted or agreed) for code in found]
            screen.json({"file": str(file), "code": sources, "broken": broken, "stored": len(new) if agreed else 0})
        elif agreed:
            screen.out.print(f"Trusted: {len(new)}. Kept in {trust_file()}", soft_wrap=True, markup=False)
        elif new:
            screen.note("Nothing was trusted.")


def find_code(file: Path) -> tuple[list[Code], list[str]]:
    """The distinct sources in `file` that are code, and what is broken in it. Nothing is executed.

    Raises `CheckpointError` where the file cannot be read.
    """
    from karenina_core.benchmark import Benchmark
    from karenina_core.benchmark.files import read_text
    from karenina_core.templates import TemplateError, Trust, UntrustedTemplate, digest_of, load_template

    stored = Trust.stored()
    found: dict[str, Code] = {}
    broken: list[str] = []

    def note(source: str, reason: str, line: int | None, place: str) -> None:
        digest = digest_of(source)
        code = found.setdefault(digest, Code(digest, source, reason, line, stored.covers(source)))
        if place not in code.places:
            code.places.append(place)

    def template(source: str, place: str) -> None:
        try:
            load_template(source)
        except UntrustedTemplate as error:
            note(source, error.code, error.line, place)
        except TemplateError as error:
            broken.append(f"{place}: {error}")

    if file.suffix.lower() == ".py":
        template(read_text(file), str(file))
        return list(found.values()), broken
    benchmark = Benchmark.load(file)
    for question in benchmark:
        if question.answer_template is not None:
            template(question.answer_template, f"template of question {question.id}")
    for source, place in _functions(benchmark):
        note(source, "a callable trait is a function", None, place)
    return list(found.values()), broken


def _functions(benchmark: Benchmark) -> list[tuple[str, str]]:
    """The sources of callable traits, each with its place."""
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


def _print(screen: Screen, file: Path, found: list[Code], broken: list[str]) -> None:
    if not found:
        screen.out.print(Text(f"{file} holds no code: nothing in it needs trust."), soft_wrap=True)
    for code in found:
        state = " (trusted already)" if code.trusted else ""
        where = f"line {code.line}: " if code.line is not None else ""
        places = ", ".join(code.places[:3]) + (f" and {len(code.places) - 3} more" if len(code.places) > 3 else "")
        screen.out.print(Text(clean(places) + state, "bold"), soft_wrap=True)
        screen.out.print(Text(f"  {where}{clean(code.reason)}\n  SHA-256 {code.digest}"), soft_wrap=True)
        for number, line in enumerate(code.source.splitlines(), 1):
            screen.out.print(Text(f"  {number:4} | {clean(line)}", "dim"), soft_wrap=True)
    for problem in broken:
        screen.note(f"Broken, with or without trust: {clean(problem)}")


def _asked(screen: Screen, count: int) -> bool:
    if not sys.stdin.isatty():
        screen.note("Not asked, because the input is no terminal: --yes trusts.")
        return False
    what = "this source" if count == 1 else f"these {count} sources"
    return typer.confirm(f"Have you read {what}, and shall it run on this machine from now on?", err=True)
