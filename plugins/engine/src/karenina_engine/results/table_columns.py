"""The columns of tables of results: names, types and meanings.

A column of type `json` holds JSON text, because its values have any type; `null` there is a value that was extracted
as null, an empty cell is a value that does not exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

ColumnType = Literal["text", "integer", "number", "boolean", "time", "texts", "json"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its name, the type of its values, and their meaning with units."""

    name: str
    type: ColumnType
    meaning: str


_ITEM: Final = (
    Column("result_id", "text", "The id of the result, unique in a run."),
    Column("question_id", "text", "The id of the question."),
    Column("answering_model", "text", "The id of the answering model in the configuration."),
    Column("judge", "text", "The id of the judge (parsing model) in the configuration."),
    Column("replicate", "integer", "The number of the replicate, from 1."),
)
"""The columns that every table of results begins with: they identify the result of a row."""

RESULTS: Final = (
    *_ITEM,
    Column("question", "text", "The text of the question."),
    Column("keywords", "texts", "The keywords of the question."),
    Column("raw_answer", "text", "The reference answer in words, if the benchmark has one."),
    Column("answering_interface", "text", "The adapter of the answering model."),
    Column("answering_name", "text", "The provider's name of the answering model."),
    Column("judge_interface", "text", "The adapter of the judge."),
    Column("judge_name", "text", "The provider's name of the judge."),
    Column("run_name", "text", "The name of the run, if it has one."),
    Column("outcome", "text", "The outcome: correct, wrong, partial, abstained, parse_error, ..."),
    Column("judged", "boolean", "Whether the item was judged; false for every error, and if it is undecided."),
    Column("passed", "boolean", "The verdict; empty if there is none."),
    Column("granular", "number", "The share of the fields that are right, from 0 to 1; empty if not computed."),
    Column("reason", "text", "One sentence on how the item came to its outcome."),
    Column("error", "text", "The error of an item that was not judged."),
    Column("response", "text", "The text of the answer; of an agent, the whole trace as text."),
    Column("vetoes", "texts", "The objections of guards and checks, each as `stage: reason`."),
    Column("truncated", "boolean", "Whether the answer was cut off at its token limit."),
    Column("abstained", "boolean", "Whether the model declined to answer; empty if not checked."),
    Column("calls", "integer", "Model calls of the item. Judges share the calls of an answer, which are in each row."),
    Column("input_tokens", "integer", "Tokens of the prompts of these calls."),
    Column("output_tokens", "integer", "Tokens of the replies of these calls."),
    Column("seconds", "number", "Seconds from the start of the item to its end, the answer's included."),
    Column("timestamp", "time", "When the item ended, in UTC."),
    Column("template_id", "text", "The digest of the answer template."),
    Column("extensions", "json", "The values that plugins add, by distribution and name (`set_result_field`)."),
)

FIELDS: Final = (
    *_ITEM,
    Column("field", "text", "The name of the template field."),
    Column("extracted", "json", "The value that the judge extracted; empty if the judge filled nothing."),
    Column("truth", "json", "The right value; empty if the field has none."),
    Column("passed", "boolean", "Whether the field passed; empty if it was not compared, or is undecided."),
    Column("score", "number", "The score of the field from 0 to 1; empty if it was not compared, or is undecided."),
    Column("reasoning", "text", "The judge's reasons for the value, if deep judgment ran."),
)

TRAITS: Final = (
    *_ITEM,
    Column("trait", "text", "The name of the rubric trait."),
    Column("kind", "text", "The kind of the trait: llm, regex, callable, metric, agentic, or a plugin's own."),
    Column("score", "number", "The score as a number, true as 1; empty if the score is not a number."),
    Column("value", "json", "The score as it is: true, 4, or the values of a metric; empty if not scored."),
    Column("label", "text", "The class that the score stands for, of a literal trait."),
    Column("reasoning", "text", "The judge's reasons for the score."),
    Column("error", "text", "Why the trait has no score."),
)

EXCERPTS: Final = (
    *_ITEM,
    Column("of", "text", "The kind of what the excerpt supports: `field` or `trait`."),
    Column("name", "text", "The name of the field or trait."),
    Column("number", "integer", "The number of the excerpt of that field or trait, from 1."),
    Column("text", "text", "The excerpt, in the response's own words."),
    Column("confidence", "text", "The judge's confidence in the excerpt."),
    Column("similarity", "number", "The similarity of the judge's quotation and the excerpt, from 0 to 1."),
    Column("start", "integer", "The place of the excerpt's first character in the response, from 0."),
    Column("end", "integer", "The place after its last character."),
    Column("details", "json", "Everything else about the excerpt, such as search results."),
)

STAGES: Final = (
    *_ITEM,
    Column("number", "integer", "The place of the stage in the plan, from 1."),
    Column("stage", "text", "The name of the stage."),
    Column("slot", "text", "The slot of the stage; empty for an extra stage."),
    Column("status", "text", "`ran`, `skipped` or `failed`."),
    Column("reason", "text", "Why the stage was skipped, or its error."),
    Column("seconds", "number", "Seconds in the stage."),
    Column("calls", "integer", "Calls that the stage made."),
    Column("failed_calls", "integer", "Calls that failed in all their attempts."),
    Column("input_tokens", "integer", "Tokens of its prompts."),
    Column("output_tokens", "integer", "Tokens of its replies."),
    Column("retries", "integer", "Requests that were made again."),
    Column("waited", "number", "Seconds between the attempts."),
    Column("distribution", "text", "The distribution of the stage."),
    Column("version", "text", "The version of the distribution."),
)

CALLS: Final = (
    Column("question_id", "text", "The id of the question."),
    Column("replicate", "integer", "The number of the replicate, from 1."),
    Column("model", "text", "The id of the model in the configuration, or the name of a service."),
    Column("interface", "text", "The adapter of the model."),
    Column("model_name", "text", "The provider's name of the model."),
    Column("port", "text", "The kind of the call: llm, parser, agent or service."),
    Column("stage", "text", "The stage that made the call."),
    Column("task", "text", "The task of the prompt."),
    Column("failed", "boolean", "Whether the call failed."),
    Column("reusable", "boolean", "Whether the reply is used if the same call is needed again."),
    Column("finish_reason", "text", "Why the model stopped, as the provider reports it."),
    Column("input_tokens", "integer", "Tokens of the prompt; 0 for an agent's run, whose turns have rows."),
    Column("output_tokens", "integer", "Tokens of the reply; 0 for an agent's run, whose turns have rows."),
    Column("calls", "integer", "Requests that the model answered; 0 for an agent's run, whose turns have rows."),
    Column("seconds", "number", "Seconds of the request that brought the reply."),
    Column("retries", "integer", "Requests that were made again."),
    Column("waited", "number", "Seconds between the attempts."),
    Column("time", "time", "When the reply was stored, in UTC."),
    Column("reply", "json", "The reply, or the error of a failed call."),
    Column("key", "text", "The SHA-256 of everything that was sent: calls with the same key are identical."),
)
