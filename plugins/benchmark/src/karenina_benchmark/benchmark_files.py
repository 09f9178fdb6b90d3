"""Loads and saves benchmark files in any format."""

from __future__ import annotations

import logging
from shlex import quote
from typing import TYPE_CHECKING

from karenina_benchmark.errors import BenchmarkFileError, read_text
from karenina_benchmark.formats.format_registry import describe_suffixes, find_format, has_rows, list_formats, suffix_of
from karenina_benchmark.saved_attachments import MovedQuestions
from karenina_core import plugins
from karenina_core.errors import KareninaError, type_and_message
from karenina_toolkit.files import SUFFIXES, TABLES, replace_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from karenina_benchmark.content import BenchmarkContent
    from karenina_benchmark.formats.format import CheckPaths, Format
    from karenina_core.plugins import Offer

REPEATED = "karenina_repeated"
"""An attribute of log records for warnings that the command line prints as an error anyway."""
logger = logging.getLogger("karenina")


def load_benchmark(
    path: Path, check_paths: CheckPaths, columns: Mapping[str, str] | None = None, *, skip_broken: bool = False
) -> BenchmarkContent:
    """Load a benchmark in any installed format, and log warnings about its content. Raises `BenchmarkFileError` if the
    file or a question cannot be read, and any exception raised by `check_paths`. With `skip_broken`, questions that
    cannot be read are skipped with a warning instead.

    `columns` maps `question`, `answer`, `id` and `keywords` to columns of a table. Plugins are loaded first, because
    they may add formats, trait kinds and primitives.
    """
    benchmark = read_benchmark(path, check_paths, columns)
    if benchmark.problems:
        raise _first_of([*benchmark.problems, *benchmark.broken])
    for warning in (*benchmark.load_warnings, *benchmark.unscorable):
        logger.warning("%s: %s", path, warning)
    if benchmark.missing_answers:
        logger.warning("%s", benchmark.missing_answers, extra={REPEATED: True})
    if skip_broken:
        benchmark.leave_out_broken()
        for error in benchmark.broken:
            logger.warning("left out an entry that cannot be read: %s", error)
    elif benchmark.broken:
        raise _summarize(benchmark.broken, len(benchmark))
    return benchmark


def _summarize(broken: Sequence[BenchmarkFileError], good: int) -> BenchmarkFileError:
    """Return the first error, with the number of further errors and a hint on skipping broken questions. `good` is the
    number of questions that can be read. If it is 0, the hint is omitted.
    """
    more = f"; {_count_others(broken[1:])}" if len(broken) > 1 else ""
    them = "them" if len(broken) > 1 else "it"
    option = f"; or skip {them} with --skip-broken (in Python: skip_broken=True)" if good else ""
    return _first_of(broken, f"{more}{option}")


def _first_of(errors: Sequence[BenchmarkFileError], more: str = "") -> BenchmarkFileError:
    """Return the first error, with all further errors as its `others`. `more` is appended to its message. If there are
    further errors, the message also names the command that lists them.
    """
    first, *others = [problem for error in errors for problem in error.each()]
    count = f"{len(others)} more problem{'s' * (len(others) > 1)}" if not more else "all problems"
    listed = f"; `karenina check FILE` lists {count}" if others else ""
    cure = f"{first.cure}{more}{listed}".removeprefix("; ")
    return BenchmarkFileError(first.file, first.where, first.what, cure, others, cause=first.__cause__)


def _count_others(others: Sequence[BenchmarkFileError]) -> str:
    """Describe how many other questions and traits cannot be read, and where the first of them is."""
    place = others[0].where
    what = "question" if not any(other.where.startswith("rating") for other in others) else "question or trait"
    if len(others) == 1:
        return f"1 more {what} cannot be read{f' ({place})' if place else ''}"
    plural = what.replace("question", "questions").replace("trait", "traits")
    return f"{len(others)} more {plural} cannot be read{f' (next: {place})' if place else ''}"


def read_benchmark(path: Path, check_paths: CheckPaths, columns: Mapping[str, str] | None = None) -> BenchmarkContent:
    """Read a benchmark without logging anything. Errors in it are not raised, but are in its `problems` and `broken`;
    `BenchmarkFileError` is raised only if nothing can be read. Exceptions from `check_paths` are raised too.
    """
    installed = plugins.active_plugins()
    suffix = suffix_of(installed, path)
    if not columns and suffix in SUFFIXES and (suffix in TABLES or has_rows(path)):
        for offer in list_formats(installed):
            if offer.value.recognizes is not None and offer.value.recognizes(path):
                benchmark = _read(offer, path, check_paths, columns)
                benchmark.load_notes.append(f"{path.name} was read as {offer.value.name}")
                return benchmark
    if any(suffix in candidate.value.suffixes for candidate in list_formats(installed)):
        return _read(find_format(installed, path, suffix), path, check_paths, columns)
    try:
        return _read(find_format(installed, path, _guess_suffix(path)), path, check_paths, columns)
    except BenchmarkFileError as error:
        endings = describe_suffixes(list_formats(installed))
        cure = (
            f"{error.cure}; if the file has a different format, rename it to use one of the known file extensions: "
            f"{endings}"
        )
        raise BenchmarkFileError(error.file, error.where, error.what, cure) from error


def _read(
    offer: Offer[Format], path: Path, check_paths: CheckPaths, columns: Mapping[str, str] | None
) -> BenchmarkContent:
    """Read a benchmark with the offered format, and record its path, its columns and the files it refers to. Raises
    `BenchmarkFileError` if `columns` are given but the format has none. An unexpected exception, for example from a
    plugin, becomes a `BenchmarkFileError` that names the plugin.
    """
    from karenina_benchmark.content import BenchmarkContent

    read_columns = offer.value.read_columns
    if columns and read_columns is None:
        what = f"columns cannot be mapped because the file is {offer.value.name}, which has no columns"
        raise BenchmarkFileError(path, "", what, "remove --columns, --rows, --sheet and --encoding")
    named: list[str] = []

    def note_and_check(file: Path, names: Sequence[str]) -> bool | None:
        """Record the names of the files, and call `check_paths`."""
        named.extend(names)
        return check_paths(file, names)

    try:
        if columns and read_columns is not None:
            benchmark = read_columns(path, columns)
        else:
            benchmark = offer.value.read(path, note_and_check)
        returned: object = benchmark
        if not isinstance(returned, BenchmarkContent):
            raise TypeError(f"the format returned {returned!r:.80}, not a BenchmarkContent")
    except KareninaError:
        raise
    except Exception as error:
        raise _make_plugin_error(path, offer, error) from error
    benchmark.path = path
    benchmark.columns = dict(columns or {})
    benchmark.workspace_root_in_file = benchmark.workspace_root
    benchmark.named_files = tuple(named)
    return benchmark


def save_benchmark(benchmark: BenchmarkContent, path: Path) -> None:
    """Save a benchmark in the format that matches the suffix of `path`. Relative paths of attachments are rewritten,
    with a warning if they then lead out of the folder of `path`, because this needs trust. Raises `BenchmarkFileError`
    if the format is unknown or read-only, or if the benchmark or file cannot be written.
    """
    _check_functions(benchmark, path)
    installed = plugins.active_plugins()
    offer = find_format(installed, path, suffix_of(installed, path), writes=True)
    assert offer.value.write is not None, "find_format must not return a format that cannot be written"
    moved, questions = MovedQuestions.content_for(benchmark, path)
    texts = offer.value.write(moved, path)
    parts = (text if isinstance(text, bytes) else _encode(text, path) for text in texts)
    try:
        replace_file(path, lambda file: file.writelines(parts), follow=True)
    except OSError as error:
        what = f"the file cannot be written: {error.strerror}"
        raise BenchmarkFileError(path, "", what, "check that the folder exists and is writable") from error
    if questions is not None and questions.outside:
        logger.warning(
            "%s: attachments are not in its folder, such as %r, so a run needs your trust: karenina trust %s",
            *(path, questions.outside[0], quote(str(path))),
        )


def _check_functions(benchmark: BenchmarkContent, path: Path) -> None:
    """Raise `BenchmarkFileError` if a trait's function cannot be saved."""
    questions = benchmark.questions_mentioning(("callable",))
    of_questions = ((f"question {question.id}", (question.rubric, question.dynamic_rubric)) for question in questions)
    for place, rubrics in (("", (benchmark.global_rubric, benchmark.dynamic_rubric)), *of_questions):
        for trait in (trait for rubric in rubrics if rubric is not None for trait in rubric.callable_traits):
            if trait.unsaved is not None:
                what, _, cure = trait.unsaved.partition("; ")
                raise BenchmarkFileError(path, place, f"the function of trait {trait.name!r} {what}", cure)


def _encode(text: str, path: Path) -> bytes:
    """Encode `text` as UTF-8. Raises `BenchmarkFileError` if it contains a lone surrogate."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        what = f"a string contains an unpaired surrogate: {text[max(0, error.start - 20) : error.end]!r}"
        raise BenchmarkFileError(path, "", what, "remove it") from error


def _guess_suffix(path: Path) -> str:
    """Return `.jsonld` for a file that starts with a brace, like checkpoints, and `.yaml` for any other file."""
    return ".jsonld" if read_text(path).lstrip().startswith("{") else ".yaml"


def _make_plugin_error(path: Path, offer: Offer[Format], error: Exception) -> BenchmarkFileError:
    """Log an unexpected exception raised by a plugin's format, and return a `BenchmarkFileError` for it."""
    logger.debug("cannot read %s", path, exc_info=error)
    return BenchmarkFileError(
        path,
        "",
        f"{offer.distribution} {offer.version} failed to read {offer.value.name}: {type_and_message(error)}",
        f"report the problem to the authors of {offer.distribution}",
    )
