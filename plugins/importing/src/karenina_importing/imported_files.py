"""Writes the files of an import: the benchmark, the mapping, the recordings and the labels.

Existing files are renamed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

from karenina_benchmark.yaml_files import dump
from karenina_core.errors import ConfigError
from karenina_core.text import replace_surrogates
from karenina_engine.results.result_file import check_output
from karenina_importing.conversion import Imported
from karenina_importing.field_mapping import FieldMapping
from karenina_importing.verdicts import label_table
from karenina_report.options import write_whole
from karenina_toolkit.files import replace_file

_BENCHMARK: Final = (b"karenina:", b"#")
_MAPPING: Final = (b"# The mapping of `karenina import`",)
_RECORDINGS: Final = (b'{"id":',)
_LABELS: Final = (b"question_id,replicate,",)
_TABLE: Final = ".csv"
_SUFFIXES: Final = (".yaml", ".yml")
_LINES: Final = (".jsonl", ".ndjson")


@dataclass(frozen=True, slots=True)
class Written:
    """The files that were written, each with the new path of the file it replaced, or None."""

    mapping: Path
    recordings: Path | None = None
    labels: Path | None = None
    files: Mapping[Path, Path | None] = field(default_factory=dict)


def mapping_path(output: Path) -> Path:
    """Return the path of the mapping file next to the benchmark: `NAME.mapping.yaml`."""
    return output.with_name(f"{output.stem}.mapping.yaml")


def check_outputs(
    output: Path, recordings: Path | None, labels: Path | None, *, source: str, map_file: Path | None
) -> None:
    """Raise `ConfigError` for a wrong suffix, for `labels` without `recordings`, or if a file must not be replaced. The
    source, the given mapping file, and files that were not written by an import are never replaced.
    """
    if output.suffix.lower() not in _SUFFIXES:
        raise ConfigError([f"-o must name a YAML file, such as {output.stem}.yaml"])
    if recordings is not None and recordings.suffix.lower() not in _LINES:
        raise ConfigError([f"--recordings must name a JSON Lines file, such as {recordings.stem}.jsonl"])
    if labels is not None and labels.suffix.lower() != _TABLE:
        raise ConfigError([f"--labels must name a CSV file, such as {labels.stem}{_TABLE}"])
    if labels is not None and recordings is None:
        raise ConfigError(["--labels requires --recordings FILE.jsonl, because labels belong to recorded answers"])
    outputs = [output, mapping_path(output), *(path for path in (recordings, labels) if path is not None)]
    for path in outputs:
        if path.resolve() == Path(source).resolve():
            raise ConfigError([f"{path} is the source and cannot also be an output; choose another file"])
    if map_file is not None and output.resolve() == map_file.resolve():
        raise ConfigError([f"{output} is the mapping file and cannot be replaced; choose another file with -o"])
    check_output(output, lines=_BENCHMARK)
    check_output(mapping_path(output), lines=_MAPPING)
    if recordings is not None:
        check_output(recordings, lines=_RECORDINGS)
    if labels is not None:
        check_output(labels, lines=_LABELS)


def write_files(
    done: Imported,
    mapping: FieldMapping,
    format: str,
    name: str,
    output: Path,
    mapped: Path,
    recordings: Path | None,
    labels: Path | None = None,
) -> Written:
    """Write the files of an import, and return their paths: the benchmark `name` with its attachments to `output`, the
    mapping for `format` to `mapped` and, unless they are None, `recordings` and `labels`. Existing files are renamed.
    Raises `ConfigError` if a file cannot be written.
    """
    config = {"config": done.config} if done.config else {}
    text = dump({"karenina": 1, "name": name, **config, "questions": list(done.questions.values())})
    files = {
        output: write_whole(output, _BENCHMARK, lambda file: _write(file, text.encode())),
        mapped: _write_mapping(mapped, mapping.to_yaml(format).encode()),
    }
    for path, data in done.files.items():  # their names contain digests, so that a file that exists is the same
        place = output.parent / path
        try:
            place.parent.mkdir(exist_ok=True)
            replace_file(place, partial(_write, data=data))
        except OSError as error:
            raise ConfigError([f"{place} cannot be written: {error.strerror or error}"]) from error
    if recordings is not None:
        lines = [replace_surrogates(json.dumps(recording, ensure_ascii=False)) + "\n" for recording in done.recordings]
        files[recordings] = write_whole(recordings, _RECORDINGS, lambda file: file.writelines(map(str.encode, lines)))
    if labels is not None:
        table = label_table(done.labels, with_models=len(done.models) > 1)
        files[labels] = write_whole(labels, _LABELS, lambda file: _write(file, table.encode()))
    return Written(mapped, recordings, labels, files)


def _write_mapping(path: Path, text: bytes) -> Path | None:
    """Write the mapping, unless the file already contains it, and return where the replaced file is now, or None."""
    if path.is_file() and path.stat().st_size == len(text) and path.read_bytes() == text:
        return None
    return write_whole(path, _MAPPING, lambda file: _write(file, text))


def _write(file: BinaryIO, data: bytes) -> None:
    file.write(data)
