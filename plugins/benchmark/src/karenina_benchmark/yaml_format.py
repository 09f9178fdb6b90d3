"""The YAML format of benchmarks, for files that people write by hand.

    karenina: 1                            the version of this format
    name: Genes
    config: {...}                          optional defaults for a run
    questions:
      - question: Which gene ...?
        raw_answer: BCL2
        answer:                            a declared template (see `template_declarations`) ...
          gene: {description: The gene that is named, ground_truth: BCL2}
      - question: ...
        template: |                        ... or as source
          class Answer(BaseAnswer): ...
    questions_from:                        optional: rows of a file become questions
      file: rows.jsonl                     a path relative to this file
      columns: {question: text, raw_answer: gold}
      answer:
        gene: {description: ..., ground_truth: {column: gold}}

The questions of rows follow those of `questions`. Saving writes every question, with its template as source. How
scalars are read (`no` is a text, and so is a date) is described in `yaml_reader`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from karenina_benchmark.content import BenchmarkContent
from karenina_benchmark.document import Section
from karenina_benchmark.errors import CheckpointError, explain_error
from karenina_benchmark.keywords import split_keywords
from karenina_benchmark.question_ids import make_question_id
from karenina_benchmark.question_import import make_questions
from karenina_benchmark.table_reader import read_rows
from karenina_benchmark.template_declarations import DeclarationError, make_template_source
from karenina_benchmark.yaml_reader import parse
from karenina_benchmark.yaml_writer import dump
from karenina_core.data.question import Question
from karenina_core.data.rubrics import DynamicRubric, Rubric, trait_to_json
from karenina_core.models.from_files import stays_below
from karenina_template.question_template import keep_template, template_source_of
from karenina_template.templates.errors import TemplateError
from karenina_toolkit.patterns import check_pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karenina_benchmark.format import CheckPaths
    from karenina_template.templates import Template

FORMAT_VERSION = 1
"""The version of this format; newer ones are refused."""

_TEXTS = ("id", "description", "version", "creator", "date_created", "date_modified")
_TOP_KEYS = (
    "karenina",
    "name",
    *_TEXTS,
    "workspace_root",
    "config",
    "metadata",
    "rubric",
    "dynamic_rubric",
    "questions",
    "questions_from",
    "unread",
)
_QUESTION_TEXTS = ("id", "question", "raw_answer", "workspace_path", "date_created", "date_modified")
QUESTION_KEYS = (
    *_QUESTION_TEXTS,
    "answer",
    "strategy",
    "template",
    "keywords",
    "few_shot_examples",
    "rubric",
    "dynamic_rubric",
    "author",
    "sources",
    "metadata",
    "unread",
)
_FIELD = re.compile(r" {4}(\w+): ")
HEAD_KEYS = tuple(key for key in _TOP_KEYS if not key.startswith("questions"))
_IMPORT_KEYS = ("file", "sheet", "columns", "separator", "answer", "strategy", "template", "rubric")


def read_yaml(text: str, path: Path, check_paths: CheckPaths) -> BenchmarkContent:
    """Read a benchmark from a YAML text.

    `check_paths` is called with all files of `questions_from` before any of them is opened. Raises `CheckpointError`
    with the line, and the errors of `check_paths`.
    """
    top = parse(text, path)
    top.check_keys(_TOP_KEYS)
    check_version(top)
    name = top.text("name")
    if name is None or not name.strip():
        raise top.error("the benchmark has no name", "add `name: ...`", "name")
    benchmark = read_head(top, name)
    texts: dict[str, int] = {}
    for position, section in enumerate(top.sections("questions"), 1):
        try:
            question = read_question(section, make_question_id(position, section.text("question") or ""))
            if section.text("id") is None and texts.setdefault(question.question, position) != position:
                same = f"question {texts[question.question]} has the same text"
                raise section.error(same, "delete one of them, or give each an `id`")
            _add(benchmark, [question], section)
        except CheckpointError as error:
            benchmark.broken.append(error)
    sections = top.sections("questions_from")
    names = [section.text("file") or "" for section in sections]
    any_folder = check_paths(path, names) is not False
    for section, name in zip(sections, names, strict=True):
        if any_folder or stays_below(path.parent, name):
            _add(benchmark, _import_rows(section, len(benchmark) + len(benchmark.broken) + 1), section)
    benchmark.date_created = top.text("date_created")
    benchmark.date_modified = top.text("date_modified")
    return benchmark


def check_version(top: Section) -> None:
    """Raise `CheckpointError` unless the key `karenina` gives a version that can be read."""
    version = top.value.get("karenina")
    if version == FORMAT_VERSION and not isinstance(version, bool):
        return
    if version is None:
        what, cure = "`karenina: 1`, the version of the format, is missing", "write it in the first line"
    else:
        what = f"the file has format version {version!r}, and only version {FORMAT_VERSION} can be read"
        cure = "update karenina-benchmark"
    raise top.error(what, cure, "karenina")


def read_head(top: Section, name: str) -> BenchmarkContent:
    """Read the keys of a benchmark other than its questions. Raises `CheckpointError`."""
    benchmark = BenchmarkContent(name, id=top.text("id"))
    benchmark.description = top.text("description") or ""
    benchmark.version = top.text("version") or ""
    benchmark.creator = top.text("creator") or ""
    root = top.text("workspace_root")
    benchmark.workspace_root = None if root is None else Path(root)
    benchmark.run_config = _read_mapping(top, "config")
    benchmark.metadata = _read_mapping(top, "metadata")
    benchmark.unread = _read_mapping(top, "unread")
    benchmark.global_rubric = _read_rubric(top, "rubric", Rubric)
    benchmark.dynamic_rubric = _read_rubric(top, "dynamic_rubric", DynamicRubric)
    benchmark.date_created = top.text("date_created")
    benchmark.date_modified = top.text("date_modified")
    return benchmark


def _add(benchmark: BenchmarkContent, questions: list[Question], section: Section) -> None:
    try:
        benchmark.add_questions(questions)
    except ValueError as error:
        raise section.error(str(error), "correct it there") from error


def read_question(section: Section, id: str) -> Question:
    """Read a question from a mapping; `id` is used if it has none. Raises `CheckpointError` with the line."""
    section.check_keys(QUESTION_KEYS)
    values: dict[str, Any] = {name: section.text(name) for name in _QUESTION_TEXTS}
    if not values["question"]:
        raise section.error("the question has no text", "add `question: ...`")
    values["id"] = values["id"] or id
    texts = section.texts("keywords")
    values["keywords"] = texts if isinstance(section.value.get("keywords"), list) else [*split_keywords(texts)]
    values["few_shot_examples"] = [_read_example(example) for example in section.sections("few_shot_examples")]
    values["answer_template"], template = _read_template(section)
    values["rubric"] = _read_rubric(section, "rubric", Rubric)
    values["dynamic_rubric"] = _read_rubric(section, "dynamic_rubric", DynamicRubric)
    values["author"] = section.value.get("author")
    values["sources"] = section.value.get("sources")
    values["metadata"] = _read_mapping(section, "metadata")
    values["unread"] = _read_mapping(section, "unread")
    try:
        question = Question.model_validate(values)
    except ValueError as error:
        raise section.error(explain_error(error), "correct it there") from error
    if template is not None:
        keep_template(question, template)
    return question


def _read_example(section: Section) -> dict[str, str]:
    section.check_keys(("question", "answer"))
    question, answer = section.text("question"), section.text("answer")
    if not question or answer is None:
        raise section.error("an example needs a `question` and an `answer`", "add the missing one")
    return {"question": question, "answer": answer}


def _read_template(section: Section) -> tuple[str | None, Template | None]:
    """Return the source of the template, and the loaded template if the file declares its fields."""
    fields = section.section("answer")
    source = section.text("template")
    if fields is None:
        if section.value.get("strategy") is not None:
            raise section.error(
                "a `strategy` combines the fields of `answer`, which is missing",
                "add `answer`, or put the strategy into the template's source",
                "strategy",
            )
        return source, None
    if source is not None:
        raise section.error("there are both `answer` and `template`", "keep one of the two", "template")
    try:
        source = make_template_source(fields.value, section.value.get("strategy"))
    except DeclarationError as error:
        raise section.error(error.what, error.cure, *error.path) from error
    return source, _load_declared_template(source, section)


def _load_declared_template(source: str, section: Section) -> Template:
    """Load the generated source of a template; an error names the line of the field in the file.

    The source consists of declarations, so nothing is executed. Plugins are loaded because they may add primitives.
    """
    from karenina_core import plugins
    from karenina_template.templates import load_template

    plugins.active_plugins()
    try:
        return load_template(source)
    except TemplateError as error:
        above = source.splitlines()[: error.line or 0]
        field = next((found[1] for line in reversed(above) if (found := _FIELD.match(line))), None)
        place = ("answer",) if field is None else ("answer", field)
        raise section.error(error.reason, "correct it there", *place) from error


def _import_rows(section: Section, first: int) -> list[Question]:
    section.check_keys(_IMPORT_KEYS)
    name = section.text("file")
    if not name:
        raise section.error("`questions_from` has no `file`", "add `file: rows.jsonl`")
    fields = section.section("answer")
    columns = section.section("columns")
    try:
        return make_questions(
            read_rows(section.document.file.parent / name, section.text("sheet")),
            columns.value if columns is not None else None,
            separator=section.text("separator"),
            answer=fields.value if fields is not None else None,
            strategy=section.value.get("strategy"),
            answer_template=section.text("template"),
            rubric=_read_rubric(section, "rubric", Rubric),
            first=first,
        )
    except CheckpointError as error:
        line = section.document.line(section.path)
        raise CheckpointError(
            error.file,
            error.where,
            error.what,
            f"{error.cure} (imported by {section.document.file.name}, line {line})",
        ) from error


RubricT = TypeVar("RubricT", bound=Rubric)


def _read_rubric(section: Section, key: str, kind: type[RubricT]) -> RubricT | None:
    value = section.value.get(key)
    if value is None:
        return None
    try:
        rubric = kind.model_validate(value)
        _check_patterns(rubric, by_kind=isinstance(value, dict))
    except ValueError as error:
        raise section.error(f"{key}: {explain_error(error)}", "correct it there", key) from error
    return rubric or None


def _check_patterns(rubric: Rubric, *, by_kind: bool) -> None:
    """Raise `ValueError` for a pattern that does not compile; `by_kind` if the rubric has one list of traits a kind."""
    for position, trait in enumerate(rubric.regex_traits):
        try:
            check_pattern(trait.pattern)
        except ValueError as error:
            place = f"regex_traits.{position}.pattern" if by_kind else "pattern"
            raise ValueError(f"{place}: {error}") from error


def _read_mapping(section: Section, key: str) -> dict[str, Any]:
    found = section.section(key)
    return {} if found is None else dict(found.value)


def serialize_yaml(benchmark: BenchmarkContent, path: Path) -> str:
    """Return the benchmark as YAML. Raises `CheckpointError`, which names `path`."""
    data = serialize_head(benchmark)
    data["questions"] = [serialize_question(question, number, path) for number, question in enumerate(benchmark, 1)]
    return dump(data)


def serialize_head(benchmark: BenchmarkContent) -> dict[str, Any]:
    """Return the values of a benchmark other than its questions, by their keys in a file."""
    data: dict[str, Any] = {"karenina": FORMAT_VERSION, "name": benchmark.name}
    data |= {name: getattr(benchmark, name) for name in _TEXTS}
    data["workspace_root"] = None if benchmark.workspace_root is None else str(benchmark.workspace_root)
    data["config"] = benchmark.run_config
    data["metadata"] = benchmark.metadata
    data["rubric"] = _traits(benchmark.global_rubric)
    data["dynamic_rubric"] = _traits(benchmark.dynamic_rubric)
    data["unread"] = benchmark.unread
    return _without_defaults(data)


def serialize_question(question: Question, number: int, path: Path) -> dict[str, Any]:
    """Return the values of a question by their keys in a file. Raises `CheckpointError` with `path` and `number`."""
    try:
        source = template_source_of(question)
    except TemplateError as error:
        raise CheckpointError(
            path, f"question {number} ({question.id})", str(error), "give the template as source instead of a class"
        ) from error
    data: dict[str, Any] = {
        "question": question.question,
        "id": question.id,
        "raw_answer": question.raw_answer,
        "template": source,
        "keywords": list(question.keywords),
        "few_shot_examples": [example.model_dump() for example in question.few_shot_examples],
        "rubric": _traits(question.rubric),
        "dynamic_rubric": _traits(question.dynamic_rubric),
        "workspace_path": question.workspace_path,
        "author": question.author,
        "sources": question.sources,
        "metadata": question.metadata,
        "date_created": question.date_created,
        "date_modified": question.date_modified,
        "unread": question.unread,
    }
    return _without_defaults(data)


def _traits(rubric: Rubric | None) -> list[Any] | None:
    return None if rubric is None else [trait_to_json(trait) for trait in rubric.traits]


_KEPT_IF_EMPTY = {"raw_answer", "workspace_path", "author", "sources", "date_created", "date_modified"}


def _without_defaults(data: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out None, and empty values of keys whose default is empty."""
    return {key: value for key, value in data.items() if value is not None and (value or key in _KEPT_IF_EMPTY)}
