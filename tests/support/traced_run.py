"""Trace one question through a run, and measure how far it and its calls travel through the code.

    python tests/support/traced_run.py            the numbers, and the frames and names behind them
    python tests/support/traced_run.py --json     those of the traced run as JSON, for `tests/test_house.py`

Traced is `karenina run`, in this process, with a benchmark of one question with a template, a journal and a file of
results. One scripted server on loopback is both models, through the adapter `openai`. An equal run before it is not
traced; it imports the modules and fills the caches. "Own" code is that of the packages `karenina*` without
karenina-testing, which has the server. Comprehensions and module bodies are not functions here, so that all versions of
Python count alike. uvloop is not used, because it hides the frames of its loop.

1. Frames of a call: own frames on the stack when pyreqwest is asked to send the request (`StreamRequest.__aenter__`),
   from the `execute` of a stage to the function that asks, both included. The first call of the run is for the answer;
   the longest of the others, which are the judge's, counts.
2. Depth of an item: own frames on the stack when the `execute` of a stage is entered, including it. Below the first
   frame of a task, thread or callback of the event loop comes the stack on which it was created, in place of the loop
   that runs it. The deepest stage counts.
3. Hand-overs: places between the end of the last `execute` and the last write to the file of results where own code
   lets something go on elsewhere: it creates a task, schedules a callback with the loop, adds one to a future, makes a
   future, puts a value into a queue, uses a thread, or calls back (it calls an own function by another name than that
   function's, or one that is defined inside a third function). A place is a pair of functions, and counts once.
4. Names of the request: local variables of own functions, and attributes of own objects that such a variable held, that
   were bound to a `RunRequest` (the one of the command, or a changed copy) when an own function began or ended.
   Variables of two functions are two names, and so are attributes of two classes.
5. Functions and files: own functions that were called, and the files in which they are.
6. The source of all distributions, tests excluded, by the functions of `source_counts`.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import opcode
import os
import queue
import sys
import tempfile
import threading
from asyncio import base_events, events, queues
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass, field
from io import BufferedWriter, StringIO
from pathlib import Path
from types import CodeType, FrameType, MemberDescriptorType
from typing import Any

import anyio.to_thread
import source_counts

TEMPLATE = """from karenina.templates import BaseAnswer, ExactMatch, VerifiedField


class Answer(BaseAnswer):
    capital: str = VerifiedField(description="The capital", ground_truth="Paris", verify_with=ExactMatch())
"""
_LOOP = base_events.BaseEventLoop
_SCHEDULING = (_LOOP.call_soon, _LOOP.call_soon_threadsafe, _LOOP.call_later, _LOOP.call_at)
_HAND_OVERS = {
    **{function.__code__: "callback" for function in _SCHEDULING},
    **{function.__code__: "queue" for function in (queues.Queue.put, queues.Queue.put_nowait, queue.Queue.put)},
    **{
        function.__code__: "thread"
        for function in (anyio.to_thread.run_sync, asyncio.to_thread, threading.Thread.start)
    },
    _LOOP.run_in_executor.__code__: "thread",
    _LOOP.create_future.__code__: "future",
}
_MADE = {function.__code__ for function in (_LOOP.create_task, *_SCHEDULING)}
_IN_ALL = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<module>")
_GENERATOR = 0x20 | 0x200
_RESUME = opcode.opmap["RESUME"]


@dataclass
class Trace:
    """The way of one question."""

    call_frames: list[str] = field(default_factory=list)
    item_frames: list[str] = field(default_factory=list)
    hand_overs: list[str] = field(default_factory=list)
    request_names: list[str] = field(default_factory=list)
    functions: int = 0
    files: int = 0


@dataclass(frozen=True)
class _Function:
    """An own function; `home` is the one in which it is defined, and `names` are those that its code uses."""

    name: str
    home: str | None
    names: frozenset[str]


class _Tracer:
    """The profile function of a run, which collects what `Trace` reports."""

    def __init__(self, stage: type, output: Path) -> None:
        self._stage, self._output = stage, output
        self._codes: dict[int, tuple[CodeType, _Function | None]] = {}
        self._origins: dict[int, tuple[object, list[str]]] = {}
        self._log: list[str] = []
        self._ended = self._written = 0
        self._calls: list[list[str]] = []
        self._deepest: list[str] = []
        self._names: set[str] = set()
        self._files: set[str] = set()

    def profile(self, frame: FrameType, event: str, arg: Any) -> None:
        """Look at a call or its end, as `sys.setprofile` says."""
        code = frame.f_code
        own = self._own(code, frame)
        if event == "call":
            self._on_call(frame, code, own)
        elif event == "return":
            if own is not None:
                self._note_names(frame, own)
                if self._is_execute(frame):
                    self._ended = len(self._log)
            elif code in _MADE:
                self._origins[id(arg)] = (arg, self._stack(frame))
        elif event == "c_call":
            self._on_c_call(frame, arg, own)

    def trace(self) -> Trace:
        """Return what was seen."""
        if len(self._calls) < 2 or not self._written:
            raise RuntimeError(f"the run made {len(self._calls)} calls by pyreqwest, and two are expected")
        return Trace(
            call_frames=max(self._calls[1:], key=len),
            item_frames=self._deepest,
            hand_overs=sorted(set(self._log[self._ended : self._written])),
            request_names=sorted(self._names),
            functions=sum(own is not None for _, own in self._codes.values()),
            files=len(self._files),
        )

    def _on_call(self, frame: FrameType, code: CodeType, own: _Function | None) -> None:
        caller = frame.f_back
        by = None if caller is None else self._own(caller.f_code, caller)
        if own is not None:
            self._files.add(code.co_filename)
            self._note_names(frame, own)
            if self._is_execute(frame):
                self._deepest = max(self._deepest, self._stack(frame), key=len)
            if by is not None and _begins(frame) and _is_called_back(own, by, code):
                self._log.append(f"called back: {own.name} by {by.name}")
        elif code is _LOOP.create_task.__code__:
            if stack := self._stack(frame, joined=False):
                self._log.append(f"task: by {stack[0]}")
        elif code in _HAND_OVERS and by is not None:
            callback = frame.f_locals.get("callback")
            if not isinstance(getattr(callback, "__self__", None), asyncio.Task):  # a future that ended wakes it
                name = getattr(callback, "__qualname__", "")
                self._log.append(" ".join(filter(None, (f"{_HAND_OVERS[code]}:", name, f"by {by.name}"))))
        if code is threading.Thread.start.__code__:
            thread = frame.f_locals["self"]
            self._origins[id(thread)] = (thread, self._stack(frame))

    def _on_c_call(self, frame: FrameType, called: Any, own: _Function | None) -> None:
        target = getattr(called, "__self__", None)
        name = called.__name__
        if own is not None and name == "__aenter__" and type(target).__module__.startswith("pyreqwest"):
            self._calls.append(self._stack(frame, until_stage=True))
        elif own is not None and name == "add_done_callback":
            self._log.append(f"callback: added by {own.name}")
        elif own is not None and name == "put" and type(target).__name__ == "SimpleQueue":
            self._log.append(f"queue: by {own.name}")
        elif name == "write" and isinstance(target, BufferedWriter) and self._is_output(target):
            self._written = len(self._log)

    def _stack(self, frame: FrameType | None, *, until_stage: bool = False, joined: bool = True) -> list[str]:
        """Return the own functions on the stack, the last one first, joined at the creators of tasks and threads."""
        found = []
        while frame is not None:
            own = self._own(frame.f_code, frame)
            if own is not None:
                found.append(own.name)
                if until_stage and self._is_execute(frame):
                    return found
            elif frame.f_code is events.Handle._run.__code__:
                return found + (self._origin(asyncio.current_task() or frame.f_locals["self"]) if joined else [])
            frame = frame.f_back
        return found + (self._origin(threading.current_thread()) if joined else [])

    def _origin(self, what: object) -> list[str]:
        return self._origins.get(id(what), (what, []))[1]

    def _is_execute(self, frame: FrameType) -> bool:
        return frame.f_code.co_name == "execute" and isinstance(frame.f_locals.get("self"), self._stage)

    def _is_output(self, file: BufferedWriter) -> bool:
        return self._output.exists() and os.path.samestat(os.fstat(file.fileno()), self._output.stat())

    def _own(self, code: CodeType, frame: FrameType) -> _Function | None:
        """Return the own function of this code, or None."""
        if id(code) in self._codes:  # equal code of two modules is two functions
            return self._codes[id(code)][1]
        module = str(frame.f_globals.get("__name__", ""))
        found = None
        if _is_own(module) and code.co_name not in _IN_ALL and code.co_filename != "<string>":
            home, nested, _ = code.co_qualname.rpartition(".<locals>.")
            names = frozenset((*code.co_names, *code.co_varnames, *code.co_freevars, *code.co_cellvars))
            found = _Function(f"{module}:{code.co_qualname}", f"{module}:{home}" if nested else None, names)
        self._codes[id(code)] = (code, found)
        return found

    def _note_names(self, frame: FrameType, own: _Function) -> None:
        for name, value in frame.f_locals.items():
            if _is_request(value):
                self._names.add(f"{own.name} {name}")
            elif _is_own(type(value).__module__):
                kind = f"{type(value).__module__}:{type(value).__qualname__}"
                self._names.update(f"{kind}.{key}" for key, held in _attributes(value) if _is_request(held))


def _is_own(module: str) -> bool:
    return module.startswith("karenina") and module.partition(".")[0] != "karenina_testing"


def _is_request(value: object) -> bool:
    return type(value).__name__ == "RunRequest"


def _attributes(value: object) -> Iterator[tuple[str, object]]:
    yield from list(getattr(value, "__dict__", {}).items()) if not isinstance(value, type) else ()
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if isinstance(kind.__dict__.get(name), MemberDescriptorType):
                yield name, getattr(value, name, None)


def _begins(frame: FrameType) -> bool:
    """Return whether the call is not that of a coroutine which goes on."""
    at, code = frame.f_lasti, frame.f_code.co_code
    return at < 0 or code[at] != _RESUME or code[at + 1] & 3 == 0


def _is_called_back(called: _Function, by: _Function, code: CodeType) -> bool:
    if code.co_name.startswith("__") or code.co_flags & _GENERATOR:
        return False
    if called.home is not None:
        return by.name != called.home and not by.name.startswith(f"{called.home}.<locals>.")
    return code.co_name not in by.names


# ---- the run


def trace_run() -> Trace:
    """Run the question twice, and return the trace of the second run."""
    sys.modules["uvloop"] = None  # type: ignore[assignment]
    from karenina_core import Stage
    from karenina_testing.server import Say, ScriptedServer

    answers, judge = Say("The capital of France is Paris."), Say('{"capital": "Paris"}')
    with (
        ScriptedServer({"": answers}, {"": judge}) as server,
        tempfile.TemporaryDirectory() as name,
        chdir(name),
    ):
        folder = Path(name)
        os.environ["XDG_STATE_HOME"] = str(folder / "state")
        _run(folder / "first", server.url)
        output = folder / "second" / "out.jsonl"
        tracer = _Tracer(Stage, output)
        gc.collect()
        threading.setprofile(tracer.profile)
        sys.setprofile(tracer.profile)
        try:
            _run(output.parent, server.url)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    return tracer.trace()


def _run(folder: Path, url: str) -> None:
    """Run `karenina run` on a new benchmark in `folder`."""
    from karenina_cli.app import build_app

    folder.mkdir()
    benchmark, config, output = (folder / name for name in ("capitals.jsonl", "config.json", "out.jsonl"))
    question = {"id": "q1", "question": "What is the capital of France?", "raw_answer": "Paris", "template": TEMPLATE}
    benchmark.write_text(json.dumps(question) + "\n", "utf-8")
    model = {"interface": "openai", "model_name": "served", "endpoint_base_url": f"{url}/v1"}
    models = {"answering_models": [{"id": "a", **model}], "parsing_models": [{"id": "j", **model}]}
    config.write_text(json.dumps(models), "utf-8")
    arguments = ["run", benchmark, "-c", config, "-o", output, "--journal", folder / "run.journal"]
    printed = StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        build_app()([str(one) for one in arguments], standalone_mode=False)
    lines = output.read_text("utf-8").splitlines() if output.exists() else []
    outcomes = [result["outcome"] for result in map(json.loads, lines) if "outcome" in result]
    if outcomes != ["correct"]:
        raise RuntimeError(f"the traced run did not end with a correct answer:\n{printed.getvalue()}")


# ---- what is printed


def count_trace(trace: Trace) -> dict[str, int]:
    """Return the numbers of a trace, by name."""
    return {
        "frames of a judge's call": len(trace.call_frames),
        "depth of an item": len(trace.item_frames),
        "hand-overs of an item": len(trace.hand_overs),
        "names of the request": len(trace.request_names),
        "functions": trace.functions,
        "files": trace.files,
    }


def count_source() -> dict[str, int]:
    """Return the numbers of the source, by name."""
    modules = source_counts.modules_by_folder()
    core = source_counts.packages()["karenina_core"]
    return {
        "port classes": len(source_counts.port_classes()),
        "source files": len(source_counts.source_files()),
        "modules of the largest folder": max(modules.values()),
        "folders of more than 20 modules": sum(count > 20 for count in modules.values()),
        "small files with one importer": len(source_counts.small_files_with_one_importer()),
        "code of the core": sum(map(source_counts.lines_of_code, core.rglob("*.py"))),
    }


def main() -> None:
    """Trace a run, and print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    as_json = parser.parse_args().json
    trace = trace_run()
    found = count_trace(trace)
    if as_json:
        sys.stdout.write(json.dumps({"numbers": found, "trace": asdict(trace)}) + "\n")
        return
    large = [(name, count) for name, count in source_counts.modules_by_folder().most_common() if count > 20]
    lists = {
        "frames of a judge's call": reversed(trace.call_frames),
        "depth of an item": reversed(trace.item_frames),
        "hand-overs of an item": trace.hand_overs,
        "names of the request": trace.request_names,
        "port classes": source_counts.port_classes(),
        "folders of more than 20 modules": (f"{name}: {count}" for name, count in large),
        "small files with one importer": source_counts.small_files_with_one_importer(),
    }
    for name, number in (found | count_source()).items():
        sys.stdout.write("\n".join([f"{name}: {number}", *(f"    {one}" for one in lists.get(name, ()))]) + "\n")


if __name__ == "__main__":
    main()
