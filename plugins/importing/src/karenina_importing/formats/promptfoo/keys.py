"""The promptfoo keys that are read or do not affect answers. All other keys are reported."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from karenina_benchmark.tables.message_texts import is_conversation
from karenina_importing.formats.structured_values import as_mapping
from karenina_toolkit.printable import in_one_line

CONFIG_KEYS: Final = frozenset(
    (
        *("prompts", "providers", "targets", "tests", "scenarios", "defaultTest", "assertionTemplates"),
        *("$schema", "description", "tags", "metadata", "env", "outputPath", "sharing", "writeLatestResults"),
        *("commandLineOptions", "evaluateOptions", "tracing"),
    )
)
TEST_KEYS: Final = frozenset(
    (
        *("vars", "assert", "options", "prompt", "prompts", "threshold", "metadata", "description"),
        *("providerOutput", "assertScoringFunction"),
    )
)
_LIKE: Final = ("assert", "vars", "options", "threshold", "metadata", "description")
"""Keys of a test that are often misspelt, such as `asserts` for `assert`."""
ANSWERS: Final = ("expected", "expected_answer", "ground_truth", "reference", "answer", "__expected")
"""Names of variables that contain a correct answer."""
_MAIN: Final = ("prompts", "providers", "targets", "tests", "scenarios", "defaultTest")
_CONVERSATION: Final = re.compile(r"\w{0,40}(?:conversation|dialog|dialogue|messages|turns|history)", re.IGNORECASE)
_TURNS: Final = ("turns", "messages", "history", "conversation", "userTurns")
_OPTIONS: Final = frozenset(
    (
        *("prefix", "suffix", "transform", "postprocess", "disableVarExpansion", "disableDefaultAsserts"),
        *("storeOutputAs", "runSerially", "repeat"),
    )
)
"""Options of a test that are read, reported elsewhere, or do not change questions."""
_ASSERTION_KEYS: Final = frozenset({"type", "value", "metric", "weight", "transform", "description"})
_WITH_THRESHOLD: Final = ("levenshtein", "similar", "similar:cosine")
_SET_KEYS: Final = frozenset({"type", "assert", "threshold", "description"})
_MOST: Final = 20
_LONGEST: Final = 40


def misspelt(keys: Iterable[Any]) -> dict[str, str]:
    """Return the correct key for each key of a configuration that is misspelt by its case or lacks the final s. For
    `Prompt`, it is `prompts`. Other unknown keys are ignored.
    """
    right = {form: key for key in _MAIN for form in (key.casefold(), key.casefold().removesuffix("s"))}
    return {str(key): right[str(key).casefold()] for key in keys if key not in _MAIN and str(key).casefold() in right}


def turns_of(name: str, value: Any) -> list[Any]:
    """Return the turns of the conversation in a variable, or an empty list. Only a program can send turns. A list is a
    conversation if it has several items and the variable's `name` suggests it.
    """
    if isinstance(value, Mapping):
        return next((value[key] for key in _TURNS if isinstance(value.get(key), list)), [])
    return value if isinstance(value, list) and len(value) > 1 and _CONVERSATION.fullmatch(name) else []


def turns_as_messages(variables: Mapping[str, Any]) -> list[Any] | None:
    """Return the turns in the first variable that contains a conversation as messages, or None. Turns that are strings
    become user messages.
    """
    for name, value in variables.items():
        turns = turns_of(str(name), value)
        if turns and all(isinstance(turn, str) for turn in turns):
            return [{"role": "user", "content": turn} for turn in turns]
        if is_conversation(turns):
            return turns
    return None


def is_simulated(provider: Any) -> bool:
    """Return whether a test's provider is a model that simulates the user."""
    name = provider.get("id") if isinstance(provider, Mapping) else provider
    return isinstance(name, str) and name.startswith("promptfoo:simulated-user")


def unread_keys(value: Mapping[Any, Any], known: frozenset[str]) -> Iterator[str]:
    """Yield the first 20 unknown keys that have a value, then "other keys" if there are more. Each key is shortened to
    40 characters.
    """
    keys = (key for key, content in value.items() if key not in known and content not in (None, False, "", [], {}))
    yield from (in_one_line(str(key))[:_LONGEST] for key in islice(keys, _MOST))
    if next(keys, None) is not None:
        yield "other keys"


def unread_of_test(test: Any) -> list[str]:
    """Return descriptions of the keys of a test and its options that are not read, and of keys with a wrong type. If
    `test` is not an object, there are none.
    """
    if not isinstance(test, Mapping):
        return []
    names = [f"{key} of a test{_meant(key)}" for key in unread_keys(test, TEST_KEYS)]
    for key in ("vars", "options", "metadata"):
        inner = test.get(key)
        if inner is not None and not isinstance(inner, Mapping) and not (key == "vars" and isinstance(inner, str)):
            names.append(f"{key} that is not an object")
    options = test.get("options")
    return names + [f"options.{key} of a test" for key in unread_keys(as_mapping(options), _OPTIONS)]


def _meant(key: str) -> str:
    """Suggest the key that was probably meant by a key that promptfoo does not read, or return ""."""
    stem = key.casefold().replace("_", "")
    right = next((name for name in _LIKE if stem.startswith(name[:6]) or f"{stem}s" == name), None)
    return "" if right is None else f" (promptfoo does not read `{key}`; did you mean `{right}`?)"


def unread_of_assertion(assertion: Mapping[str, Any], base: str) -> list[str]:
    """Return the keys of an assertion that are not read. `base` is its type without `not-`."""
    known = _ASSERTION_KEYS | {"threshold"} if base in _WITH_THRESHOLD else _ASSERTION_KEYS
    known = _SET_KEYS if base == "assert-set" else known
    return [f"{key} of {assertion['type']}" for key in unread_keys(assertion, known)]


def any_json_passes(fields: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return whether fields only require that the response is or contains JSON. Without fields, returns False."""
    rules = ({"type": "TraceJSON"}, {"type": "TraceJSON", "anywhere": True})
    return bool(fields) and all(
        field.get("verify_with") in rules and "ground_truth" not in field for field in fields.values()
    )
