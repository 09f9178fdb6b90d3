"""A model server on the loopback interface that replies and fails as scripted, for adapter tests and benchmarks.

It speaks OpenAI's chat completions and Anthropic's Messages API, streamed or not, over real HTTP:

    from karenina_testing.server import ScriptedServer, faults

    with ScriptedServer({"France": "Paris.", "Spain": [faults.status(429, retry_after=1), "Madrid."]}) as server:
        ...  # ask the model at f"{server.url}/v1" for the capital of Spain, twice
        assert [entry.status for entry in server.log["Spain"]] == [429, 200]

`Side` can inject faults into a share of all calls. A server can have one side for the answering model and one for the
judge. `python -m karenina_testing.server` runs a server in its own process. The only dependencies are the standard
library and Karenina's core and toolkit.
"""

from karenina_testing.server import faults
from karenina_testing.server.exchange import Reply, Request, Say
from karenina_testing.server.faults import Fault
from karenina_testing.server.script import Entry, Log, Side
from karenina_testing.server.scripted import ScriptedServer, refusing_url

__all__ = ["Entry", "Fault", "Log", "Reply", "Request", "Say", "ScriptedServer", "Side", "faults", "refusing_url"]
