"""A temporary state folder for the benchmarks and the processes they start, to protect the user's own folder."""

import os
import tempfile

if "KARENINA_STATE_HOME" not in os.environ:
    FOLDER = tempfile.TemporaryDirectory(prefix="karenina-benchmarks-state-")
    os.environ["KARENINA_STATE_HOME"] = FOLDER.name
