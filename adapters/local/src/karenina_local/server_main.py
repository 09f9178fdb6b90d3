"""The child process that runs llama.cpp. It reads settings from standard input and ends with its parent.

Run it as `python -m karenina_local.server_main`. The first line of input is a JSON object with the settings. When the
model is loaded, the server's URL is written to standard output. The process then waits until its input ends, which
happens when the parent closes it or dies. llama.cpp's messages go to standard error.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import urllib.error
import urllib.request
from importlib import import_module
from typing import Any

WARNINGS = 2  # a verbosity level of llama.cpp
PROMPT_CACHE_MIB = 256  # its own default grows to 8 GB over a long run
KINDS = 2  # half of the slots are for calls that restore one, the others for conversations, which continue in theirs


def main() -> None:
    """Run llama.cpp's server with settings read from standard input, until the parent ends. Its address is printed as
    JSON when the model is loaded. Exits with 1 if it cannot load the model.
    """
    report = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # anything else that prints to standard output must not look like the report
    settings: dict[str, Any] = json.loads(sys.stdin.readline())
    watcher = threading.Thread(target=_end_with_parent, daemon=True)
    watcher.start()
    try:
        server = _start_server(settings)
    except RuntimeError:  # llama.cpp has printed the reason
        sys.exit(1)
    address: str = server.listening_address
    _wait_until_loaded(address)
    print(json.dumps({"address": address}), file=report, flush=True)
    watcher.join()


def _end_with_parent() -> None:
    """End this process when its input ends, which happens when the parent closes it or dies."""
    sys.stdin.read()
    os._exit(0)


def _start_server(settings: dict[str, Any]) -> Any:
    """Start llama.cpp's server with `settings`, and return it. Raises `RuntimeError` if it cannot load the model."""
    xllamacpp = import_module("xllamacpp")  # without types
    params = xllamacpp.CommonParams()
    params.model.path = settings["model"]
    if settings["mmproj"]:
        params.mmproj.path = settings["mmproj"]
    params.model_alias = {settings["alias"]}
    params.n_parallel = settings["slots"] * KINDS
    params.n_ctx = settings["context"] * params.n_parallel
    params.cache_ram_mib = PROMPT_CACHE_MIB
    params.kv_unified = False  # each slot keeps its own share, independently of the others
    params.fit_params = False  # never a context other than the configured one
    if settings["threads"]:
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings["threads"]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [settings["key"]]
    params.ui = False
    params.endpoint_slots = False
    params.slot_save_path = settings["slot_folder"]
    params.use_jinja = True
    params.verbosity = WARNINGS
    return xllamacpp.Server(params)


def _wait_until_loaded(address: str) -> None:
    """Wait until the server's health check succeeds. There is no time limit, because the parent has one. Raises
    `HTTPError` for any error status except 503.
    """
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while True:
        try:
            with opener.open(f"{address}/health", timeout=10):
                return
        except urllib.error.HTTPError as error:
            if error.code != 503:
                raise
        except OSError:
            pass
        time.sleep(0.05)


if __name__ == "__main__":
    main()
