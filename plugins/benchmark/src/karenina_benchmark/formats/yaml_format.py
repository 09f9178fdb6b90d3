"""The YAML format for benchmarks that people write by hand.

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

Questions from rows follow the questions in `questions`. Saving writes every question, with its template as source. For
how scalars are read, see `yaml_files`: `no` is a string, and so is a date.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from karenina_benchmark.content import BenchmarkContent, split_keywords
from karenina_benchmark.declared_templates import declare_template
from karenina_benchmark.errors import BenchmarkFileError, Problems, describe_version, explain_error, nearest_key
from karenina_benchmark.question_ids import identify_text, make_question_id
from karenina_benchmark.saved_attachments import serialize_attachment
from karenina_benchmark.template_declarations import (
    DeclarationError,
    field_at,
    keep_written_truths,
    make_template_source,
)
from karenina_benchmark.yaml_files import dump, parse
from karenina_core.catalog import read_catalog
from karenina_core.data.question import Question
from karenina_core.data.rubrics import DynamicRubric, Rubric, trait_kinds, trait_to_json
from karenina_core.models.attachments import Attachment
from karenina_core.namespaces import flatten, is_owned
from karenina_core.plugins import active_plugins
from karenina_template.question_template import keep_template, template_source_of
from karenina_template.templates.errors import TemplateError
from karenina_template.templates.source.loading import load_template
from karenina_toolkit.files.bounded_files import open_only_below
from karenina_toolkit.files.safe_paths import stays_below
from karenina_toolkit.patterns import check_pattern

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from karenina_benchmark.document import Section
    from karenina_benchmark.formats.format import CheckPaths
    from karenina_template.templates import Template

FORMAT_VERSION = 1
"""The version of this format. Files with a newer version are rejected."""

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
    "attachments",
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
_KNOWN_KEYS = frozenset(QUESTION_KEYS)
HEAD_KEYS = tuple(key for key in _TOP_KEYS if not key.startswith("questions"))
_IMPORT_KEYS = ("file", "sheet", "columns", "separator", "answer", "strategy", "template", "rubric")


def read_yaml(text: str, path: Path, check_paths: CheckPaths) -> BenchmarkContent:
    """Read a benchmark from a YAML document. Errors are not raised, but collected, with their lines, in the benchmark's
    `problems` and `broken`. If `check_paths` returns False for the files in `questions_from`, those outside the folder
    of `path` are skipped. Raises `BenchmarkFileError` only if the document is not valid YAML, and any exception raised
    by `check_paths`.

    `check_paths` is called before any of the files is opened.
    """
    problems = Problems()
    top = parse(text, path, problems)
    problems.attempt(top.check_keys, _TOP_KEYS)
    problems.attempt(check_version, top)
    name = problems.attempt(_read_name, top)
    benchmark = read_head(top, name or path.stem or "benchmark", problems)
    benchmark.problems = problems.found
    modified = benchmark.date_modified  # adding questions changes it
    texts: dict[str, tuple[int, str]] = {}
    broken = Problems()
    for position, section in enumerate(problems.attempt(top.sections, "questions", broken) or (), 1):
        broken.attempt(_add_question, benchmark, section, position, texts)
    benchmark.broken = broken.found
    sections = problems.attempt(top.sections, "questions_from", problems) or []
    names = [problems.attempt(section.text, "file") or "" for section in sections]
    outside = check_paths(path, names)
    for section, name in zip(sections, names, strict=True):
        below = stays_below(path.parent, name)
        if below or outside is not False:
            with open_only_below(None if outside and not below else path.parent):
                problems.attempt(_add_rows, benchmark, section)
    benchmark.date_modified = modified
    return benchmark


def _read_name(top: Section) -> str:
    """Return the benchmark's name. Raises `BenchmarkFileError` if it is missing or empty."""
    name = top.text("name")
    if name is None or not name.strip():
        raise top.error("the benchmark has no name", "add `name: ...`", "name")
    return name


def _add_question(
    benchmark: BenchmarkContent, section: Section, position: int, texts: dict[str, tuple[int, str]]
) -> None:
    """Add the question in a mapping to the benchmark, and, if it has no id, its text and attachments to `texts`, with
    its position and line. Raises `BenchmarkFileError` if it is invalid, repeats an id, or has no id and repeats another
    question.
    """
    problems = Problems()
    text = problems.attempt(section.text, "question") or ""
    id = "" if section.value.get("id") else make_question_id(position, text)
    question = problems.attempt(read_question, section, id)
    where = section.where("question")
    if section.value.get("id") is None and text:
        files = section.value.get("attachments") or []
        asked = identify_text(text, files if isinstance(files, list) else [files])
        first, line = texts.setdefault(asked, (position, where))
        if first != position:
            same = f"question {first} ({line}) has the same text"
            problems.found.append(section.error(same, "delete one of them, or give each an `id`", "question"))
    if question is None or problems.found:
        problems.raise_all()
    else:
        _add(benchmark, {question.id: (section, question)}, section)


def check_version(top: Section) -> None:
    """Raise `BenchmarkFileError` unless the key `karenina` has a supported version."""
    version = top.value.get("karenina")
    if version == FORMAT_VERSION and not isinstance(version, bool):
        return
    if version is None:
        what, cure = "the format version `karenina: 1` is missing", "write it on the first line"
    else:
        what, cure = describe_version(version, FORMAT_VERSION)
    raise top.error(what, cure, "karenina")


def read_head(top: Section, name: str, problems: Problems) -> BenchmarkContent:
    """Return a benchmark called `name` with all content of `top` except the questions. Values that cannot be read are
    left empty, and their errors are added to `problems`.
    """
    attempt = problems.attempt
    benchmark = BenchmarkContent(name, id=attempt(top.text, "id"))
    benchmark.head = top
    benchmark.description = attempt(top.text, "description") or ""
    benchmark.version = attempt(top.text, "version") or ""
    benchmark.creator = attempt(top.text, "creator") or ""
    root = attempt(top.text, "workspace_root")
    benchmark.workspace_root = None if root is None else Path(root)
    benchmark.run_config = attempt(_read_mapping, top, "config") or {}
    benchmark.metadata = attempt(_read_mapping, top, "metadata") or {}
    benchmark.unread = attempt(_read_mapping, top, "unread") or {}
    benchmark.global_rubric = attempt(_read_rubric, top, "rubric", Rubric)
    benchmark.dynamic_rubric = attempt(_read_rubric, top, "dynamic_rubric", DynamicRubric)
    benchmark.date_created = attempt(top.text, "date_created")
    benchmark.date_modified = attempt(top.text, "date_modified")
    return benchmark


def _add(benchmark: BenchmarkContent, questions: Mapping[str, tuple[Section, Question]], section: Section) -> None:
    """Add the questions that can be added, with their places, then raise `BenchmarkFileError` for the others: with both
    lines for a repeated id, and at `section` for another reason.
    """
    problems = Problems()
    for id, (origin, question) in questions.items():
        if id in benchmark:
            first = benchmark.place_of(id)
            same = f"the question in {first.where() if first else 'another line'} has the same id {id!r}"
            problems.found.append(origin.error(same, "give one of them a different `id`", "id"))
            continue
        try:
            benchmark.add_questions([question])
        except ValueError as error:
            problems.found.append(section.error(str(error), "", "rubric"))
        else:
            benchmark.origins[id] = origin
    problems.raise_all()


def read_question(section: Section, id: str) -> Question:
    """Read a question from a mapping. Raises a single `BenchmarkFileError` that contains all errors in the question.
    `id` is used if the mapping has no id.
    """
    problems = Problems()
    attempt = problems.attempt
    content = section.value
    others = [] if _KNOWN_KEYS.issuperset(content) else [key for key in content if key not in _KNOWN_KEYS]
    if others:
        owned = [key for key in others if is_owned(key, "question_fields")]
        attempt(section.check_keys, [*dict.fromkeys([*QUESTION_KEYS, *read_catalog()["question_fields"], *owned])])
    values: dict[str, Any] = {
        name: text if isinstance(text := content[name], str) else attempt(section.text, name)
        for name in _QUESTION_TEXTS
        if name in content
    }
    if content.get("question") in (None, "") and all(nearest_key(key, QUESTION_KEYS) != "question" for key in others):
        problems.found.append(section.error("the question has no text", "add `question: ...`"))
    values["id"] = values.get("id") or id
    if "attachments" in content:
        values["attachments"] = attempt(_read_files, section) or ()
    if "keywords" in content:
        texts = attempt(section.texts, "keywords") or []
        values["keywords"] = texts if isinstance(content["keywords"], list) else [*split_keywords(texts)]
    if "few_shot_examples" in content:
        examples = attempt(section.sections, "few_shot_examples", problems) or []
        values["few_shot_examples"] = [attempt(_read_example, example) for example in examples]
    values["answer_template"], template = attempt(_read_template, section) or (None, None)
    if "rubric" in content:
        values["rubric"] = attempt(_read_rubric, section, "rubric", Rubric)
    if "dynamic_rubric" in content:
        values["dynamic_rubric"] = attempt(_read_rubric, section, "dynamic_rubric", DynamicRubric)
    for name in ("author", "sources"):
        if name in content:
            values[name] = content[name]
    for name in ("metadata", "unread"):
        if name in content:
            values[name] = attempt(_read_mapping, section, name)
    values["extra"] = (attempt(_read_owned, section) or {}) if others else {}
    problems.raise_all()
    try:
        question = Question.model_validate(values)
    except ValueError as error:
        raise section.error(explain_error(error), "") from error
    if template is not None:
        keep_template(question, template)
    return question


def _read_owned(section: Section) -> dict[str, Any]:
    """Return the values of the plugin fields in a section by full name (`NAMESPACE.FIELD`), ignoring all other keys.
    Raises `BenchmarkFileError` if a field is given both by its full name and in a nested mapping.
    """
    try:
        flat = flatten(section.value, QUESTION_KEYS)
    except ValueError as error:
        raise section.error(str(error), "") from error
    return {
        name: value for name, value in flat.items() if name not in QUESTION_KEYS and is_owned(name, "question_fields")
    }


def _read_files(section: Section) -> tuple[Attachment, ...]:
    """Return the attachments of a question. Raises `BenchmarkFileError` for anything but paths and their pages."""
    written = section.value["attachments"]
    files = [] if written is None else written if isinstance(written, list) else [written]
    problems = Problems()
    for position, file in enumerate(files):
        try:
            Attachment.of(file)
        except ValueError as error:
            path = ("attachments", position) if isinstance(written, list) else ("attachments",)
            problems.found.append(section.error(f"attachments: {error}", "", *path))
    problems.raise_all()
    return tuple(map(Attachment.of, files))


def _read_example(section: Section) -> dict[str, str]:
    """Return the question and answer of an example. Raises `BenchmarkFileError` for missing or unknown keys."""
    section.check_keys(("question", "answer"))
    question, answer = section.text("question"), section.text("answer")
    if not question or answer is None:
        raise section.error("an example needs a `question` and an `answer`", "add the missing key")
    return {"question": question, "answer": answer}


def _read_template(section: Section) -> tuple[str | None, Template | None]:
    """Return the source of the template, and the loaded template if its fields are declared. Raises
    `BenchmarkFileError` for an invalid declaration, for a strategy without fields, or if there are both fields and a
    source. A source is not loaded here.
    """
    fields = section.section("answer")
    source = section.text("template")
    if fields is None:
        if section.value.get("strategy") is not None:
            raise section.error(
                "a `strategy` combines the fields of `answer`, which is missing",
                "add `answer`, or put the strategy in the template's source",
                "strategy",
            )
        return source, None
    if source is not None:
        raise section.error("the question has both `answer` and `template`", "keep only one of them", "template")
    written, place = section.document.written, fields.path
    declared = keep_written_truths(fields.value, lambda *path: written.get((*place, *path)))
    try:
        return _declare(section, declared, section.value.get("strategy"))
    except BenchmarkFileError:
        _check_each_field(section, declared)
        raise


def _check_each_field(section: Section, fields: Mapping[str, Any]) -> None:
    """Check each field and the strategy on its own, and raise a `BenchmarkFileError` with all errors if there are
    any.
    """
    problems = Problems()
    for name, declared in fields.items():
        problems.attempt(_declare, section, {name: declared}, None)
        if isinstance(declared, dict) and declared.get("description") is None:  # find the field's other error
            others = Problems()
            others.attempt(_declare, section, {name: {**declared, "description": "-"}}, None)
            known = {str(error) for error in problems.found}
            problems.found += [error for error in others.found if str(error) not in known]
    if problems.found and section.value.get("strategy") is not None:
        valid = {name: {"description": "-", "ground_truth": "-"} for name in fields if str(name).isidentifier()}
        problems.attempt(_declare, section, valid, section.value["strategy"])
    problems.raise_all()


def _declare(section: Section, fields: Mapping[str, Any], strategy: Any) -> tuple[str, Template]:
    """Return the source and template for declared fields. Raises `BenchmarkFileError` with the field's line."""
    try:
        return declare_template(fields, strategy)
    except DeclarationError as error:
        raise section.error(error.what, error.cure, *error.path) from error
    except TemplateError:
        active_plugins()  # which may add primitives
    source = make_template_source(fields, strategy)
    try:
        return source, load_template(source)
    except TemplateError as error:
        field = field_at(source, error.line)
        place = ("answer",) if field is None else ("answer", field, _part_of(error.reason))
        raise section.error(error.reason, "", *place) from error


def _part_of(reason: str) -> str:
    """Return the key in a field's declaration that a template error with the given `reason` is about."""
    if "ground truth" in reason or "ground_truth" in reason:
        return "ground_truth"
    return "weight" if reason.startswith("weight") else "verify_with"


def _add_rows(benchmark: BenchmarkContent, section: Section) -> None:
    """Add the questions of a table. Raises a single `BenchmarkFileError` that contains all errors in the table."""
    problems = Problems()
    attempt = problems.attempt
    attempt(section.check_keys, _IMPORT_KEYS)
    name = attempt(section.text, "file")
    if section.value.get("file") in (None, ""):
        problems.found.append(section.error("`questions_from` has no `file`", "add `file: rows.jsonl`"))
    fields = attempt(section.section, "answer")
    columns = attempt(section.section, "columns")
    sheet, separator, template = (attempt(section.text, key) for key in ("sheet", "separator", "template"))
    rubric = attempt(_read_rubric, section, "rubric", Rubric)
    problems.raise_all()
    assert name is not None, "a missing name must have been reported before"
    from karenina_benchmark.question_import import read_questions
    from karenina_benchmark.tables.table_reader import read_rows

    try:
        rows = read_questions(
            read_rows(section.document.file.parent / name, sheet),
            columns.value if columns is not None else None,
            separator=separator,
            answer=fields.value if fields is not None else None,
            strategy=section.value.get("strategy"),
            answer_template=template,
            rubric=rubric,
            first=len(benchmark) + len(benchmark.broken) + 1,
        )
    except BenchmarkFileError as error:
        first, *others = [_imported_error(section, problem) for problem in error.each()]
        raise BenchmarkFileError(first.file, first.where, first.what, first.cure, others) from error
    _add(benchmark, rows, section)


def _imported_error(section: Section, error: BenchmarkFileError) -> BenchmarkFileError:
    """Return an error of an imported table, at the table's own line or, if that is unknown, at the importing line."""
    if error.where:
        imported = f"(imported by {section.document.file.name}, {section.where()})"
        return BenchmarkFileError(error.file, error.where, error.what, f"{error.cure} {imported}")
    key = "columns" if "column" in error.what and "columns" in section.value else "file"
    return section.error(f"{error.file}: {error.what}", error.cure, key)


RubricT = TypeVar("RubricT", bound=Rubric)


def _read_rubric(section: Section, key: str, kind: type[RubricT]) -> RubricT | None:
    """Return the rubric under a key, or None if it is missing or empty. Raises `BenchmarkFileError` for invalid
    traits.
    """
    value = section.value.get(key)
    if value is None:
        return None
    try:
        rubric = kind.model_validate(value)
        _check_patterns(rubric, by_kind=isinstance(value, dict))
    except ValueError as error:
        _check_each_trait(section, key, kind)
        raise section.error(f"{key}: {explain_error(error)}", "", key) from error
    return rubric or None


def _trait_fields(trait: object) -> Collection[str]:
    """Return the field names of a trait's kind, with those of plugins, or nothing if the kind is unknown."""
    kind = trait_kinds().get(str(trait.get("type"))) if isinstance(trait, dict) else None
    return () if kind is None else {*kind.model_fields, *read_catalog()["trait_fields"]}


def _check_each_trait(section: Section, key: str, kind: type[Rubric]) -> None:
    """Raise `BenchmarkFileError` with all invalid traits and repeated names in a rubric, if there are any."""
    problems = Problems()
    names: dict[str, str] = {}
    value = section.value[key]
    lists = value.items() if isinstance(value, dict) else [(None, value)]
    for name, traits in lists:
        for position, trait in enumerate(traits if isinstance(traits, list) else ()):
            path = (key, position) if name is None else (key, name, position)
            where = section.where(*path)
            try:
                rubric = kind.model_validate([trait] if name is None else {name: [trait]})
                _check_patterns(rubric, by_kind=False)
            except ValueError as error:
                why = explain_error(error, _trait_fields(trait))
                named = f" {trait['name']!r}" if isinstance(trait, dict) and isinstance(trait.get("name"), str) else ""
                what = f"{key}: trait{named}: {why}" if named else f"{key}: {why}"
                problems.found.append(section.error(what, "", *path))
                continue
            for trait_name in rubric.names:
                first = names.setdefault(trait_name, where)
                if first != where:
                    what = f"the trait in {first} has the same name {trait_name!r}"
                    problems.found.append(section.error(what, "rename one of them", *path))
    problems.raise_all()


def _check_patterns(rubric: Rubric, *, by_kind: bool) -> None:
    """Raise `ValueError` for a pattern that does not compile. If `by_kind` is set, the rubric has one list for each
    kind, and the error names the kind.
    """
    for position, trait in enumerate(rubric.regex_traits):
        try:
            check_pattern(trait.pattern)
        except ValueError as error:
            place = f"regex_traits.{position}.pattern" if by_kind else "pattern"
            raise ValueError(f"{place}: {error}") from error


def _read_mapping(section: Section, key: str) -> dict[str, Any]:
    """Return a copy of the mapping under a key, or an empty dict if it is missing. Raises `BenchmarkFileError` for
    other values.
    """
    nested = section.section(key)
    return {} if nested is None else dict(nested.value)


def serialize_yaml(benchmark: BenchmarkContent, path: Path) -> str:
    """Return the benchmark as YAML. Raises `BenchmarkFileError` for `path` if a template has no source."""
    data = serialize_head(benchmark)
    questions = enumerate(benchmark, 1)
    data["questions"] = [serialize_question(question, number, path) for number, question in questions]
    return dump(data)


def serialize_head(benchmark: BenchmarkContent) -> dict[str, Any]:
    """Return a benchmark's values, except defaults and its questions, under the keys used in files."""
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
    """Return the values of a question, except defaults, under the keys used in files. Raises `BenchmarkFileError`, with
    `path` and `number`, for a template without source or an invalid plugin field.
    """
    try:
        source = template_source_of(question)
    except TemplateError as error:
        raise BenchmarkFileError(
            path,
            f"question {number} ({question.id})",
            str(error),
            "pass the template as source code instead of a class",
        ) from error
    data: dict[str, Any] = {
        "question": question.question,
        "id": question.id,
        "raw_answer": question.raw_answer,
        "attachments": list(map(serialize_attachment, question.attachments)),
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
    if taken := sorted(question.extra.keys() & {*QUESTION_KEYS}):
        what = f"`extra` contains {taken[0]!r}, which is a field of every question and cannot belong to a plugin"
        raise BenchmarkFileError(path, f"question {number} ({question.id})", what, "remove it from `extra`")
    return {**_without_defaults(data), **question.extra}


def _traits(rubric: Rubric | None) -> list[Any] | None:
    return None if rubric is None else [trait_to_json(trait) for trait in rubric.traits]


_KEPT_IF_EMPTY = {"raw_answer", "workspace_path", "author", "sources", "date_created", "date_modified"}


def _without_defaults(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return `data` without None, and without empty values whose default is empty."""
    return {key: value for key, value in data.items() if value is not None and (value or key in _KEPT_IF_EMPTY)}
