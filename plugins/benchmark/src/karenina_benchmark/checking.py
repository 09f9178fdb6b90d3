"""Checks a benchmark before the first model call, and reports all problems at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from karenina_benchmark.attachment_findings import find_problems, find_unsent
from karenina_benchmark.errors import BenchmarkFileError
from karenina_benchmark.formats.load_warnings import why_unscorable
from karenina_benchmark.question_ids import identify_text
from karenina_benchmark.saved_attachments import serialize_attachment
from karenina_benchmark.template_declarations import field_at
from karenina_core.config import VerificationConfig
from karenina_core.data.rubrics import Rubric, RubricTrait
from karenina_core.data.trust import Trust
from karenina_core.errors import ConfigError, KareninaError
from karenina_core.plugins import active_plugins
from karenina_core.stage_selection import describe_missing_value
from karenina_core.text import did_you_mean
from karenina_engine.check.turns import said_texts, turn_problems
from karenina_template.question_template import template_of
from karenina_template.templates.errors import TRUST_CURE, TemplateError, UntrustedTemplate
from karenina_template.templates.look_alikes import EqualTruths
from karenina_template.templates.primitives import Primitive, files_in
from karenina_template.templates.self_check import find_flaws, find_said_truths, find_truth_errors
from karenina_template.templates.source.loading import find_errors
from karenina_toolkit.files.bounded_files import open_only_below
from karenina_toolkit.known_values import offered_values

if TYPE_CHECKING:
    from karenina_benchmark.content import BenchmarkContent
    from karenina_benchmark.document import Section
    from karenina_core.data.question import Question
    from karenina_engine.check.restricted_values import RestrictedValue
    from karenina_template.templates import BoundTemplate
    from karenina_template.templates.field import FieldRule

Level = Literal["error", "warning", "unchecked"]
_SHOWN: Final = 20
"""The maximum number of errors listed in the message of `BenchmarkErrors`."""
_LINE: Final = re.compile(r"line (\d+)")
_NO_MODEL: Final = "template_only"


class Finding(NamedTuple):
    """A problem found by a check.

    There are three levels. An `error` would stop a run or make its result invalid. A `warning` is probably a mistake.
    `unchecked` means that something cannot be checked. `where` is the place in `file`: a line, the number and id of a
    question, or empty for the whole file. `what` describes the problem, and `cure` says how to fix it. `question` is
    the question's id, or None.
    """

    level: Level
    file: Path | None
    where: str
    what: str
    cure: str = ""
    question: str | None = None

    def __str__(self) -> str:
        """Return the location, the problem and the fix on one line."""
        place = ", ".join(str(part) for part in (self.file, self.where) if part)
        text = f"{self.what}; {self.cure}" if self.cure else self.what
        return f"{place}: {text}" if place else text

    def to_json(self) -> dict[str, Any]:
        """Convert the finding to a JSON-compatible dict. `line` is a number if `where` is a line, or else None."""
        match = _LINE.match(self.where)
        file = None if self.file is None else str(self.file)
        return {**self._asdict(), "file": file, "line": int(match[1]) if match else None}


class CheckReport(NamedTuple):
    """The findings in a benchmark, in file order, and its number of questions."""

    findings: tuple[Finding, ...]
    questions: int

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that must be fixed before a run."""
        return self._at_level("error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The findings that are probably mistakes."""
        return self._at_level("warning")

    @property
    def unchecked(self) -> tuple[Finding, ...]:
        """The parts that could not be checked."""
        return self._at_level("unchecked")

    def raise_errors(self) -> None:
        """Raise `BenchmarkErrors` if there are any errors."""
        if self.errors:
            raise BenchmarkErrors(self.errors)

    def to_json(self) -> dict[str, Any]:
        """Convert the report to a JSON-compatible dict that includes the number of findings at each level."""
        return {
            "questions": self.questions,
            "errors": len(self.errors),
            "warnings": len(self.warnings),
            "unchecked": len(self.unchecked),
            "findings": [finding.to_json() for finding in self.findings],
        }

    def _at_level(self, level: Level) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.level == level)


class BenchmarkErrors(KareninaError, ValueError):
    """Raised if a benchmark has errors. The message lists the first 20, and `findings` contains all of them."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        lines = [str(finding) for finding in findings[:_SHOWN]]
        more = len(findings) - _SHOWN
        lines += (
            [f"... and {more} more error{'s' * (more > 1)}; `karenina check FILE` lists all of them"]
            if more > 0
            else []
        )
        super().__init__("\n".join(lines))
        self.findings = tuple(findings)


def check_file(
    path: Path,
    trust: Trust | Literal["all"] | None = None,
    columns: Mapping[str, str] | None = None,
    configure: Callable[[BenchmarkContent], VerificationConfig] | None = None,
    checked: Callable[[int, int], None] | None = None,
) -> tuple[BenchmarkContent | None, CheckReport]:
    """Read a benchmark and check it, and return it with the report. Problems in it are not raised, but are findings.
    Questions that cannot be read are omitted, and the benchmark is None if nothing can be read. Nothing that needs
    trust is executed or opened, and no model is called. `configure` returns the run's configuration, by default the
    benchmark's own `config` section.

    `checked` is called after each question with the number of questions checked so far and the total.
    """
    benchmark, findings = read_findings(path, trust, columns)
    if benchmark is None:
        return None, CheckReport(tuple(findings), 0)
    if not len(benchmark) and not findings:
        cure = "add a question (under `questions` in YAML, or as a row in a table)"
        findings.append(Finding("error", path, "", "the file contains no questions", cure))
    config = None if configure is None else configure(benchmark)
    all_findings = [*findings, *check_content(benchmark, trust, config, quality=True, checked=checked)]
    return benchmark, CheckReport(tuple(_in_order(path, all_findings)), len(benchmark))


def read_findings(
    path: Path, trust: Trust | Literal["all"] | None, columns: Mapping[str, str] | None
) -> tuple[BenchmarkContent | None, list[Finding]]:
    """Return the benchmark without its broken questions, and a finding for each error. The benchmark is None if nothing
    can be read. Files that are not trusted are reported as errors and not read.
    """
    from karenina_benchmark.benchmark_files import read_benchmark
    from karenina_engine.check import restricted_values

    chosen = restricted_values.resolve_trust(trust)
    findings: list[Finding] = []

    def may_read(file: Path, names: Sequence[str]) -> bool | None:
        """Return True if all files in `names` that are outside the folder of `file` are trusted, and None if there are
        none. If any are not trusted, add an error for each of them, and return False.
        """
        try:
            return restricted_values.check_paths(file, names, chosen)
        except restricted_values.RestrictedValues as error:
            for value in error.values:
                what = (
                    f"{value.in_words()}: the file was not read because it is outside the benchmark's folder and is "
                    "not trusted"
                )
                findings.append(
                    Finding("error", file, "", what, f"to read it, run `karenina trust {quote(str(file))}`")
                )
            return False

    try:
        benchmark = read_benchmark(path, may_read, columns)
    except BenchmarkFileError as error:
        return None, [*findings, *_error_findings([error])]
    benchmark.leave_out_broken()
    return benchmark, [*findings, *_error_findings([*benchmark.problems, *benchmark.broken])]


def check_content(
    benchmark: BenchmarkContent,
    trust: Trust | Literal["all"] | None = None,
    config: VerificationConfig | None = None,
    ids: Iterable[str] | None = None,
    *,
    quality: bool = False,
    checked: Callable[[int, int], None] | None = None,
    journal: Path | None = None,
) -> list[Finding]:
    """Check a loaded benchmark, or only its questions `ids`, ignoring unknown ones, and return the findings. With
    `quality`, the whole file is checked, and warnings and unchecked parts are reported too; without it, only the
    `config` section and the questions are checked, for errors. A `config` replaces that section.

    For `checked`, see `check_file`. A missing attachment sent in the run with the `journal` is only a warning, which is
    found even without `quality`.
    """
    from karenina_engine.check.restricted_values import resolve_trust

    check = _Check(benchmark, resolve_trust(trust), quality=quality, journal=journal)
    if config is None:
        config = check.read_config()
    if quality:
        check.check_head(config)
    chosen = [id for id in (benchmark.ids if ids is None else ids) if id in benchmark]
    for number, id in enumerate(chosen, 1):
        check.check_question(benchmark.get(id), config)
        if checked is not None:
            checked(number, len(chosen))
    check.check_equal_truths()
    return _in_order(benchmark.path, check.findings)


class QuestionErrorCheck:
    """Checks the questions in `ids` while a run reads them (`RunRequest.question_check`).

    It finds the same errors as `check_content` without `quality`.
    """

    def __init__(
        self,
        benchmark: BenchmarkContent,
        trust: Trust | Literal["all"] | None,
        config: VerificationConfig,
        ids: Iterable[str],
    ) -> None:
        from karenina_engine.check.restricted_values import resolve_trust

        self._benchmark = benchmark
        self._trust = resolve_trust(trust)
        self._config = config
        self._ids = ids
        self._check = _Check(benchmark, self._trust, quality=False)

    def check(self, question: Question) -> None:
        """Raise `BenchmarkErrors` if the question's template has an error. Its traits and plugin fields are not checked
        here, because runs check them anyway.
        """
        own = question if question.has_template else self._benchmark.get(question.id)  # without the shared traits
        self._check.check_template(own, self._config)
        if self._check.findings:
            raise BenchmarkErrors(self._check.findings)

    def raise_errors(self) -> None:
        """Raise `BenchmarkErrors` if there are any errors. The exception also lists the values that need trust."""
        errors = check_content(self._benchmark, self._trust, self._config, self._ids)
        if errors:
            raise BenchmarkErrors([*errors, *find_untrusted_values(self._benchmark, self._trust)])


def find_untrusted_values(
    benchmark: BenchmarkContent, trust: Trust | Literal["all"] | None = None
) -> tuple[Finding, ...]:
    """Return a warning for each restricted value that must be trusted before a run. A benchmark without a path has
    none.
    """
    from karenina_engine.check.restricted_values import resolve_trust

    check = _Check(benchmark, resolve_trust(trust), quality=False)
    check.check_restricted()
    return tuple(check.findings)


def _written_path(place: Section | None, path: Sequence[str]) -> Sequence[str]:
    """Return the path of a value as written in the file, where a plugin's fields may be in their own table. The path is
    empty if the mapping that should contain the value is not in the file.
    """
    if place is None or not path:
        return path
    *above, name = path
    value: Any = place.value
    for part in above:
        value = value.get(part) if isinstance(value, Mapping) else None
    if not isinstance(value, Mapping):
        return ()
    return path if name in value else (*above, *name.split(".", 1))


class _Check:
    """Checks a benchmark and collects the findings. For `quality`, see `check_content`."""

    def __init__(
        self, benchmark: BenchmarkContent, trust: Trust, *, quality: bool, journal: Path | None = None
    ) -> None:
        self.findings: list[Finding] = []
        self._journal = journal
        self._benchmark = benchmark
        self._trust = trust
        self._quality = quality
        self._truths = EqualTruths()
        self._once: set[str] = set()
        from karenina_engine.check.plugin_checks import OwnedFields

        self._fields = OwnedFields(active_plugins())

    def read_config(self) -> VerificationConfig:
        """Return the configuration in the benchmark's `config` section. If the section has errors, they are added to
        the findings, and of all its values, only a valid `evaluation_mode` is kept.
        """
        values = dict(self._benchmark.run_config)
        try:
            return VerificationConfig(**values)
        except ConfigError as error:
            for problem in error.problems:
                name = re.split(r"[: ]", problem, maxsplit=1)[0].strip("'")
                path = [int(part) if part.isdigit() else part for part in name.split(".")]
                self._add("error", self._benchmark.head, f"config: {problem}", "", "config", *path)
        mode = values.get("evaluation_mode")
        try:
            return VerificationConfig(**({} if mode is None else {"evaluation_mode": mode}))
        except ConfigError:
            return VerificationConfig()

    def check_head(self, config: VerificationConfig) -> None:
        """Add findings about everything outside the questions, and about questions with the same text."""
        self.check_restricted()
        for text in self._benchmark.load_warnings:
            self._add("warning", None, text, "")
        first: dict[str, str] = {}
        for question in self._benchmark:
            asked = identify_text(question.question, map(serialize_attachment, question.attachments))
            other = first.setdefault(asked, question.id)
            if other != question.id:
                what = f"the text is the same as in question {other!r}, so the question counts twice"
                self._add(
                    "warning",
                    self._benchmark.place_of(question.id),
                    what,
                    "delete one of the two questions",
                    "question",
                )
        place = self._benchmark.head
        self._check_traits(place, "rubric", self._benchmark.global_rubric, config)
        self._check_traits(place, "dynamic_rubric", self._benchmark.dynamic_rubric, config)
        from karenina_engine.check.plugin_checks import trait_fields

        rubrics = self._benchmark.global_rubric, self._benchmark.dynamic_rubric
        for what, _ in (*self._fields.problems_in(trait_fields(*rubrics)), *self._fields.misplaced(*rubrics)):
            self._add("error", place, what, "", "rubric")

    def check_question(self, question: Question, config: VerificationConfig) -> None:
        """Add findings about a question's template, plugin fields, attachments, turns and traits. Without `quality`,
        traits are only checked for names that are used twice.
        """
        if self._quality:
            place = self._benchmark.place_of(question.id)
            self._check_traits(place, "rubric", question.rubric, config, question.id)
            self._check_traits(place, "dynamic_rubric", question.dynamic_rubric, config, question.id)
        try:
            self._benchmark.with_shared_traits(question)
        except ValueError as error:
            self._add("error", self._benchmark.place_of(question.id), str(error), "", "rubric", question=question.id)
        self.check_template(question, config)
        for what, path in self._fields.problems(question, self._trust):
            place = self._benchmark.place_of(question.id)
            self._add("error", place, what, "", *_written_path(place, path), question=question.id)
        self._check_attachments(question, config)
        for what, field in turn_problems(question, self._trust):
            path = ("answer", field, "turn") if field else ()
            self._add("error", self._benchmark.place_of(question.id), what, "", *path, question=question.id)

    def _check_attachments(self, question: Question, config: VerificationConfig) -> None:
        """Add findings about a question's files that cannot be sent, also to judges, and about photos that state their
        position. Warnings are only added with `quality` or a journal. Judges only get files for traits, which `config`
        may leave out.
        """
        if config.core.evaluation_mode != _NO_MODEL:
            shared = self._benchmark.global_rubric, self._benchmark.dynamic_rubric
            for what, cure in find_unsent(question, *shared):
                self._add("error", self._benchmark.place_of(question.id), what, cure, question=question.id)
        path = self._benchmark.path
        outside = self._restricted[1]
        folder = path.parent if path is not None else None
        for is_error, what, cure in find_problems(question, folder, outside=outside, journal=self._journal):
            if is_error or self._quality or self._journal is not None:
                level: Level = "error" if is_error else "warning"
                place = self._benchmark.place_of(question.id)
                self._add(level, place, what, cure, "attachments", question=question.id)

    def check_template(self, question: Question, config: VerificationConfig) -> None:
        """Add findings about a question's template: whether it exists, may run, can be loaded, and agrees with its
        ground truths. With `quality`, its code is also tried on samples.
        """
        try:
            template = template_of(question, self._trust)
            if template is None:
                self._check_missing_template(question, config)
                return
            bound = template.for_question(question.id)
            if template.has_code:
                from karenina_template.templates.sample_check import check_samples

                what = check_samples(bound)
                if what is not None and self._quality:
                    self._add_in_template(
                        "warning", question, what, "items of this question will end without a verdict", None
                    )
        except UntrustedTemplate as error:
            what = f"{error.code}: the template contains code that is not trusted, so the code was not run"
            cure = TRUST_CURE
            if self._benchmark.path is not None:
                cure = (
                    f"read the code, then run `karenina trust {quote(str(self._benchmark.path))}` (or use --trust-all "
                    "for one run)"
                )
            self._add_in_template("error", question, what, cure, error.line)
            return
        except TemplateError as error:
            for problem in find_errors(question.answer_template or "", error):
                self._add_in_template("error", question, problem.reason, "", problem.line)
            return
        with self._template_files(bound, config):
            self._check_truths(question, bound)

    def check_equal_truths(self) -> None:
        """Warn about different ground truths that a field's rule treats as equal."""
        for id, field, what, cure in self._truths.found:
            self._add("warning", self._benchmark.place_of(id), what, cure, "answer", field, "verify_with", question=id)

    def _check_missing_template(self, question: Question, config: VerificationConfig) -> None:
        """Add an error for a question without a template, unless `evaluation_mode` is `rubric_only`, or
        `template_and_rubric` and the question has traits of its own. For a table without correct answers, only a single
        error is added.
        """
        mode = config.core.evaluation_mode
        if mode == "rubric_only" or (mode == "template_and_rubric" and question.trait_names()):
            return
        if self._benchmark.missing_answers:
            if not any(finding.what == self._benchmark.missing_answers for finding in self.findings):
                self._add("error", None, self._benchmark.missing_answers, "")
            return
        what, cure = "the question has no answer template", "add `answer`"
        if columns := self._benchmark.answer_columns:
            empty = f"is empty in {' and '.join(map(repr, columns))}"
            what = f"the correct answer {f'is {question.raw_answer!r:.40}' if question.raw_answer else empty}"
            cure = "write the answer"
        cure += ', leave the question out (`karenina run --skip-broken`), or set evaluation_mode = "rubric_only"'
        self._add("error", self._benchmark.place_of(question.id), what, cure, question=question.id)

    def _check_truths(self, question: Question, bound: BoundTemplate) -> None:
        """Add findings about ground truths and known values that do not fit the template and, if `quality` is set,
        about what judges see of it.
        """
        self._check_sources(question, bound)
        if self._quality:
            self._truths.add(question.id, bound.template.key.rules)
        flaws = find_flaws(bound, question.question) if self._quality else find_truth_errors(bound)
        said = find_said_truths(bound, question.question, said_texts(question)) if self._quality else ()
        for flaw in (*flaws, *said):
            if flaw.once in self._once:
                continue
            self._once |= {flaw.once} - {""}
            place = self._benchmark.place_of(question.id)
            source, field = question.answer_template or "", flaw.field
            line = None if field is None else find_field_line(source, field)
            if place is not None and place.value.get("template") is not None:
                where = place.where_in_text(line, "template")
                self.findings.append(Finding(flaw.level, place.document.file, where, flaw.what, flaw.cure, question.id))
                continue
            path = [] if field is None else ["answer", field, *([flaw.part] if flaw.part else [])]
            self._add(flaw.level, place, flaw.what, flaw.cure, *path, question=question.id)

    def _template_files(self, bound: BoundTemplate, config: VerificationConfig) -> AbstractContextManager[None]:
        """Return a context manager for checking a template that may name files, see `_files_of_benchmark`."""
        kinds = {type(rule.primitive) for rule in bound.template.key.rules.values()}
        names_files = any(kind.check_files is not Primitive.check_files for kind in kinds)
        return self._files_of_benchmark(config) if names_files else nullcontext()

    @contextmanager
    def _files_of_benchmark(self, config: VerificationConfig) -> Iterator[None]:
        """Resolve files in the folder `template_files`, or else in the benchmark's folder, inside the block, opening
        files elsewhere only if they are trusted.
        """
        own = config.setting("template_files") if config.has("template_files") else None
        folder = own or (self._benchmark.path.absolute().parent if self._benchmark.path is not None else None)
        with files_in(folder), open_only_below(None if self._restricted[1] else folder):
            yield

    @cached_property
    def _restricted(self) -> tuple[Sequence[RestrictedValue], bool]:
        """The restricted values of the benchmark, and whether the user trusts all of them (False if there are none). If
        everything is trusted or the benchmark has no file, the values are not collected: there are none, and the second
        value is True.
        """
        from karenina_engine.check.restricted_values import find_restricted_values, names_and_values
        from karenina_engine.user_files import trusts_values

        path = self._benchmark.path
        if path is None or self._trust.everything:
            return (), True
        values = find_restricted_values(self._benchmark)
        return values, bool(values) and trusts_values(self._trust, path, names_and_values(values))

    def _check_sources(self, question: Question, bound: BoundTemplate) -> None:
        """Add an error for each field whose known value is not offered by any plugin, does not fit the field's type, or
        can never match the ground truth.
        """
        if not bound.sources:
            return
        place, offers = self._benchmark.place_of(question.id), offered_values(active_plugins())
        names, choices = [offer.name for offer in offers], {offer.name: offer.choices for offer in offers}
        for field, source in bound.sources.items():
            what, key = bound.template.why_unfit(field), "type"
            if not any(fnmatchcase(source, name) for name in names):
                what = f"the field {field!r} has the known value {source!r}, {describe_missing_value(source, names)}"
                key = "from"
            rule = bound.template.key.rules[field]
            if what is None and choices.get(source) and not _can_pass(rule, choices[source]):
                near = did_you_mean(str(rule.truth), map(str, choices[source]))
                what, key = (
                    f"none of the values of {source!r} can match the ground truth {rule.truth!r}{near}",
                    "ground_truth",
                )
            if what is not None:
                self._add("error", place, what, "", "answer", field, key, question=question.id)

    def _check_traits(
        self,
        place: Section | None,
        key: str,
        rubric: Rubric | None,
        config: VerificationConfig,
        question: str | None = None,
    ) -> None:
        """Add a warning for each trait of `rubric`, which is at `key` in `place`, that cannot be scored, or that
        `config` does not score.
        """
        names = config.core.rubric_trait_names
        for trait in rubric.traits if rubric is not None else ():
            path = (key, *_trait_path(place, key, trait))
            reason = why_unscorable(trait)
            if reason is not None:
                what = f"the trait {trait.name!r} cannot be scored: {reason}"
                self._add("warning", place, what, "", *path, question=question)
            elif config.core.evaluation_mode == _NO_MODEL:
                what = f"the trait {trait.name!r} is not used because evaluation_mode is {_NO_MODEL!r}"
                cure = "set `evaluation_mode: template_and_rubric` under `config`, or in the run configuration"
                self._add("warning", place, what, cure, *path, question=question)
            elif names is not None and trait.name not in names:
                what = f"the trait {trait.name!r} is not used because it is not listed in rubric_trait_names"
                self._add(
                    "warning", place, what, "add the trait to that list, or remove the trait", *path, question=question
                )

    def check_restricted(self) -> None:
        """Add a warning for each restricted value of the benchmark, unless the user trusts all of them."""
        values, trusted = self._restricted
        path = self._benchmark.path
        if trusted or path is None:
            return
        for value in values:
            question = value.places[0] if value.places else None
            place = self._benchmark.head if question is None else self._benchmark.place_of(question)
            where = () if place is None else _find_path(place.value, value.name)
            what = f"a value must be trusted before a run: {value.in_words(200)}"
            cure = f"read the value, then run `karenina trust {quote(str(path))}`"
            self._add("warning", place, what, cure, *where, question=question)

    def _add_in_template(self, level: Level, question: Question, what: str, cure: str, line: int | None) -> None:
        """Add a finding about a line of a template's source, with its place in the benchmark file. If the file does not
        contain the source, this is the place of the field that the line belongs to.
        """
        place = self._benchmark.place_of(question.id)
        if place is not None and place.value.get("template") is not None:
            where = place.where_in_text(line, "template")
            self.findings.append(Finding(level, place.document.file, where, what, cure, question.id))
            return
        field = field_at(question.answer_template or "", line)
        shown = what if field is None or repr(field) in what else f"field {field!r}: {what}"
        shown = shown if field is not None or line is None else f"line {line} of the template: {what}"
        self._add(level, place, shown, cure, "answer", *(() if field is None else (field,)), question=question.id)

    def _add(
        self,
        level: Level,
        place: Section | None,
        what: str,
        cure: str,
        *path: str | int,
        question: str | None = None,
    ) -> None:
        """Add a finding at `path` in `place`. If `place` is None, the finding is about the question, or about the whole
        file if there is no question either.
        """
        if place is not None:
            file: Path | None = place.document.file
            where = place.where(*path)
        else:
            file, where = self._benchmark.path, ""
            if question is not None:
                where = f"question {self._benchmark.ids.index(question) + 1} ({question})"
        self.findings.append(Finding(level, file, where, what, cure, question))


def find_field_line(source: str, field: str) -> int | None:
    """Return the line that declares `field` in a template's source, or None."""
    declared = re.compile(rf"\s+{re.escape(field)}\s*:")
    return next((number for number, line in enumerate(source.splitlines(), 1) if declared.match(line)), None)


def _find_path(value: object, name: str) -> tuple[str | int, ...]:
    """Return the path of keys and list positions that corresponds to the words of `name`. An example is
    "config.parsing_models, model 'j', temperature". Words that are neither keys nor model ids are ignored.
    """
    path: list[str | int] = []
    for word in re.findall(r"[\w-]+", name):
        if isinstance(value, list):
            places = {entry.get("id"): place for place, entry in enumerate(value) if isinstance(entry, Mapping)}
            if word in places:
                path.append(places[word])
                value = value[places[word]]
        elif isinstance(value, Mapping) and word in value:
            path.append(word)
            value = value[word]
    return tuple(path)


def _trait_path(place: Section | None, key: str, trait: RubricTrait) -> tuple[str | int, ...]:
    """Return the path of a trait in the rubric under `key`, or an empty path if it is unknown."""
    value = place.value.get(key) if place is not None else None
    lists = value.items() if isinstance(value, Mapping) else [(None, value)]
    for name, traits in lists:
        for position, entry in enumerate(traits if isinstance(traits, list) else ()):
            if isinstance(entry, Mapping) and entry.get("name") == trait.name:
                return (position,) if name is None else (name, position)
    return ()


def _error_findings(errors: Iterable[BenchmarkFileError]) -> Iterator[Finding]:
    """Yield a finding for each error and its `others`."""
    for error in errors:
        for problem in error.each():
            yield Finding("error", problem.file, problem.where, problem.what, problem.cure)


def _in_order(path: Path | None, findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings without duplicates, sorted by file and line, with the benchmark's own file first."""

    def key(finding: Finding) -> tuple[bool, str, int]:
        """Return the sorting key of a finding."""
        match = _LINE.match(finding.where)
        return finding.file != path, str(finding.file), int(match[1]) if match else 0

    return sorted(dict.fromkeys(findings), key=key)


def _can_pass(rule: FieldRule, choices: Iterable[object]) -> bool:
    """Return whether any of `choices` can match the truth of `rule`. If they cannot be compared, the result is true."""
    try:
        return any(rule.primitive.check(choice, rule.truth) is not False for choice in choices)
    except Exception:  # a primitive may raise anything; the checks of ground truths report it
        return True
