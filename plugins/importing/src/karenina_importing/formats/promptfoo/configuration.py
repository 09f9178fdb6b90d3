"""promptfoo configurations: `promptfooconfig.yaml`, in YAML or JSON, with the files they refer to.

A row is one test with one filled-in prompt. Nothing is executed, so a part that a program would generate becomes a row
with a problem. Environment variables, and files outside the configuration's folder, are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path, PurePath
from typing import Any, Final

from karenina_benchmark.document import Document
from karenina_benchmark.errors import BenchmarkFileError
from karenina_importing.attached_media import store_url, take_media, take_named
from karenina_importing.formats.promptfoo.assertions import convert, expected_answer, read_part
from karenina_importing.formats.promptfoo.files import FILE, Folder, NotRead, is_table, read_document
from karenina_importing.formats.promptfoo.keys import (
    ANSWERS,
    CONFIG_KEYS,
    is_simulated,
    misspelt,
    turns_of,
    unread_keys,
    unread_of_test,
)
from karenina_importing.formats.promptfoo.prompts import PROGRAM, Prompt, is_wanted, read_prompts
from karenina_importing.formats.promptfoo.providers import describe_providers
from karenina_importing.formats.promptfoo.templates import NotFilled, fill, fill_all, fill_variables, names_in
from karenina_importing.formats.promptfoo.tests import (
    RUN_IT,
    Test,
    expand,
    list_of,
    merge_tests,
    read_scenarios,
    read_test_file,
    read_tests,
)
from karenina_importing.formats.structured_values import as_mapping, as_messages, is_short
from karenina_importing.source_files import SourceRow
from karenina_toolkit.attachments.media_types import SUFFIXES
from karenina_toolkit.printable import in_one_line

KEYS: Final = frozenset({"prompts", "providers", "targets", "tests", "scenarios", "defaultTest", "redteam"})
"""Keys that identify a configuration."""
_QUESTIONS: Final = ("prompt", "question", "query", "input", "message", "user_message", "user_input", "text")
_ASKING: Final = ("prompts", "tests", "scenarios", "redteam")
"""Keys that contain questions. A configuration needs at least one of them."""
_MOST_ROWS: Final = 25_000
_MOST_CHARACTERS: Final = 20_000_000
_MEDIA_URL: Final = re.compile(rf"https?://\S+(?:{'|'.join(map(re.escape, SUFFIXES))})(?:\?\S*)?\Z", re.IGNORECASE)
_SECRET: Final = re.compile(
    r"api[_-]?key|(?:^|[_-])key$|token$|secret|passwor|passphrase|credential|authorization", re.IGNORECASE
)
"""Names of values that may be secrets and are not copied."""


def is_configuration(value: Any) -> bool:
    """Return whether a value has at least two keys of a configuration and is not a Karenina benchmark."""
    return isinstance(value, Mapping) and len(value.keys() & KEYS) >= 2 and "karenina" not in value


def is_test(value: Any) -> bool:
    """Return whether a value is a promptfoo test: it has variables, and either assertions or no other keys. Keys that
    do not matter are `description`, `metadata` and `options`.
    """
    return (
        isinstance(value, Mapping)
        and isinstance(value.get("vars"), Mapping)
        and (isinstance(value.get("assert"), list) or value.keys() <= {"vars", "description", "metadata", "options"})
    )


def config_rows(path: Path) -> Iterator[SourceRow]:
    """Yield the rows of a configuration or a test file. Raises `BenchmarkFileError` if the file is neither, or if it
    has no question.
    """
    folder = Folder(path.parent)
    if is_table(path):
        yield from _Config(Document(path, {}, {}, {}), {}, folder).rows(read_test_file(path, folder))
        return
    document = read_document(path)
    if isinstance(document.value, list):
        yield from _Config(document, {}, folder).rows(read_tests(document.value, document, (), folder))
        return
    wrong = misspelt(document.value) if isinstance(document.value, Mapping) else {}
    if wrong and not document.value.keys() & {"prompts", "tests", "scenarios"}:
        listed = ", ".join(f"{key!r:.40} (did you mean `{right}`?)" for key, right in wrong.items())
        raise BenchmarkFileError(path, "", f"promptfoo does not recognize {listed}", "correct the spelling")
    if not isinstance(document.value, Mapping) or not document.value.keys() & KEYS:
        what = "the file is neither a promptfoo configuration, nor a list of tests, nor results in JSON"
        raise BenchmarkFileError(
            path, "", what, "choose a different file. To create a results file, run `promptfoo eval -o results.json`"
        )
    default = document.value.get("defaultTest")
    has_variables = isinstance(default, str) or as_mapping(default).get("vars")
    if not has_variables and not any(document.value.get(key) for key in _ASKING):
        what = "the configuration has neither `prompts` nor `tests`, so it contains no questions"
        raise BenchmarkFileError(path, "", what, "add `prompts` or `tests`, or import a configuration that has them")
    config = _Config(document, document.value, folder)
    yield from config.rows(config.tests())


class _Config:
    """A configuration, which combines tests and prompts into rows."""

    def __init__(self, document: Document, value: Mapping[str, Any], folder: Folder) -> None:
        """Read the default test, and record the keys that are left out. Raises `BenchmarkFileError` if the file with
        the default test cannot be read.
        """
        self._document = document
        self._value = value
        self._folder = folder
        self._count = 0
        self._size = 0
        self._lacks_prompts = False
        unread = ", ".join(unread_keys(value, CONFIG_KEYS))
        self._notes = [f"Not carried over from the configuration: {unread}"] if unread else []
        self._notes += describe_providers(value)
        self._default = self._read_default(value.get("defaultTest"))

    def rows(self, tests: Iterator[Test]) -> Iterator[SourceRow]:
        """Yield a row for each test and prompt. If a test or prompt cannot be read, its row has a problem. If no prompt
        can be read, the tests are skipped. Without prompts, each test needs a variable that contains the question.
        """
        prompts = list(read_prompts(self._value.get("prompts"), self._folder, self._notes))
        for prompt in prompts:
            if prompt.problem:
                yield self._problem(f"prompt {prompt.label}".strip(), prompt.problem)
        usable = [prompt for prompt in prompts if not prompt.problem]
        if prompts and not usable:
            return
        read = list(islice(tests, _MOST_ROWS))
        merged = [merge_tests(self._default, test.values) for test in read if not test.problem]
        if merged and not any(
            values.get("assert") or as_mapping(values.get("vars")).keys() & set(ANSWERS) for values in merged
        ):
            count = f"None of the {len(merged)} tests has" if len(merged) > 1 else "The only test does not have"
            cure = f"add `assert` to {self._document.file}, or add traits to the benchmark"
            self._notes.insert(0, f"{count} any assertions; {cure}")
        for test in chain(read, tests):
            if test.problem:
                yield self._problem(test.place, test.problem)
            else:
                yield from self._test_rows(test, usable)

    def tests(self) -> Iterator[Test]:
        """Yield the tests in the configuration and its scenarios, or a test without variables if it declares neither.
        If a program would generate the tests, yields a single test with a problem.
        """
        value = self._value
        any_test = False
        for test in read_tests(value.get("tests"), self._document, ("tests",), self._folder):
            any_test = True
            yield test
        for test in read_scenarios(value.get("scenarios"), self._document, self._folder, self._notes):
            any_test = True
            yield test
        if any_test:
            return
        if "redteam" in value:
            yield Test("redteam", {}, f"promptfoo itself generates the `redteam` tests; {RUN_IT}")
        elif not value.get("tests") and not value.get("scenarios"):
            yield Test("prompts", {})

    def _problem(self, place: str, problem: str) -> SourceRow:
        """Make a row with a problem. The first row also gets the notes about the configuration."""
        notes, self._notes = self._notes, []
        return SourceRow(place, {}, problem, notes=notes)

    def _read_default(self, default: Any) -> Mapping[str, Any]:
        """Return `defaultTest`, which may be in a file, or an empty mapping without one. If it is not an object, a note
        is added. Raises `BenchmarkFileError` if the file cannot be read.
        """
        if isinstance(default, str):
            try:
                default = self._folder.value(default)
            except NotRead as error:
                raise BenchmarkFileError(
                    self._document.file,
                    "",
                    f"defaultTest: {error}",
                    "write the default test in the configuration itself",
                ) from error
        if default is not None and not isinstance(default, Mapping):
            self._notes.append("Not carried over from the configuration: defaultTest, which is not an object")
        return default if isinstance(default, Mapping) else {}

    def _test_rows(self, test: Test, prompts: list[Prompt]) -> Iterator[SourceRow]:
        """Yield a row for each combination of a test's variables with each of its prompts. If the test cannot be read,
        yields one row with a problem. Raises `BenchmarkFileError` if the tests so far have more than 25,000 rows.
        """
        values = merge_tests(self._default, test.values)
        options = as_mapping(values.get("options"))
        try:
            files: dict[str, bytes] = {}
            variables = self._read_variables(values.get("vars"), files)
            if isinstance(values.get("prompt"), str):
                variables.setdefault("prompt", values["prompt"])
            used = names_in([candidate.raw for candidate in prompts]) | names_in(values.get("assert"))
            turns = [
                str(key) for key, variable in variables.items() if key not in used and turns_of(str(key), variable)
            ]
            conversation = {key: variables.pop(key) for key in turns}
            names = [str(name) for name in list_of(values.get("prompts"))]
            chosen = [candidate for candidate in prompts if not names or is_wanted(candidate.label, names)]
            combinations = list(expand(variables, whole=options.get("disableVarExpansion") is True))
            self._count += len(combinations) * max(1, len(chosen))
            if self._count > _MOST_ROWS:
                what = f"the tests and prompts produce more than {_MOST_ROWS:,} questions"
                raise BenchmarkFileError(self._document.file, "", what, "split the file into several files")
            for combination in combinations:
                for prompt in chosen or [self._default_prompt(combination)]:
                    filled = {**fill_variables(combination), **conversation}
                    yield self._row(test.place, prompt, values, options, filled, turns, files)
        except (NotRead, NotFilled) as error:
            yield self._problem(test.place, str(error))

    def _default_prompt(self, variables: Mapping[str, Any]) -> Prompt:
        """Return the prompt of a test without prompts: a placeholder for the variable that contains the question. If it
        is unclear which variable this is, the prompt has no text, and a note is added once.
        """
        texts = [name for name, value in variables.items() if isinstance(value, str)]
        named = next((name for name in _QUESTIONS if name in texts), None)
        if named is None and len(variables) != 1:
            several = ", ".join(in_one_line(str(variable))[:40] for variable in islice(variables, 10))
            which = (
                f"any of the variables {several} could be the question" if variables else "the test has no variables"
            )
            if not self._lacks_prompts:
                cure = "add `prompts`" + (
                    ", or name the question variable with --map question=vars.NAME" if variables else ""
                )
                self._notes.insert(0, f"There are no `prompts`, and {which}; {cure}")
            self._lacks_prompts = True
            return Prompt("")
        return Prompt(f"{{{{ {named or next(iter(variables))} }}}}")

    def _read_media(self, value: Any, files: dict[str, bytes]) -> Any:
        """Add the media that a value contains as a data URL or names as a file to `files`, and return its new path.
        Other values are returned unchanged, with a note if they are URLs of media. Raises `NotRead` if a file cannot
        be attached.
        """
        if not isinstance(value, str):
            return value
        if value.startswith(FILE) and PurePath(value).suffix.lower() in SUFFIXES:
            return self._folder.media(value, files)
        note = "URLs of pictures, PDFs and sound are not fetched, and stay in the text. Download and name the files."
        if _MEDIA_URL.match(value) and note not in self._notes:
            self._notes.append(note)
        return store_url(value, files) or value

    def _read_variables(self, source: Any, files: dict[str, bytes]) -> dict[str, Any]:
        """Return the variables in `source`, which may be the name of a file, with the contents of the files they refer
        to. Files that can be attached are added to `files`, and their paths take their place. Raises `NotRead` if a
        program generates a value, or if a file cannot be read.
        """
        if isinstance(source, str):
            source = self._folder.value(source)
        variables = dict(source) if isinstance(source, Mapping) else {}
        for name, value in variables.items():
            if isinstance(value, list):
                variables[name] = [self._read_media(entry, files) for entry in value]
            elif (media := self._read_media(value, files)) is not value:
                variables[name] = media
            elif isinstance(value, str) and value.startswith(FILE):
                if PROGRAM.search(value):
                    raise NotRead(f"the variable {name!r:.40} is generated by a program ({value!r:.80}); {RUN_IT}")
                variables[name] = self._folder.value(value)
        return variables

    def _row(
        self,
        place: str,
        prompt: Prompt,
        values: Mapping[str, Any],
        options: Mapping[str, Any],
        variables: Mapping[str, Any],
        turns: Sequence[str],
        files: Mapping[str, bytes],
    ) -> SourceRow:
        """Make the row for one test, whose `values` include everything it inherits, and one prompt, with the notes
        collected so far. Long metadata, and values whose names suggest a secret, are left out. Raises `NotFilled` if
        only promptfoo can make the prompt, and `BenchmarkFileError` if the rows become too large.

        `options` are the options of the test. `turns` names the variables that contain a conversation, and `files`
        contains the files in variables, by path.
        """
        missing: set[str] = set()
        if "_conversation" in str(prompt.raw):
            raise NotFilled(
                "the prompt includes the conversation so far (`_conversation`), which only promptfoo can "
                f"fill in; {RUN_IT}"
            )
        raw = fill_all(prompt.raw, variables, missing)
        if isinstance(raw, str):
            ends = [fill(str(options.get(name) or ""), variables) for name in ("prefix", "suffix")]
            raw = f"{ends[0]}{raw}{ends[1]}"
        sent = {path: data for path, data in files.items() if path in str(raw)}
        raw = take_named(as_messages(raw), sent) if sent else raw
        raw = take_media(raw, sent)
        if is_simulated(values.get("provider")):
            raise NotFilled(f"the test's `provider` is a model that plays the user; {RUN_IT}")
        if turns and not raw:
            names = ", ".join(turns)
            raise NotFilled(
                f"the test is a conversation (with the turns in {names:.80}) that a program sends; {RUN_IT}"
            )
        self._size += len(str(raw))
        if self._size > _MOST_CHARACTERS:
            what = f"the questions contain more than {_MOST_CHARACTERS:,} characters in total"
            raise BenchmarkFileError(self._document.file, "", what, "split the file into several files")
        assertions = self._referred(values.get("assert"))
        transforms = [name for name in ("transform", "postprocess") if options.get(name)]
        transform = options[transforms[0]] if transforms else None
        done = convert(
            assertions, variables, threshold=values.get("threshold"), read=self._read_value, transform=transform
        )
        left_out = [*done.left_out, *(f"the variable {name}, which has no value" for name in sorted(missing))]
        if done.fields or not done.traits or read_part(transform) is None:
            left_out += [f"{name} of the output" for name in transforms]
        left_out += [name for name in ("assertScoringFunction",) if values.get(name)]
        left_out += unread_of_test(values) + [f"the conversation in {name:.40}" for name in turns]
        own = as_mapping(values.get("metadata")).items()
        left_out += [f"metadata.{key!s:.40}, which is long" for key, value in own if value and not is_short(value)]
        used = names_in(prompt.raw) | names_in(assertions) | set(turns)
        unused = {key: value for key, value in variables.items() if key not in used and is_short(value)}
        unsent = sorted(str(key) for key, value in unused.items() if isinstance(value, str) and value in files)
        left_out += [f"the file in {key:.40}, which the prompt does not use" for key in unsent]
        unused = {key: value for key, value in unused.items() if str(key) not in unsent}
        metadata = {
            **unused,
            **{key: value for key, value in as_mapping(values.get("metadata")).items() if is_short(value)},
        }
        secrets = sorted(key for key in metadata if _SECRET.search(str(key)))
        left_out += [f"the value {name!s:.60}, which may be a secret" for name in secrets]
        metadata = {key: value for key, value in metadata.items() if key not in secrets}
        attached = {"attachments": [*sent]} if sent else {}
        question = {**done.question, **({"metadata": metadata} if metadata else {}), **attached}
        notes, self._notes = self._notes, []
        return SourceRow(
            place,
            {
                "prompt": {"raw": raw, "label": prompt.label},
                "vars": variables,
                "testCase": {key: value for key, value in values.items() if key != "vars"},
                "expected": expected_answer(assertions, variables),
                "response": {"output": values.get("providerOutput")},
            },
            question=question,
            left_out=left_out,
            notes=notes,
            files=sent,
        )

    def _referred(self, assertions: Any) -> Any:
        """Return the assertions with each reference replaced by the assertion in `assertionTemplates` that it names.
        Keys next to a reference take precedence; if the assertion is missing, only they remain.
        """
        if not isinstance(assertions, list):
            return assertions
        resolved = []
        for assertion in assertions:
            reference = assertion.get("$ref") if isinstance(assertion, Mapping) else None
            if isinstance(reference, str) and reference.startswith("#/"):
                value: Any = self._value
                for key in reference[2:].split("/"):
                    value = value.get(key) if isinstance(value, Mapping) else None
                assertion = {
                    **as_mapping(value),
                    **{key: setting for key, setting in assertion.items() if key != "$ref"},
                }
            resolved.append(assertion)
        return resolved

    def _read_value(self, name: str) -> Any:
        """Return the contents of a file that an assertion refers to, parsed if it is JSON or YAML, or None if it cannot
        be read.
        """
        try:
            return self._folder.value(name)
        except NotRead:
            return None
