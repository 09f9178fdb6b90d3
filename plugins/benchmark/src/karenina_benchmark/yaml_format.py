"""The readable form of a benchmark: YAML that people write by hand.

    karenina: 1                            the version of this form
    name: Genes
    config: {...}                          optional defaults for a run
    questions:
      - question: Which gene ...?
        raw_answer: BCL2
        answer:                            a template as declarations (see `declarative`) ...
          gene: {description: The gene that is named, ground_truth: BCL2}
      - question: ...
        template: |                        ... or as source
          class Answer(BaseAnswer): ...
    questions_from:                        optional: rows of a file become questions
      file: rows.jsonl                     relative to this file
      columns: {question: text, raw_answer: gold}
      answer:
        gene: {description: ..., ground_truth: {column: gold}}

Rows come after the written questions. Saving writes every question out, with its template as source. How words are
read (`no` is a text, a date is the text that stands there) is said in `yamlform`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from karenina_benchmark.content import BenchmarkContent
from karenina_benchmark.document import Section
from karenina_benchmark.errors import CheckpointError, explain
from karenina_benchmark.keywords import split_keywords
from karenina_benchmark.question_ids import make_question_id
from karenina_benchmark.question_import import read_questions
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

FORM_VERSION = 1
"""The version of this form; a newer one is refused."""

_TEXTS = ("id", "description", "version", "creator", "date_created", "date_modified")
_TOP = (
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
HEAD_KEYS = tuple(key for key in _TOP if not key.startswith("questions"))
_FROM = ("file", "sheet", "columns", "separator", "answer", "strategy", "template", "rubric")


def read_yaml(text: str, path: Path, check_paths: CheckPaths) -> BenchmarkContent:
    """Return the benchmark that a YAML text holds.

    `check_paths` is called before a file of `questions_from` is opened, with all of them. Raises `CheckpointError` with
    the line, and what `check_paths` raises.
    """
    top = parse(text, path)
    top.check_keys(_TOP)
    check_version(top)
    name = top.text("name")
    if name is None or not name.strip():
        raise top.error("the benchmark has no name", "write `name: ...`", "name")
    benchmark = read_head(top, name)
    texts: dict[str, int] = {}
    for place, section in enumerate(top.sections("questions"), 1):
        try:
            question = read_question(section, make_question_id(place, section.text("question") or ""))
            if section.text("id") is None and texts.setdefault(question.question, place) != place:
                same = f"question {texts[question.question]} has the same text"
                raise section.error(same, "delete one of them, or write an `id` for both")
            _add(benchmark, [question], section)
        except CheckpointError as error:
            benchmark.broken.append(error)
    sections = top.sections("questions_from")
    names = [section.text("file") or "" for section in sections]
    everywhere = check_paths(path, names) is not False
    for section, name in zip(sections, names, strict=True):
        if everywhere or stays_below(path.parent, name):
            _add(benchmark, _rows(section, len(benchmark) + len(benchmark.broken) + 1), section)
    benchmark.date_created = top.text("date_created")
    benchmark.date_modified = top.text("date_modified")
    return benchmark


def check_version(top: Section) -> None:
    """Raise `CheckpointError` unless `karenina` says that the form is of this version."""
    version = top.value.get("karenina")
    if version == FORM_VERSION and not isinstance(version, bool):
        return
    missing = version is None
    what = "`karenina: 1`, the version of the form, is missing" if missing else f"the form has version {version!r}"
    cure = "write it in the first line" if missing else f"version {FORM_VERSION} can be read; update karenina-core"
    raise top.error(what, cure, "karenina")


def read_head(top: Section, name: str) -> BenchmarkContent:
    """The benchmark that the keys beside its questions describe, without questions. Raises `CheckpointError`."""
    benchmark = BenchmarkContent(name, id=top.text("id"))
    benchmark.description = top.text("description") or ""
    benchmark.version = top.text("version") or ""
    benchmark.creator = top.text("creator") or ""
    root = top.text("workspace_root")
    benchmark.workspace_root = None if root is None else Path(root)
    benchmark.run_config = _mapping(top, "config")
    benchmark.metadata = _mapping(top, "metadata")
    benchmark.unread = _mapping(top, "unread")
    benchmark.global_rubric = _rubric(top, "rubric", Rubric)
    benchmark.dynamic_rubric = _rubric(top, "dynamic_rubric", DynamicRubric)
    benchmark.date_created = top.text("date_created")
    benchmark.date_modified = top.text("date_modified")
    return benchmark


def _add(benchmark: BenchmarkContent, questions: list[Question], section: Section) -> None:
    try:
        benchmark.add_questions(questions)
    except ValueError as error:
        raise section.error(str(error), "correct it there") from error


def read_question(section: Section, id: str) -> Question:
    """The question that a mapping of its fields is; `id` is for one without. Raises `CheckpointError` with the line."""
    section.check_keys(QUESTION_KEYS)
    values: dict[str, Any] = {name: section.text(name) for name in _QUESTION_TEXTS}
    if not values["question"]:
        raise section.error("the question has no text", "write `question: ...`")
    values["id"] = values["id"] or id
    texts = section.texts("keywords")
    values["keywords"] = texts if isinstance(section.value.get("keywords"), list) else [*split_keywords(texts)]
    values["few_shot_examples"] = [_example(example) for example in section.sections("few_shot_examples")]
    values["answer_template"], template = _template(section)
    values["rubric"] = _rubric(section, "rubric", Rubric)
    values["dynamic_rubric"] = _rubric(section, "dynamic_rubric", DynamicRubric)
    values["author"] = section.value.get("author")
    values["sources"] = section.value.get("sources")
    values["metadata"] = _mapping(section, "metadata")
    values["unread"] = _mapping(section, "unread")
    try:
        question = Question.model_validate(values)
    except ValueError as error:
        raise section.error(explain(error), "correct it there") from error
    if template is not None:
        keep_template(question, template)
    return question


def _example(section: Section) -> dict[str, str]:
    section.check_keys(("question", "answer"))
    question, answer = section.text("question"), section.text("answer")
    if not question or answer is None:
        raise section.error("an example has a `question` and an `answer`", "add what is missing")
    return {"question": question, "answer": answer}


def _template(section: Section) -> tuple[str | None, Template | None]:
    """The source of the template, and the template itself where the file declares it."""
    fields = section.section("answer")
    source = section.text("template")
    if fields is None:
        if section.value.get("strategy") is not None:
            raise section.error(
                "a `strategy` combines the fields of `answer`, which is missing",
                "write `answer`, or put the strategy into the template's source",
                "strategy",
            )
        return source, None
    if source is not None:
        raise section.error("there are both `answer` and `template`", "keep one of the two", "template")
    try:
        made = make_template_source(fields.value, section.value.get("strategy"))
    except DeclarationError as error:
        raise section.error(error.what, error.cure, *error.path) from error
    return made, _built(made, section)


def _built(source: str, section: Section) -> Template:
    """The template, or an error at the field of the file that declares it, and not at a line of its source.

    It holds declarations only, so nothing is executed. Plugins are looked up because they may bring the primitive.
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


def _rows(section: Section, first: int) -> list[Question]:
    section.check_keys(_FROM)
    name = section.text("file")
    if not name:
        raise section.error("`questions_from` has no `file`", "write `file: rows.jsonl`")
    fields = section.section("answer")
    columns = section.section("columns")
    try:
        return read_questions(
            section.document.file.parent / name,
            columns.value if columns is not None else None,
            sheet=section.text("sheet"),
            separator=section.text("separator"),
            answer=fields.value if fields is not None else None,
            strategy=section.value.get("strategy"),
            answer_template=section.text("template"),
            rubric=_rubric(section, "rubric", Rubric),
            first=first,
        )
    except CheckpointError as error:
        line = section.document.line(section.path)
        raise CheckpointError(
            error.file,
            error.where,
            error.what,
            f"{error.cure} (asked for by {section.document.file.name}, line {line})",
        ) from error


RubricT = TypeVar("RubricT", bound=Rubric)


def _rubric(section: Section, key: str, kind: type[RubricT]) -> RubricT | None:
    value = section.value.get(key)
    if value is None:
        return None
    try:
        rubric = kind.model_validate(value)
        _check_patterns(rubric, by_kind=isinstance(value, dict))
    except ValueError as error:
        raise section.error(f"{key}: {explain(error)}", "correct it there", key) from error
    return rubric or None


def _check_patterns(rubric: Rubric, *, by_kind: bool) -> None:
    """Raise `ValueError` for a pattern that does not compile. `by_kind`: the rubric is written as lists of traits."""
    for position, trait in enumerate(rubric.regex_traits):
        try:
            check_pattern(trait.pattern)
        except ValueError as error:
            place = f"regex_traits.{position}.pattern" if by_kind else "pattern"
            raise ValueError(f"{place}: {error}") from error


def _mapping(section: Section, key: str) -> dict[str, Any]:
    found = section.section(key)
    return {} if found is None else dict(found.value)


def serialize_yaml(benchmark: BenchmarkContent, path: Path) -> str:
    """The benchmark as YAML. Raises `CheckpointError`; `path` is only named in it."""
    data = serialize_head(benchmark)
    data["questions"] = [serialize_question(question, place, path) for place, question in enumerate(benchmark, 1)]
    return dump(data)


def serialize_head(benchmark: BenchmarkContent) -> dict[str, Any]:
    """What the form says of a benchmark beside its questions."""
    data: dict[str, Any] = {"karenina": FORM_VERSION, "name": benchmark.name}
    data |= {name: getattr(benchmark, name) for name in _TEXTS}
    data["workspace_root"] = None if benchmark.workspace_root is None else str(benchmark.workspace_root)
    data["config"] = benchmark.run_config
    data["metadata"] = benchmark.metadata
    data["rubric"] = _traits(benchmark.global_rubric)
    data["dynamic_rubric"] = _traits(benchmark.dynamic_rubric)
    data["unread"] = benchmark.unread
    return _said(data)


def serialize_question(question: Question, place: int, path: Path) -> dict[str, Any]:
    """What the form says of a question, the one at `place`. Raises `CheckpointError`; `path` is only named in it."""
    try:
        source = template_source_of(question)
    except TemplateError as error:
        raise CheckpointError(
            path, f"question {place} ({question.id})", str(error), "give the template as source text instead of a class"
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
    return _said(data)


def _traits(rubric: Rubric | None) -> list[Any] | None:
    return None if rubric is None else [trait_to_json(trait) for trait in rubric.traits]


_EVEN_EMPTY = {"raw_answer", "workspace_path", "author", "sources", "date_created", "date_modified"}


def _said(data: Mapping[str, Any]) -> dict[str, Any]:
    """What has something to say: not None, nor an empty value where that is the default."""
    return {key: value for key, value in data.items() if value is not None and (value or key in _EVEN_EMPTY)}
