"""The pipes of sandboxes in uvloop, which runs with OpenAI-compatible servers use."""

from __future__ import annotations

import os
import threading

import uvloop

from karenina_sandbox.providers.processes import open_reader


def test_pipes_close_no_file_of_another_thread() -> None:
    errors: list[OSError] = []
    ended = threading.Event()

    def open_folders() -> None:
        while not ended.is_set():
            try:
                folder = os.open("/", os.O_RDONLY)
                os.scandir(folder).close()
                os.close(folder)
            except OSError as error:
                errors.append(error)

    async def read_pipes() -> None:
        for _ in range(2000):
            descriptor, writable = os.pipe()
            reader, close = open_reader(descriptor)
            os.write(writable, b"text")
            os.close(writable)
            assert await reader.read() == b"text"
            close()

    threads = [threading.Thread(target=open_folders) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        uvloop.run(read_pipes())
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert not errors
