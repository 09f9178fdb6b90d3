"""Whole runs of one question with all features, for tests of the effect of a setting."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from karenina import Benchmark, VerificationResultSet
from karenina_core import ModelConfig, VerificationConfig, VerificationResult, hookimpl
from karenina_core import plugins as plugin_room
from karenina_core.data.rubrics import LLMRubricTrait, RegexRubricTrait
from karenina_core.errors import KareninaError
from karenina_core.models.adapters import AdapterSpec
from karenina_core.models.ports import AgentReply, CallInfo, ErrorCategory, LLMReply, Message, PortError, ToolCall
from karenina_core.plugins import Plugins
from karenina_engine.offline.prompt_preview import example_for_schema
from karenina_testing import Request, ScriptedModels

SAID = "It is BCL2, which keeps cells alive."
FOUND = "a database knows of BCL2"
TEMPLATE = """
class Answer(BaseAnswer):
    gene: str = VerifiedField(
        description="The gene that is named",
        ground_truth="BCL2",
        verify_with=ExactMatch(),
        extraction_hint="In capitals.",
    )
"""
LOOKED_UP = ToolCall("c1", "look_up", {"gene": "BCL2"})
TRACE = [Message.assistant("", [LOOKED_UP]), Message.tool(FOUND, LOOKED_UP), Message.assistant(SAID)]
AGENT = {"mcp_urls_dict": {"genes": "http://localhost:1/mcp"}}
"""Fields that make the model under test answer through its agent port, by `TRACE`."""


class Models(ScriptedModels):
    """Keeps also the models for which ports were made, with what the run made of them.

    `most` is how many texts each was asked for at once.
    """

    made: list[ModelConfig]
    most: Counter[str]

    @hookimpl
    def karenina_adapters(self) -> Sequence[AdapterSpec]:
        """Return the scripted interface."""
        (spec,) = super().karenina_adapters()
        self.made = []
        self.most = Counter()

        def noting(factory: Callable[[ModelConfig], Any] | None) -> Callable[[ModelConfig], Any]:
            def make(model: ModelConfig) -> Any:
                self.made.append(model)
                assert factory is not None
                return _SlowPort(factory(model), model.id, self.most)

            return make

        made = {"llm": noting(spec.llm), "parser": noting(spec.parser), "agent": noting(spec.agent)}
        return [replace(spec, concurrency=None, **made)]


class _SlowPort:
    """A port whose calls for text last a moment, so that they meet."""

    def __init__(self, port: Any, id: str, most: Counter[str]) -> None:
        self._port = port
        self._id = id
        self._most = most
        self._now = 0

    async def invoke(self, messages: Sequence[Message], *, info: CallInfo) -> LLMReply:
        self._now += 1
        self._most[self._id] = max(self._most[self._id], self._now)
        await asyncio.sleep(0)
        self._now -= 1
        reply: LLMReply = await self._port.invoke(messages, info=info)
        return reply

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)


@dataclass
class RunRecord:
    """The outcome of a run; `error` is the reason if it could not start."""

    models: Models
    root: Path
    results: VerificationResultSet = field(default_factory=VerificationResultSet)
    error: str | None = None

    @property
    def result(self) -> VerificationResult:
        """The first result."""
        return self.results[0]

    def asked(self, task: str) -> list[Request]:
        """Return the requests of one `usage_key`."""
        return [request for request in self.models.requests if request.info.task == task]

    def texts(self, task: str) -> str:
        """Return all that was said to models in these requests."""
        return "\n".join(request.text for request in self.asked(task))

    @property
    def for_excerpts(self) -> list[str]:
        """Return the prompts of judges that ask for excerpts."""
        return [one.text for one in self.models.requests if one.schema is not None and "confidence" in str(one.schema)]

    @property
    def for_risks(self) -> list[str]:
        """Return the prompts of judges that ask how likely excerpts are invented."""
        return [one.text for one in self.models.requests if one.schema is not None and "'risk'" in str(one.schema)]

    def agents(self, task: str) -> list[Any]:
        """Return the options of the agents of one `usage_key`."""
        return [request.options for request in self.asked(task) if request.options is not None]

    @property
    def stages(self) -> list[str]:
        """The names of the stages of the plan."""
        return [record.name for record in self.result.stages]


@dataclass(frozen=True)
class ScriptedJudge:
    """A judge that replies with `says` by field name, `quote` as excerpt, and a fitting value for all other fields.

    With `fails`, its first call raises an error of that category.
    """

    says: Mapping[str, Any] = field(default_factory=dict)
    quote: str = "It is BCL2"
    fails: ErrorCategory | None = None

    def filling(self) -> Callable[[object, Mapping[str, Any], CallInfo], dict[str, Any]]:
        """Return the function that fills schemas during one run."""
        left = [self.fails] if self.fails is not None else []

        def fill(messages: object, schema: Mapping[str, Any], info: CallInfo) -> dict[str, Any]:
            if left:
                raise PortError("not now", category=left.pop())
            return self.fill(messages, schema, info)

        return fill

    def fill(self, _messages: object, schema: Mapping[str, Any], _info: CallInfo) -> dict[str, Any]:
        """Return a reply that fits."""
        found: dict[str, Any] = json.loads(example_for_schema(schema, SAID))
        said = {"gene": "BCL2", "abstained": False, **self.says}
        for name, part in schema["properties"].items():
            if "confidence" in str(part):
                found[name] = [{"text": self.quote, "confidence": "high"}]
            elif name in said and not isinstance(found[name], dict):
                found[name] = said[name]
        return found


def run_everything(
    root: Path,
    settings: Mapping[str, Any],
    judge: ScriptedJudge,
    answering: Mapping[str, Any],
    said: str | LLMReply = SAID,
    trace: Sequence[Message] | AgentReply = TRACE,
) -> RunRecord:
    """Run the question with these settings. `root` holds the folder `task`, its workspace."""
    models = Models(say=lambda *_: said, act=lambda *_: trace, fill=judge.filling())
    (root / "task").mkdir(parents=True, exist_ok=True)
    benchmark = Benchmark.create(name="everything")
    benchmark.add_question(
        "Which gene?",
        "BCL2",
        TEMPLATE,
        question_id="q",
        workspace_path="task",
        few_shot_examples=[{"question": "Which protein?", "answer": "P53"}, {"question": "Which drug?", "answer": "A"}],
        rubric=[
            LLMRubricTrait(name="clear", kind="boolean", description="It is clear."),
            LLMRubricTrait(name="warm", kind="boolean", description="It is warm.", deep_judgment_enabled=True),
            RegexRubricTrait(name="named", pattern="BCL2"),
        ],
    )
    plugins = Plugins.discover()
    plugins.register(models)
    seen = RunRecord(models, root)
    values = {"answering_models": [models.model("a", **answering)], "parsing_models": [models.model("j")], **settings}
    try:
        with plugin_room.use_plugins(plugins):
            seen.results = benchmark.run_verification(VerificationConfig(**values))
    except KareninaError as error:
        seen.error = str(error)
    return seen


class _Rows(list[list[float]]):
    def tolist(self) -> list[list[float]]:
        return list(self)


def embedding_library() -> ModuleType:
    """Return a stand-in for sentence-transformers: every two texts are alike by 0.8."""

    class SentenceTransformer:
        def __init__(self, name: str, **_: object) -> None:
            self.name = name

        def encode(self, texts: list[str], **_: object) -> _Rows:
            return _Rows([[1.0, 0.0] if at % 2 else [0.8, 0.6] for at, _ in enumerate(texts)])

    library = ModuleType("sentence_transformers")
    library.__spec__ = ModuleSpec("sentence_transformers", None)
    library.SentenceTransformer = SentenceTransformer  # type: ignore[attr-defined]  # a module made here
    return library


def install_embedding_library(put: Callable[[Any, str, ModuleType], None]) -> None:
    """Put the stand-in where it is imported from, by `monkeypatch.setitem`."""
    put(sys.modules, "sentence_transformers", embedding_library())
