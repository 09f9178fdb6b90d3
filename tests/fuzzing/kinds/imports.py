"""Files of other tools, as `karenina import` reads them: JSON, lines of JSON, archives, and replies of a server."""

from __future__ import annotations

import io
import json
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final

import zstandard
from hypothesis import strategies as st

from fuzzing.commands import command
from fuzzing.engine import Kind
from fuzzing.mutation import Pairs, Tree, documents, dump_json, dump_lines, insert_path, parse_tree
from karenina import Benchmark
from karenina_core.models.model import ModelConfig
from karenina_core.plugins import active_plugins
from karenina_template.question_template import template_of
from karenina_toolkit.plugin_lookup import find_adapter

_ASKED: Final = "Which city is it?"
_PARIS: Final = {"id": "q1", "question": _ASKED, "answer": "Paris"}
_TABLES: Final[list[Any]] = [
    [
        {**_PARIS, "response": "It is Paris.", "model": "m", "replicate": 1},
        {**_PARIS, "id": "q2", "answer": ["a", "b"]},
    ],
    [{**_PARIS, "choices": ["Lyon", "Paris"]}, {"question": "Which?", "choices": {"A": "x", "B": "y"}, "answer": "A"}],
]
_PAGE: Final = {
    "features": [{"feature_idx": 0, "name": "answer", "type": {"_type": "ClassLabel", "names": ["Lyon", "Paris"]}}],
    "rows": [{"row_idx": 0, "row": {**_PARIS, "answer": 1, "long": "..."}, "truncated_cells": ["long"]}],
    "num_rows_total": 1,
}
_LM_EVAL: Final = [
    {
        "doc_id": number,
        "doc": {"question": _ASKED, "choices": {"text": ["Lyon", "Paris"], "label": ["A", "B"]}},
        "target": target,
        "arguments": {"gen_args_0": {"arg_0": ['[{"role": "user", "content": "Which?"}]'], "arg_1": {"until": []}}},
        "resps": [["It is Paris."]],
        "filter": "none",
    }
    for number, target in enumerate(["1", "['Paris', \"it's\"]"])
]
_LOG: Final = {"version": 2, "eval": {"task": "t", "model": "m"}, "plan": {}}
_SAMPLE: Final = {
    "id": "q1",
    "epoch": 1,
    "input": [{"role": "user", "content": "attachment://0"}],
    "choices": ["Lyon", "Paris"],
    "target": "B",
    "output": {"choices": [{"message": {"role": "assistant", "content": [{"type": "text", "text": "It is B."}]}}]},
    "attachments": {"0": _ASKED},
}
_FAILED: Final = {"id": 2, "epoch": 1, "input": _ASKED, "target": ["Paris"], "error": {"message": "timed out"}}
_EVENT: Final = {"run_id": "r", "event_id": 0, "sample_id": "s.0", "created_at": "now"}
_EVALS: Final[list[Any]] = [
    {"spec": {"completion_fns": ["m"]}},
    {**_EVENT, "type": "sampling", "data": {"prompt": [{"role": "user", "content": _ASKED}], "sampled": ["Paris"]}},
    {**_EVENT, "type": "match", "data": {"correct": True, "expected": ["Paris"], "picked": "Paris"}},
    {"final_report": {"accuracy": 1.0}},
]
_RESULT: Final = {
    "prompt": {"raw": '[{"role": "user", "content": "Which city?"}]', "label": "p"},
    "vars": {"city": "Paris"},
    "provider": {"id": "m", "label": ""},
    "response": {"output": "It is Paris."},
    "testCase": {"assert": [{"type": "assert-set", "assert": [{"type": "contains-any", "value": ["{{ city }}"]}]}]},
    "gradingResult": {"componentResults": [{"assertion": {}, "metadata": {"renderedAssertionValue": "Paris"}}]},
    "success": False,
    "failureReason": 2,
    "error": "timed out",
    "testIdx": 0,
    "promptIdx": 0,
}
_LINES: Final[list[Any]] = [*_TABLES, _LM_EVAL, _EVALS, [{"input": _ASKED, "ideal": ["Paris"]}], [_RESULT, _RESULT]]
_ITEM: Final = {
    "object": "eval.run.output_item",
    "datasource_item_id": 1,
    "datasource_item": {"ground_truth": "Paris"},
    "sample": {
        "input": [{"role": "user", "content": _ASKED}],
        "output": [{"role": "assistant", "content": "It is Paris."}],
        "model": "m",
        "error": None,
    },
}
_DOCUMENTS: Final[list[Any]] = [
    _TABLES[0],
    _PAGE,
    {**_LOG, "samples": [_SAMPLE, _FAILED]},
    {"evalId": "e", "results": {"version": 3, "results": [_RESULT, {**_RESULT, "failureReason": 0}]}, "config": {}},
    {"results": [_RESULT]},
    {"object": "list", "data": [_ITEM, _ITEM]},
]
_ENTRIES: Final[dict[str, Any]] = {
    "header.json": _LOG,
    "samples/q1_epoch_1.json": _SAMPLE,
    "samples/2_epoch_1/sample.json": {**_SAMPLE, "id": 2},
    "samples/2_epoch_1/attachments/0.json": [_ASKED, "another"],
}


_SPLITS: Final = {"splits": [{"dataset": "o/n", "config": "main", "split": "test"}]}
_REPLIES: Final[list[Any]] = [[_SPLITS, _PAGE], [_SPLITS, {**_PAGE, "num_rows_total": 3}, {"error": "no"}]]
_SERVED: Final = ".served"
"""The ending of inputs whose lines are the replies of a dataset server, of which the last one is repeated."""


class _Handler(BaseHTTPRequestHandler):
    replies: list[bytes] = []

    def do_GET(self) -> None:
        replies = _Handler.replies
        data = replies.pop(0) if len(replies) > 1 else replies[0]
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_arguments: Any) -> None:
        pass


@contextmanager
def _dataset_server() -> Iterator[str]:
    """Provide the address of a server that sends `_Handler.replies`."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _archive(entries: Tree) -> bytes:
    """Return an archive with a file for each pair, or with the whole as its header. Some files are Zstandard."""
    pairs = entries if isinstance(entries, Pairs) else Pairs([("header.json", entries)])
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in dict(pairs).items():
            written = str(name).encode("utf-8", "replace").decode()[:1000]
            content = dump_json(value).encode("utf-8", "surrogatepass")
            packed = bool(content) and content[-2:-1] in b"]}"
            archive.writestr(zipfile.ZipInfo(written), zstandard.compress(content) if packed else content)
            if packed:  # `zipfile` writes Zstandard from Python 3.14 on only
                entry = archive.filelist[-1]
                entry.compress_type, entry.file_size, entry.CRC = 93, len(content), zlib.crc32(content)
    return data.getvalue()


_MAPPINGS: Final = ([], ["answer=text"], ["answer=choice"], ["answer=integer", r"answer_pattern=(\d+)"], ["choices="])
_FORMATS: Final = ("huggingface", "lm-eval", "inspect", "openai-evals", "promptfoo")


@contextmanager
def _opened(folder: Path) -> Iterator[Callable[[tuple[str, bytes]], bool]]:
    here = Path.cwd()
    os.chdir(folder)
    outside = str(folder.parent / "outside")

    def check(one: tuple[str, bytes]) -> bool:
        ending, data = one[0], insert_path(one[1], outside)
        number = zlib.crc32(data)
        chosen = ["--from", _FORMATS[number % len(_FORMATS)]]
        maps = [word for given in _MAPPINGS[number // 8 % len(_MAPPINGS)] for word in ("--map", given)]
        source = [f"stranger{ending}"]
        if ending == _SERVED:
            source, chosen = ["hf:o/n", "--server", address, "--limit", "20"], []
        for more in ([*maps, "--recordings", "answers.jsonl"], maps, chosen, []):
            for earlier in folder.iterdir():
                if earlier.is_file():
                    earlier.unlink()
            (folder / f"stranger{ending}").write_bytes(data)
            _Handler.replies = data.splitlines() or [b""]
            printed = command("import", *source, "-o", "out.yaml", "--partial", "--json", *more)
            if (folder / "out.yaml").exists():
                _check_written(folder, json.loads(printed[f"\n{printed}".rindex("\n{\n") :]))
                return True
        return False

    try:
        with _dataset_server() as address:
            yield check
    finally:
        os.chdir(here)


def _check_written(folder: Path, said: dict[str, Any]) -> None:
    """Raise unless the files can be read and have what the command said."""
    questions = list(Benchmark.load(folder / "out.yaml"))
    for question in questions:
        template_of(question)
    if len(questions) != said["questions"]:
        raise AssertionError("the benchmark has another number of questions than was printed")
    answers = folder / "answers.jsonl"
    if answers.exists():
        spec = find_adapter(active_plugins(), "manual").spec
        assert spec.check is not None
        lines = [json.loads(line) for line in answers.read_bytes().splitlines()]
        models = {line.get("model") for line in lines}
        for model in models if None not in models or len(models) == 1 else ():
            extra = {"extra": {"model": model}} if model else {}
            spec.check(ModelConfig(id="m", interface="manual", model_name="m", manual_traces=str(answers), **extra))
        if not {line["id"] for line in lines} <= {question.id for question in questions}:
            raise AssertionError("an answer belongs to no question")


def _newer_version(archive: bytes) -> bytes:
    """Return an archive whose entries need a version of the format that does not exist."""
    return archive.replace(b"PK\x01\x02\x14\x03\x14", b"PK\x01\x02\x14\x03\xf0")


KIND: Final = Kind(
    "imports",
    st.one_of(
        st.tuples(st.just(".jsonl"), documents(_LINES, dump_lines)),
        st.tuples(st.just(".json"), documents(_DOCUMENTS, dump_json)),
        st.tuples(st.just(".eval"), documents([_ENTRIES], _archive)),
        st.tuples(st.just(_SERVED), documents(_REPLIES, dump_lines)),
    ),
    _opened,
    valid=[
        *((".jsonl", dump_lines(parse_tree(one)).encode()) for one in _LINES),
        *((".json", dump_json(parse_tree(one)).encode()) for one in _DOCUMENTS),
        (".eval", _archive(parse_tree(_ENTRIES))),
        (_SERVED, dump_lines(parse_tree(_REPLIES[0])).encode()),
    ],
    regressions=[
        (".eval", _newer_version(_archive(parse_tree(_ENTRIES)))),
        (_SERVED, b'{"splits": [{"config": "\\ud800", "split": "test"}]}\n{"features": [], "rows": []}\n'),
        (".jsonl", b'{"question": "Which?", "answer": 1%s}\n' % (b"0" * 400)),
        (".json", dump_json(parse_tree({**_PAGE, "rows": [{"row": _PARIS, "truncated_cells": [{}]}]})).encode()),
    ],
    shown=lambda one: one[0].encode() + b"\n" + one[1],
    seconds=4.0,  # up to four imports of each file
    servers=True,
)
