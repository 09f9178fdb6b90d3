"""The bad replies sent by `faults.py --replies`, and the table of the effect that each of them has.

Most are the cases from the adapters' contracts (`karenina_testing.contracts.odd_replies`), with an item's words in
place of their own. A text that must not be mistaken for the answer contains the code word `BAIT`, which the judge
prefers to any other word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from karenina_core.data.outcome import Outcome
from karenina_core.models.ports import ErrorCategory
from karenina_testing.contracts.odd_replies import (
    CHAT_FORMS,
    CHAT_REPLIES,
    MESSAGES_FORMS,
    MESSAGES_REPLIES,
    OddReply,
    chat,
    messages_reply,
)
from karenina_testing.server import Fault, Reply, Request
from karenina_testing.server.exchange import event

BAIT: Final = "CW0X"
CUT: Final = "The code word of"
"""The remaining text of an answer that was cut off."""

Effect = Literal["read", "unknown", "cut", "used up", "filtered", "paused", "empty", "server", "connection"]
"""The effect of a reply: its text is read; it is read, with a finish reason that is counted as unknown; it is cut off;
thoughts used up all tokens; it is filtered; the server expects another request; or it is an error of this kind.
"""
RETRIES: Final[Mapping[Effect, int]] = {"empty": 1, "server": 4, "connection": 2}
"""How often a call is retried after each kind of error."""
HIDDEN: Final = "many hidden tokens"
DEAR: Final = "many tokens, and broken off"
LOST: Final = "form, lost backslashes"
JUDGE_REQUESTS: Final = 2
"""How often a judge is asked if its form cannot be read."""

_ERRORS: Final[Mapping[ErrorCategory, Effect]] = {ErrorCategory.EMPTY: "empty", ErrorCategory.SERVER: "server"}
_ENDS: Final[Mapping[str, Effect]] = {"content_filter": "filtered", "length": "cut", "other": "unknown"}
_ANSWER, _PARTIAL, _WRONG, _FORM = "Oslo.", "The capi", "Bergen", str(CHAT_FORMS["in the reasoning alone"].text)
_TOKEN_NAMES: Final = (("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens"))


@dataclass(frozen=True)
class Kind:
    """A kind of bad reply: its fault, its effect, its input and output tokens, and its unknown finish reason."""

    name: str
    effect: Effect
    fault: Fault
    tokens: tuple[int, int]
    reason: str = ""


@dataclass(frozen=True)
class Expected:
    """What the replies to an item's calls require. `calls` are the numbers of calls to the model and to the judge.

    `text` is `whole` if the answer is complete, `cut` if it is cut off, and empty if there is no answer.
    """

    outcome: Outcome
    calls: tuple[int, int]
    text: Literal["whole", "cut", ""] = ""


def expected(answers: Sequence[Effect], judgments: Sequence[Effect], *, right: bool) -> Expected:
    """Return how an item must end if the replies to its calls had these effects.

    `right` says if its answer is right.
    """
    left, forms = iter(answers), iter(judgments)
    effect = _call(left)
    asked = len(answers) - len(list(left))
    if effect in RETRIES:
        return Expected(Outcome.MODEL_ERROR, (asked, 0))
    if effect in ("filtered", "used up"):
        return Expected(Outcome.ABSTAINED if effect == "filtered" else Outcome.TRUNCATED, (asked, 0))
    form: Effect = "cut"
    for _ in range(JUDGE_REQUESTS):
        form = _call(forms)
        if form != "cut":
            break
    calls = asked, len(judgments) - len(list(forms))
    text: Literal["whole", "cut"] = "cut" if effect == "cut" else "whole"
    if form not in ("read", "unknown"):
        return Expected(Outcome.PARSE_ERROR, calls, text)
    judged = Outcome.TRUNCATED if effect == "cut" else Outcome.CORRECT if right else Outcome.WRONG
    return Expected(judged, calls, text)


def _call(effects: Iterator[Effect]) -> Effect:
    """Return the final effect of a call including its retries, which are taken from `effects`.

    Raises `LookupError` if a retry is missing.
    """
    failed: Counter[Effect] = Counter()
    for effect in effects:
        failed[effect] += effect in RETRIES
        if effect != "paused" and failed[effect] in (0, RETRIES.get(effect, 0) + 1):
            return effect
    raise LookupError("the call was not retried")


def kinds(*, judge: bool, messages: bool, streamed: bool) -> dict[str, Kind]:
    """Return the kinds of bad replies for one side and wire format, by name."""
    if messages:
        odd = {
            **(MESSAGES_FORMS if judge else MESSAGES_REPLIES),
            **(_messages_forms() if judge else _messages_answers()),
        }
    else:
        odd = {**(CHAT_FORMS if judge else CHAT_REPLIES), **(_chat_forms() if judge else _chat_answers())}
    found = [_kind(name, case, streamed=streamed) for name, case in odd.items()]
    return {kind.name: kind for kind in [*found, *(_STREAMS if streamed else ())]}


def _kind(name: str, case: OddReply, *, streamed: bool) -> Kind:
    """Return the kind of bad reply for a case from the adapters' contracts, with its effect and unknown finish
    reason.
    """
    effect: Effect = _ERRORS[case.error] if case.error is not None else _ENDS.get(case.finish_reason, "read")
    if name == "paused" or (effect == "cut" and case.text == ""):
        effect = "paused" if name == "paused" else "used up"
    reason = ""
    if effect == "unknown":
        choice = case.body["choices"][0] if "choices" in case.body else {}
        reason = choice.get("finish_reason", case.body.get("stop_reason")) or ""
        if streamed and not reason:
            effect = "connection"
    words = {_WRONG: BAIT}
    if effect in ("server", "filtered", "empty"):
        words |= {_PARTIAL: f"It is {BAIT}.", _ANSWER: f"It is {BAIT}."}
    elif effect == "cut":
        words |= {_PARTIAL: CUT}

    def change(_: Request, good: Reply) -> Reply:
        """Return the bad reply: the case's body with the item's words, streamed if the wire format is streamed."""
        text = said(good)
        if name == LOST:
            text = text.replace("\\\\", "\\")
        body = _with_words(case.body, words, text)
        if streamed and case.status == 200 and "choices" in body:
            return Reply(chunks=pieces(body), done=True)
        return Reply(body, case.status)

    return Kind(name, effect, Fault(name, change), _tokens_of(case), reason)


def _tokens_of(case: OddReply) -> tuple[int, int]:
    """Return the input and output tokens of a case, based on its expected tokens or its usage."""
    if case.tokens is not None:
        return case.tokens[:2]
    usage = case.body.get("usage") or {}
    given = [usage.get(name, usage.get(other, 0)) for name, other in _TOKEN_NAMES]
    return given[0], given[1]


def said(good: Reply) -> str:
    """Return the text of a good reply, whether or not it is streamed."""
    if good.chunks is not None:
        chunks = [chunk for chunk in good.chunks if isinstance(chunk, Mapping) and chunk["choices"]]
        return "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)
    body = good.body
    if "choices" in body:
        return str(body["choices"][0]["message"]["content"])
    return "".join(block.get("text", "") for block in body["content"])


def _with_words(value: Any, words: Mapping[str, str], text: str) -> Any:
    """Return JSON values with an item's words. The answer or form in the case is replaced with `text`."""
    if isinstance(value, str):
        for word, other in words.items():
            value = value.replace(word, other)
        for whole in (_FORM, _PARTIAL, _ANSWER):
            value = value.replace(whole, text)
        return value
    if isinstance(value, Mapping):
        return {name: _with_words(one, words, text) for name, one in value.items()}
    if not isinstance(value, list):
        return value
    texts = [one if isinstance(one, str) else one.get("text", "") for one in value if isinstance(one, str | Mapping)]
    if "".join(texts) in (_FORM, _ANSWER) and not {_FORM, _ANSWER} & {*texts}:  # a text in several parts
        return _in_parts(value, text)
    return [_with_words(one, words, text) for one in value]


def _in_parts(parts: Sequence[Any], text: str) -> list[Any]:
    """Return the parts of a message, with `text` divided among those that contain text."""
    found: list[Any] = []
    left = text
    for place, part in enumerate(parts):
        if not isinstance(part, str) and "text" not in part:
            found.append(part)
            continue
        taken = left if place == len(parts) - 1 else left[:5]
        left = left[len(taken) :]
        found.append(taken if isinstance(part, str) else {**part, "text": taken})
    return found


def pieces(completion: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a completion as stream chunks.

    These are the text in two chunks, other parts one by one, then the finish reason, and the usage with any error.
    """
    head = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    (choice,) = completion["choices"]
    message = {name: value for name, value in choice["message"].items() if name != "role"}
    beside = {name: value for name, value in choice.items() if name != "message"}
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None}]
    for name, value in message.items():
        if name == "content" and isinstance(value, str):
            deltas += [{name: value[:9]}, {name: value[9:]}]
        elif name == "content" and isinstance(value, list):
            deltas += [{name: [part]} for part in value]
        elif name == "tool_calls":
            deltas.append({name: [{"index": place, **call} for place, call in enumerate(value)]})
        else:
            deltas.append({name: value})
    chunks = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({**head, "choices": [{**beside, "delta": {}}]})
    error = {"error": completion["error"]} if "error" in completion else {}
    return [*chunks, {**head, "choices": [], "usage": completion["usage"], **error}]


def _marked(answer: str, bait: str) -> Mapping[str, str]:
    """Return the answer preceded by the bait as thoughts, in several notations."""
    return {
        "marks of Mistral": f"[THINK]{bait}[/THINK]{answer}",
        "thinking": f"<thinking>{bait}</thinking>\n{answer}",
        "thoughts without a beginning": f"{bait}</think>\n\n{answer}",
        "channels": f"<|channel|>analysis<|message|>{bait}<|end|><|start|>assistant<|channel|>final<|message|>{answer}",
    }


def _chat_answers() -> Mapping[str, OddReply]:
    """Return further bad answers in chat completions, by name."""
    hidden = {"prompt_tokens": 20, "completion_tokens": 8, "total_tokens": 4028}
    return {
        **{name: OddReply(chat(text)) for name, text in _marked(_ANSWER, f"{_WRONG}?").items()},
        HIDDEN: OddReply(chat(usage=hidden), tokens=(20, 4008, 0, 0, 0)),
        DEAR: OddReply(chat(_PARTIAL, "error", hidden), error=ErrorCategory.SERVER, tokens=(20, 4008, 0, 0, 0)),
        "a token of a chat template": OddReply(chat(f"{_ANSWER}<|im_end|>")),
    }


def _chat_forms() -> Mapping[str, OddReply]:
    """Return further bad replies from a judge in chat completions, by name."""
    call = f'<tool_call>\n{{"name": "Answer", "arguments": {_FORM}}}\n</tool_call>'
    return {
        **{f"form, {name}": OddReply(chat(text)) for name, text in _marked(_FORM, f'{{"word": "{BAIT}"}}').items()},
        "form, written call": OddReply(chat(call)),
        LOST: OddReply(chat(_FORM)),
        "form, unknown reason": OddReply(chat(_FORM, "weary"), finish_reason="other"),
        "form, cut off": OddReply(chat('{"wo', "MAX_TOKENS"), finish_reason="length"),
        "form, network error": OddReply(chat(_FORM, "network_error"), error=ErrorCategory.SERVER),
    }


def _messages_answers() -> Mapping[str, OddReply]:
    """Return further bad answers in Anthropic's Messages API, by name."""
    search = [{"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": BAIT}}]
    many = {"input_tokens": 20, "output_tokens": 4008}
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    return {
        **{name: OddReply(messages_reply(text)) for name, text in _marked(_ANSWER, f"{_WRONG}?").items()},
        "paused": OddReply(messages_reply(search, "pause_turn")),
        HIDDEN: OddReply(messages_reply(_ANSWER, usage=many)),
        DEAR: OddReply(messages_reply(_PARTIAL, "error", many), error=ErrorCategory.SERVER),
        "an error in 200": OddReply(overloaded, error=ErrorCategory.SERVER),
        "a token limit": OddReply(messages_reply(_PARTIAL, "max_tokens"), finish_reason="length"),
    }


def _messages_forms() -> Mapping[str, OddReply]:
    """Return further bad replies from a judge in Anthropic's Messages API, by name."""
    return {
        **{
            f"form, {name}": OddReply(messages_reply(text))
            for name, text in _marked(_FORM, f'{{"word": "{BAIT}"}}').items()
        },
        LOST: OddReply(messages_reply(_FORM)),
        "form, unknown reason": OddReply(messages_reply(_FORM, "weary"), finish_reason="other"),
        "form, cut off": OddReply(messages_reply('{"wo', "max_tokens"), finish_reason="length"),
        "form, broken off": OddReply(messages_reply('{"wo', "error"), error=ErrorCategory.SERVER),
    }


def _stream(name: str, effect: Effect, change: Callable[[list[Any]], list[Any]], *, done: bool = True) -> Kind:
    """Return a kind of faulty stream. `change` is called with the chunks of a good stream."""

    def changed(_: Request, good: Reply) -> Reply:
        """Return the good reply as a stream with altered chunks."""
        return Reply(chunks=change(pieces(chat(said(good)))), done=done)

    return Kind(name, effect, Fault(name, changed), (20, 8))


def _without_end(chunks: list[Any]) -> list[Any]:
    """Return the chunks of a stream, without those that have a finish reason."""
    return [chunk for chunk in chunks if not (chunk["choices"] and chunk["choices"][0]["finish_reason"])]


def _as_messages(chunks: list[Any]) -> list[Any]:
    """Return stream chunks in which each `delta` is renamed to `message`."""
    renamed = [
        {"message" if key == "delta" else key: value for key, value in _choice(chunk).items()} for chunk in chunks
    ]
    return [{**chunk, "choices": [choice] if choice else []} for chunk, choice in zip(chunks, renamed, strict=True)]


def _choice(chunk: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the choice in a chunk, or an empty mapping if the chunk has none."""
    return chunk["choices"][0] if chunk["choices"] else {}


_ZEROS: Final = {"choices": [], "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}}
_STREAMS: Final = (
    _stream("stream without a reason", "connection", _without_end),
    _stream("stream without a reason and [DONE]", "connection", _without_end, done=False),
    _stream("stream without [DONE]", "read", lambda chunks: chunks, done=False),
    _stream("stream of messages", "read", _as_messages),
    _stream("stream with zeros at its end", "read", lambda chunks: [*chunks, _ZEROS]),
    _stream("stream with a byte-order mark", "read", lambda chunks: [b"\xef\xbb\xbf", *chunks]),
    _stream("stream with CR", "read", lambda chunks: [event(one).replace(b"\n", b"\r") for one in chunks]),
)
