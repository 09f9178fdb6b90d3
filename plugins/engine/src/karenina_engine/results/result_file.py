"""The result file of a run. An existing file with the same name is never lost.

The first line is a header with the run and its distributions. For the other lines, see
`karenina_engine.results.result_lines`.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import stat
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Self

from karenina_core.data.outcome import Outcome
from karenina_core.errors import ConfigError
from karenina_toolkit.conversations import OWNER as CONVERSATIONS
from karenina_toolkit.conversations import STAGE as CONVERSE
from karenina_toolkit.conversations import USER_ENDS
from karenina_toolkit.files import replace_file
from karenina_toolkit.shown_work import OWNER as SANDBOX

if TYPE_CHECKING:
    import asyncio
    from io import FileIO


logger = logging.getLogger("karenina")

WITHOUT_WORK: Final = "answers judged by the files that they changed, which only --replay has"
"""Why an answer with work in a workspace is not recorded."""
_BEGINNING: Final = b'{"run":'
TABLE_LINE: Final = b'{"table":'
ROW_LINE: Final = b'{"row":'
"""The possible beginnings of a line with a result, as described in `karenina_engine.results.result_lines`."""
_HEADERS: Final = (_BEGINNING, TABLE_LINE)
RESULT_LINES: Final = (*_HEADERS, ROW_LINE, b'{"metadata":')
"""The possible beginnings of lines in result files."""
_DEVICES: Final = Path("/dev")
"""The folder whose links, such as `stdout`, may lead to regular files, but must not be renamed."""
HEADER_INDEX: Final = -1
"""The index used for the header and for table rows, so that they come before all results."""
_LONGEST: Final = 1 << 16
_CHECKED_BYTES: Final = 4096
_BUFFER: Final = 1 << 20
"""The maximum number of bytes to hold in memory during writing or sorting."""
_SORT_BATCH: Final = 128
"""The number of lines that are sorted at a time."""


def header_line(
    distributions: Mapping[str, str], run: str | None = None, *, rescored: bool = False, free: bool = False
) -> str:
    """Return a result file's first line, with the distributions that a run used and their versions, and the id of the
    run (see `digest_run`) if it has a journal. Set `rescored` if the results were made from the journal's replies but
    are not in the journal, and `free` if all models are free, so that the cost is known without a journal.
    """
    named: dict[str, Any] = {"distributions": dict(distributions)}
    if run is not None:
        named["id"] = run
    if rescored:
        named["rescored"] = True
    if free:
        named["free"] = True
    return json.dumps({"run": named}, separators=(",", ":"))


def digest_run(journal: object, number: int) -> str:
    """Return the id of a run for use in result files. It does not reveal the journal's own id."""
    return hashlib.sha256(f"{journal} {number}".encode()).hexdigest()[:16]


def is_header(line: bytes) -> bool:
    """Return whether a line is a header or table line, or the beginning of an incomplete one."""
    return line.startswith(_HEADERS) or (0 < len(line) < len(TABLE_LINE) and any(h.startswith(line) for h in _HEADERS))


def count_results(path: Path) -> int:
    """Return the number of complete lines with results in a file. It is 0 if the file cannot be read."""
    try:
        with path.open("rb") as file:
            return sum(line.endswith(b"\n") and not is_header(line) for line in file)
    except OSError:
        return 0


def read_header(path: Path) -> Mapping[str, Any]:
    """Return the information about the run in the header of a result file. The result is empty if there is no readable
    header, or if the file contains several runs.
    """
    try:
        with path.open("rb") as file:
            line = file.readline(_LONGEST)
            facts = json.loads(line)["run"] if is_header(line) else {}
            after = file.tell()
            if facts and _has_header(file):
                file.seek(after)
                others = (it for it in iter(partial(file.readline, _LONGEST), b"") if it.startswith(_BEGINNING))
                if any(other.strip() != line.strip() for other in others):
                    return {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return facts if isinstance(facts, dict) else {}


def _has_header(file: BinaryIO) -> bool:
    """Return whether one of the lines that follow is a header. Reading blocks is faster than reading lines."""
    end = b"\n"
    while block := file.read(_LONGEST):
        if b"\n" + _BEGINNING in (text := end + block):
            return True
        end = text[-len(_BEGINNING) :]
    return False


def why_not_recorded(result: Mapping[str, Any]) -> str | None:
    """Return why a result's JSON object has no answer that could be judged again, as a noun such as *failed calls*, or
    None if it has one. Refused and truncated replies are answers, even empty ones.
    """
    template = result.get("template", {})
    broke_off = (result["metadata"].get("error") or "").startswith(f"{CONVERSE}:")
    if broke_off or (result["outcome"] == Outcome.MODEL_ERROR.value and _conversation_of(result)):
        return "conversations that broke off"
    if result["outcome"] == Outcome.MODEL_ERROR.value:
        return "failed calls"
    stopped = template.get("response_refused") or template.get("response_truncated")
    if not (template.get("trace_messages") or template.get("raw_llm_response") or stopped):
        return "items without an answer"
    return WITHOUT_WORK if _has_judged_work(result) else None


def _has_judged_work(result: Mapping[str, Any]) -> bool:
    """Return whether an answer changed files, and checks or an agent as the judge read them."""
    fields = result.get("extensions", {}).get(SANDBOX)
    work = fields.get("workspace") if isinstance(fields, Mapping) else None
    if not isinstance(fields, Mapping) or not isinstance(work, Mapping) or not work.get("changed"):
        return False
    return bool(fields.get("checks") or result.get("template", {}).get("agentic_parsing_performed"))


def recorded_answer(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer in a result's JSON object as a recording that can be judged again: the question, replicate and
    model, the `text` or, for an agent, the `trace`, and how it ended. The result must have an answer (see
    `why_not_recorded`).

    The answer has `question_id`, `replicate`, `model` (the answering model's id), `question`, and either `text` or, for
    an agent, `trace`, whose messages have the form of `Message.to_dict`. If the answer was cut off or refused, it also
    has a `finish_reason`, if its question attached files, their `attachments` with digests, and if an agent reached its
    limit, `limit_reached`. For a simulated user, `conversation` states why it `ended` and whether the goal was
    `reached`.
    """
    meta, template, talk = result["metadata"], result.get("template", {}), _conversation_of(result)
    trace = template.get("trace_messages")
    end = "content_filter" if template.get("response_refused") else ""
    end = end or ("length" if template.get("response_truncated") else "")
    stated = (held.get("attachments") for held in result.get("extensions", {}).values())
    files = next((attached for attached in stated if attached), None)
    about = {key: talk[key] for key in ("ended", "reached") if talk.get(key) is not None}
    return {
        "question_id": meta["question_id"],
        "replicate": meta.get("replicate") or 1,
        "model": meta["answering_id"],
        "question": meta["question_text"],
        **({"trace": trace} if trace else {"text": template.get("raw_llm_response", "")}),
        **({"attachments": files} if files else {}),
        **({"finish_reason": end} if end else {}),
        **({"limit_reached": True} if template.get("recursion_limit_reached") else {}),
        **({"conversation": about} if about.get("ended") in USER_ENDS or "reached" in about else {}),
    }


def _conversation_of(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a result's JSON object states about its conversation. It is empty for a single answer."""
    talk = result.get("extensions", {}).get(CONVERSATIONS, {}).get("conversation")
    return talk if isinstance(talk, Mapping) else {}


def warn_about_left_out(reasons: Iterable[str]) -> None:
    """Log a warning if an export of recordings leaves out answers: how many for each reason. `reasons` contains what
    `why_not_recorded` returned for each of these answers.
    """
    counts = Counter(reasons)
    if many := counts.total():
        named = ", ".join(f"{why}: {count}" for why, count in counts.items())
        logger.warning("%s left out (%s)", "1 answer is" if many == 1 else f"{many} answers are", named)


def default_output(benchmark: Path) -> Path:
    """Return the default result file for a benchmark: `<name>.results.jsonl` in the working directory."""
    return Path(f"{benchmark.stem}.results.jsonl")


def default_journal(output: Path) -> Path:
    """Return the default journal for a run: `<name>.journal` next to the run's result file."""
    return output.with_name(output.name.removesuffix(".jsonl").removesuffix(".results") + ".journal")


def check_output(path: Path, *, lines: Sequence[bytes] = RESULT_LINES) -> None:
    """Raise `ConfigError` if `path` is not a regular file or cannot be read, or if its file is neither empty nor begins
    with one of `lines`, as earlier output does. The file is not changed. If its folder is missing, it is created, or
    the same error is raised.

    Any other file, such as the benchmark, was probably named by mistake.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise _not_written(path, error) from error
    if stat.S_ISDIR(mode):
        raise ConfigError([f"the output path {path} is a folder; specify a file in the folder"])
    if not stat.S_ISREG(mode) or path.absolute().parent == _DEVICES:
        raise ConfigError(
            [
                f"the output path {path} is {_kind(mode)}, which cannot be sorted at the end of a run; use a regular "
                "file (--json prints results)"
            ]
        )
    try:
        with path.open("rb") as file:
            begins = file.read(_CHECKED_BYTES)
    except OSError as error:
        raise ConfigError([f"the output file {path} cannot be read: {error.strerror or error}"]) from error
    line, end, _ = begins.partition(b"\n")
    if line and not begins.startswith(tuple(lines)) and (end or not is_header(line)):
        raise ConfigError([f"the output file {path} is not a result file and was not changed; choose another file"])


def prepare_output(
    path: Path, *, ours: Callable[[Path], bool] | None = None, lines: Sequence[bytes] = RESULT_LINES
) -> Path | None:
    """Create an empty file at `path`. An existing file is renamed, and its new name returned (otherwise None), unless
    `ours` returns True for it: then it is removed, because the caller will write its contents again. Raises
    `ConfigError` if the file cannot be written or `check_output` rejects it.

    The new name is the first unused name among `name-1.jsonl`, `name-2.jsonl`, ..., so that `path` always has the
    newest results. If `path` is a link, only the link is renamed. If the folder is missing, it is created.
    """
    check_output(path, lines=lines)
    moved, mode = None, None
    try:
        if os.path.lexists(path) and (path.is_symlink() or path.stat().st_size > 0):
            moved = free_name(path)
            path.rename(moved)
            status = moved.lstat()
            if ours is not None and stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and ours(moved):
                mode = stat.S_IMODE(status.st_mode)
                moved.unlink()
                moved = None
        handle = _open_empty(path)
        try:
            if mode is not None:
                os.fchmod(handle, mode)
        finally:
            os.close(handle)
    except OSError as error:
        raise _not_written(path, error) from error
    return moved


def _not_written(path: Path, error: OSError) -> ConfigError:
    """Return the exception for an output file that cannot be written."""
    return ConfigError([f"the output file {path} cannot be written: {error.strerror or error}; choose another file"])


def free_name(path: Path) -> Path:
    """Return the first unused path next to `path` of the form `name-1.jsonl`, `name-2.jsonl`, ..."""
    stem, suffix = (path.name, "") if not path.suffix else (path.name.removesuffix(path.suffix), path.suffix)
    number = 1
    while os.path.lexists(candidate := path.with_name(f"{stem}-{number}{suffix}")):
        number += 1
    return candidate


@contextmanager
def open_line_writer(path: Path) -> Iterator[Callable[[Iterable[str]], None]]:
    """Open a file created by `prepare_output`, and yield a function that writes lines to it. The context manager and
    the function raise `ConfigError` if the file cannot be written.
    """

    def write_error(error: OSError) -> ConfigError:
        """Return the error for a file that cannot be written."""
        return ConfigError([f"the output file {path} cannot be written: {error.strerror or error}"])

    def add(lines: Iterable[str]) -> None:
        """Write lines to the file. Raises `ConfigError` if the file cannot be written."""
        for line in lines:
            try:
                file.write(line + "\n")
            except OSError as error:
                raise write_error(error) from error

    try:
        file = os.fdopen(_open_empty(path), "w", encoding="utf-8", newline="\n")
    except OSError as error:
        raise write_error(error) from error
    try:
        yield add
    finally:
        try:
            file.close()
        except OSError as error:
            raise write_error(error) from error


def _open_empty(path: Path) -> int:
    """Open a new or empty file for reading and writing, without following a link, and return its descriptor. Raises
    `OSError` if this fails, for example because the file is not empty.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    status = os.fstat(handle)
    if not status.st_size and (stat.S_ISREG(status.st_mode) or stat.S_ISCHR(status.st_mode)):
        return handle
    os.close(handle)
    raise FileExistsError(errno.EEXIST, "another program has written to the file in the meantime")


def _kind(mode: int) -> str:
    """Describe the type of a file that is neither a regular file nor a folder, for a message."""
    if stat.S_ISFIFO(mode):
        return "a named pipe (FIFO)"
    return "a socket" if stat.S_ISSOCK(mode) else "a device"


class ResultFile:
    """A result file. Lines are written as items end, and sorted at the end of the run.

    Results can be read while the run continues, and runs with equal results end up with equal files. Lines are written
    at the end of each iteration of the event loop. If the process is killed, only the lines of one iteration are lost,
    and those results are in the journal. Each line takes the memory of two numbers. Use this as a context manager in an
    event loop. On exit, the remaining lines are written but not sorted.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._place = path, path.absolute()
        self._file: BinaryIO = os.fdopen(_open_empty(path), "wb", buffering=_BUFFER)
        self._indexes = array("q")
        self._starts = array("q", [0])
        self._rows: list[str] = []
        self._flushing: asyncio.Handle | None = None
        self._failure: OSError | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        """Write the remaining lines and close the file, without sorting."""
        if self._flushing is not None:
            self._flushing.cancel()
        self._file.close()

    def write_result(self, index: int, lines: Sequence[str]) -> None:
        """Add the lines for the item at `index`, as returned by `LineWriter.lines`, to the file's buffer. This must be
        called in an event loop. Raises `OSError` if these or earlier lines cannot be written.
        """
        *rows, line = lines
        for row in rows:
            self._rows.append(row)
            self.write(HEADER_INDEX, row)
        self.write(index, line)

    def write(self, index: int, line: str) -> None:
        """Add the line for the item at `index` in the matrix to the file's buffer, which the event loop flushes. Raises
        `OSError` if this or an earlier line cannot be written.
        """
        if self._failure is not None:
            raise self._failure
        data = line.encode() + b"\n"
        self._file.write(data)
        self._indexes.append(index)
        self._starts.append(self._starts[-1] + len(data))
        if self._flushing is None:
            import asyncio  # commands that only read results start without it

            self._flushing = asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        """Write the collected lines. An `OSError` is not raised here, but by the next `write`."""
        self._flushing = None
        try:
            self._file.flush()
        except OSError as error:  # the event loop cannot handle it; unwritten lines are still buffered
            self._failure = error

    def sort_lines(self) -> None:
        """Sort the lines into matrix order, replacing the file atomically. Nothing can be added after this. Raises
        `OSError`, and leaves the file unchanged, if it cannot be written or another program has changed it.
        """
        self._file.flush()
        order = sorted(range(len(self._indexes)), key=self._indexes.__getitem__)
        first = self._indexes.count(HEADER_INDEX) - len(self._rows)  # rows follow the header, in an order of their own
        rows = zip(self._rows, order[first : first + len(self._rows)], strict=True)
        order[first : first + len(self._rows)] = [line for _, line in sorted(rows)]
        self._check_not_replaced()
        if all(line == at for at, line in enumerate(order)):
            return

        def write(file: BinaryIO) -> None:
            """Copy the lines in matrix order. Raises `OSError` if another program has replaced the file."""
            with self._place.open("rb", buffering=0) as lines:
                for at in range(0, len(order), _SORT_BATCH):
                    file.writelines(self._read(lines, order[at : at + _SORT_BATCH]))
            self._check_not_replaced()

        replace_file(self._place, write)

    def _check_not_replaced(self) -> None:
        """Raise `OSError` if this file has been replaced by another file."""
        if not os.path.samestat(os.fstat(self._file.fileno()), self._place.lstat()):
            raise OSError(f"{self._path} was replaced by another program during the run; the new file was not changed")

    def _read(self, file: FileIO, numbers: Sequence[int]) -> Iterator[bytes | memoryview]:
        """Yield the lines with the given numbers, in the given order. Neighboring lines are read together."""
        starts = self._starts
        first, last = starts[min(numbers)], starts[max(numbers) + 1]
        if last - first > _BUFFER:
            for line in numbers:
                yield self._piece(file, starts[line], starts[line + 1])
            return
        piece = memoryview(self._piece(file, first, last))
        for line in numbers:
            yield piece[starts[line] - first : starts[line + 1] - first]

    def _piece(self, file: FileIO, first: int, last: int) -> bytes:
        """Return the bytes from position `first` to `last`. Raises `OSError` if the file has become shorter."""
        file.seek(first)
        piece = file.read(last - first)
        if len(piece) < last - first:
            raise OSError(f"{self._path} was changed by another program during the run, and some lines are missing")
        return piece
