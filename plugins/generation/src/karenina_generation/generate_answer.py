"""The stage for slot 2, which asks the model under test. Examples are sent as earlier turns."""

from __future__ import annotations

import logging
import random
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import md5
from typing import TYPE_CHECKING, ClassVar, Final

from karenina_core import ArtifactKeys as Keys
from karenina_core import Outcome, Question, Stage, VerificationConfig, VerificationContext
from karenina_core.data.trust import Trust
from karenina_core.errors import ConfigError
from karenina_core.models.ports import (
    AgentOptions,
    AgentReply,
    ErrorCategory,
    FinishReason,
    LLMReply,
    Message,
    PortError,
)
from karenina_core.models.prompts import PromptTask
from karenina_core.stages.stage import ModelNeed
from karenina_core.text import compose, did_you_mean
from karenina_generation.settings import Choice, FewShotConfig, GenerationSettings, QuestionFewShot, few_shot_settings
from karenina_toolkit import traces
from karenina_toolkit.structured.reply_checks import ends_empty
from karenina_toolkit.traces.reasoning import has_content

if TYPE_CHECKING:
    from karenina_core import Question
    from karenina_core.data.question import FewShotExample


def examples_for(question: Question, config: FewShotConfig) -> list[FewShotExample]:
    """Return the examples to show before a question: its own, its external ones, and the global ones.

    The mode selects among the question's own examples; the mode "none" uses no examples at all. `source` may exclude
    the question's own examples or the global ones. Examples with the same question are never used, because they may
    contain the correct answer. Duplicates are sent only once. Raises `ValueError` if the configuration selects an
    example that the question does not have.
    """
    configs = {compose(id): own for id, own in config.question_configs.items()}
    own = configs.get(compose(question.id), QuestionFewShot())
    mode = config.global_mode if own.mode == "inherit" else own.mode
    if mode == "none":
        return []
    examples: list[FewShotExample] = []
    if config.source != "global":
        examples += [question.few_shot_examples[at] for at in _select_examples(question, config, own, mode)]
        examples += own.external_examples
    if config.source != "question_pool":
        examples += config.global_external_examples
    return [fromkey for fromkey in dict.fromkeys(examples) if not is_same_question(fromkey.question, question.question)]


def _select_examples(question: Question, config: FewShotConfig, own: QuestionFewShot, mode: str) -> list[int]:
    """Return the positions of the question's examples that the mode selects and the settings do not exclude.

    With "custom", they are in the configured order. With "k-shot", the same seed and question ID always draw the same
    examples, in their original order. Any other mode selects all of them. Raises `ValueError` if `own` names an example
    that the question does not have.
    """
    excluded = {_find_example(question, choice) for choice in own.excluded_examples}
    usable = [
        at
        for at, example in enumerate(question.few_shot_examples)
        if at not in excluded and not is_same_question(example.question, question.question)
    ]
    if mode == "custom":
        selected = [_find_example(question, choice) for choice in own.selected_examples]
        return [at for at in selected if at in usable]
    if mode == "k-shot":
        count = config.global_k if own.k is None else own.k
        draw = random.Random(f"{config.seed}:{question.id}")  # noqa: S311 - not used for security
        drawn = draw.sample(usable, min(count, len(usable)))
        return sorted(drawn)
    return usable


def to_turns(examples: Sequence[FewShotExample]) -> Iterator[Message]:
    """Yield each example as two messages: the user's question and the assistant's answer.

    Chat models understand turns without special wording, and answers that imitate them contain no markers.
    """
    for example in examples:
        yield Message.user(example.question)
        yield Message.assistant(example.answer)


def is_same_question(one: str, other: str) -> bool:
    """Compare two questions, ignoring case, spaces and punctuation."""
    return _normalize(one) == _normalize(other)


def _normalize(text: str) -> str:
    """Reduce a text to its letters and digits, ignoring case. If it has none, it is only stripped."""
    text = compose(text)
    return "".join(ch for ch in compose(text.casefold()) if ch.isalnum()) or text.strip()


def _find_example(question: Question, choice: Choice) -> int:
    """Find an example by its position, its question, or the MD5 of its question.

    Raises `ValueError` if the question has no such example.
    """
    examples = question.few_shot_examples
    if isinstance(choice, int):
        if choice < len(examples):
            return choice
        have = f"the last example is number {len(examples) - 1}" if examples else "the question has no examples"
        raise ValueError(f"few_shot_config: question {question.id!r} has no example number {choice}; {have}")
    for at, example in enumerate(examples):
        digest = md5(example.question.encode("utf-8"), usedforsecurity=False).hexdigest()
        if choice == digest or compose(choice) == compose(example.question):
            return at
    near = did_you_mean(choice, [example.question for example in examples])
    raise ValueError(f"few_shot_config: question {question.id!r} has no example {choice!r}{near}")


GENERATION: Final = PromptTask("generation", "")
"""What is sent besides the question: the model's system prompt, and the user's `prompt_config`."""

FEW_SHOT_GENERATION: Final = PromptTask("few_shot_generation", "", shows_truth=True, family=GENERATION.name)
"""The prompt with examples before the question. The examples contain the truths of other questions."""


_MOST_NAMED: Final = 5
_STOPPED: Final = ("length", "content_filter")

logger = logging.getLogger("karenina")


class GenerateAnswer(Stage):
    """Sends the question to the answering model, once for all judges.

    Agents, models with MCP servers, and recorded conversations use the agent port, and their whole trace is stored.
    Other answers are stored unchanged. With `strip_reasoning`, reasoning at the start of an answer is moved to the
    result field `reasoning` in the extensions. The field `notes` names parts of the answer that are not text.

    If the call fails or the answer is empty, the item ends with MODEL_ERROR, and what an agent did so far is stored.
    Empty answers are allowed if the agent has a workspace, where its answer may be, or MCP servers, because slot 4
    checks the trace. An answer that the provider stopped (a refusal or a content filter) ends with ABSTAINED, either
    here or in the abstention check.
    """

    name = "GenerateAnswer"
    scope = "answer"
    optional = frozenset({Keys.ANSWER_CLASS, Keys.WORKSPACE_PATH})
    produces = frozenset(
        {
            Keys.RAW_LLM_RESPONSE,
            Keys.TRACE_MESSAGES,
            Keys.FINAL_AI_MESSAGE,
            Keys.RECURSION_LIMIT_REACHED,
            Keys.RESPONSE_TRUNCATED,
            Keys.RESPONSE_REFUSED,
            Keys.ANSWERING_MCP_SERVERS,
            Keys.AGENT_METRICS,
        }
    )
    usage_key = "answer_generation"
    reads: ClassVar[Mapping[str, object]] = {"abstention_enabled": False}
    prompts = (GENERATION, FEW_SHOT_GENERATION)
    settings = GenerationSettings
    fallback = True
    error_outcome = Outcome.MODEL_ERROR

    def before_run(
        self, config: VerificationConfig, questions: Sequence[Question], trust: Trust
    ) -> Iterable[ModelNeed]:
        """Check that all selected examples exist. Returns no needs.

        Raises `ConfigError` if one does not, and logs a warning for unknown questions.
        """
        few_shot = few_shot_settings(config)
        if few_shot is None:
            return ()
        problems, ids = [], set()
        for question in questions:
            ids.add(question.id)
            try:
                examples_for(question, few_shot)
            except ValueError as error:
                problems.append(str(error))
        if problems:
            raise ConfigError(problems)
        _warn_about_unknown_questions([id for id in few_shot.question_configs if id not in ids], ids)
        return ()

    async def execute(self, context: VerificationContext) -> None:
        """Ask the model and record its reply. Raises `PortError` if the call fails or the answer is empty.

        See the class for the empty answers that are allowed. If the provider stopped the answer and no abstention check
        follows, the item is vetoed.
        """
        model = context.answering_model
        few_shot = few_shot_settings(context.config)
        examples = examples_for(context.question, few_shot) if few_shot is not None else []
        task = FEW_SHOT_GENERATION if examples else GENERATION
        *system, question = context.prompt(task, context.question.question, model)
        messages = [*system, *to_turns(examples), question]
        context.set_artifact(Keys.ANSWERING_MCP_SERVERS, sorted(model.mcp_urls_dict) if model.mcp_urls_dict else None)
        if context.answers_through_agent():
            folder = context.find_artifact(Keys.WORKSPACE_PATH)
            options = AgentOptions(
                model.agent_max_turns,
                model.agent_timeout,
                folder,
                timeout_setting=f"agent_timeout of the model {model.id!r}",
            )
            try:
                reply = await context.agent(model).run(messages, options)
            except PortError as error:
                if error.partial is not None:
                    self._record_trace(context, error.partial)
                raise
            self._record_trace(context, reply)
            if folder is None and not model.mcp_urls_dict and _has_no_answer(reply):
                raise PortError(_explain_empty(context, reply), category=ErrorCategory.EMPTY)
        else:
            llm_reply = await context.llm(model).invoke(messages)
            self._record_text(context, llm_reply)
            if llm_reply.finish_reason not in _STOPPED and not has_content(llm_reply.text):
                raise PortError(f"the answer from {model.display_string} is empty", category=ErrorCategory.EMPTY)
        if context.get_artifact(Keys.RESPONSE_REFUSED) and not context.setting("abstention_enabled"):
            context.veto("the provider stopped the answer", Outcome.ABSTAINED)

    @staticmethod
    def _record_text(context: VerificationContext, reply: LLMReply) -> None:
        """Record a plain reply. With `strip_reasoning`, its reasoning is separated."""
        text, reasoning = reply.text, reply.reasoning
        if context.setting("strip_reasoning"):
            thought, text = traces.split_reasoning(text, cut_off=reply.finish_reason == "length")
            reasoning = "\n\n".join(filter(None, (reasoning, thought)))
        if reasoning:
            context.set_result_field("reasoning", reasoning)
        if reply.notes:
            context.set_result_field("notes", list(reply.notes))
        context.set_artifact(Keys.RAW_LLM_RESPONSE, text)
        context.set_artifact(Keys.TRACE_MESSAGES, [])
        context.set_artifact(Keys.FINAL_AI_MESSAGE, text)
        context.set_artifact(Keys.RECURSION_LIMIT_REACHED, False)
        _record_end(context, reply.finish_reason)
        context.set_artifact(Keys.AGENT_METRICS, None)

    @staticmethod
    def _record_trace(context: VerificationContext, reply: AgentReply) -> None:
        """Record a conversation. With `strip_reasoning`, its reasoning is separated."""
        trace: list[Message] = list(reply.trace)
        if context.setting("strip_reasoning"):
            trace = traces.separate_reasoning(trace, cut_off=reply.finish_reason == "length")
        notes = [note for message in trace for note in message.notes]
        if notes:
            context.set_result_field("notes", notes)
        context.set_artifact(Keys.RAW_LLM_RESPONSE, traces.render_trace(trace))
        context.set_artifact(Keys.TRACE_MESSAGES, trace)
        context.set_artifact(Keys.FINAL_AI_MESSAGE, _final_text(trace, reply.finish_reason))
        context.set_artifact(Keys.RECURSION_LIMIT_REACHED, reply.limit_reached)
        _record_end(context, reply.finish_reason)
        context.set_artifact(Keys.AGENT_METRICS, dict(traces.measure_trace(trace)))


def _warn_about_unknown_questions(unknown: Sequence[str], ids: Collection[str]) -> None:
    """Warn about question IDs in `few_shot_config` that are not in this run. Names only the first few."""
    if unknown:
        shown = ", ".join(f"{id!r}{did_you_mean(id, ids) if len(unknown) == 1 else ''}" for id in unknown[:_MOST_NAMED])
        logger.warning(
            "few_shot_config.question_configs contains question ids that are not in this run (%d): %s%s",
            len(unknown),
            shown,
            ", ..." if len(unknown) > _MOST_NAMED else "",
        )


def _record_end(context: VerificationContext, reason: FinishReason) -> None:
    """Record if the answer was cut off at the token limit or stopped by the provider."""
    context.set_artifact(Keys.RESPONSE_TRUNCATED, reason == "length")
    context.set_artifact(Keys.RESPONSE_REFUSED, reason == "content_filter")


def _has_no_answer(reply: AgentReply) -> bool:
    """Check if an agent finished without an answer although nothing stopped it."""
    stopped = reply.limit_reached or reply.finish_reason in _STOPPED
    return not stopped and ends_empty(reply.trace)


def _explain_empty(context: VerificationContext, reply: AgentReply) -> str:
    """Explain why an agent's answer is empty, using the notes in its last message if there are any."""
    notes = reply.trace[-1].notes if reply.trace else ()
    return "; ".join(notes) or f"the answer from {context.answering_model.display_string} is empty"


def _final_text(trace: Sequence[Message], finish_reason: str) -> str | None:
    """Return the text of the agent's last message, or None if the trace does not end in an answer.

    It is empty if the content filter of the provider removed the text.
    """
    last = traces.final_ai_message(trace)
    if last is None and finish_reason == "content_filter" and trace:
        end = trace[-1]
        return end.content if end.role == "assistant" and not end.tool_calls else None
    return last
