"""Trait evaluators that need no judge: callable traits and regex traits."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import lru_cache, reduce
from importlib import import_module
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar

from karenina_core.data.rubrics import CallableRubricTrait, RegexRubricTrait
from karenina_core.data.trust import digest_of
from karenina_core.errors import KareninaError, describe_error
from karenina_rubric.evaluators import KindEvaluator, TraitScore
from karenina_toolkit.patterns import check_pattern, search
from karenina_toolkit.turn_context import assistant_text

if TYPE_CHECKING:
    from karenina_core import VerificationContext
    from karenina_core.data.trust import Trust


Function = Callable[[str], object]


class CallableTraitError(KareninaError, ValueError):
    """Raised if a callable trait's function cannot be used or returns an invalid score."""


class CallableTraitEvaluator(KindEvaluator[CallableRubricTrait]):
    """Scores callable traits by calling their functions with the text of the answer.

    Functions passed in Python or named by import path run without further checks, because the user installed them. Two
    kinds of functions only run if the user trusts them: source code, and functions of the standard library, because
    something like `os:system` could run an answer as a command. Pickled functions are never loaded.

    Functions run in a thread. A thread cannot be stopped, so a function keeps running in the background after
    `item_timeout` or Ctrl-C has ended the item.
    """

    name: ClassVar[str] = "callable"
    result_field: ClassVar[str] = "callable_trait_scores"
    kind = CallableRubricTrait

    async def score(self, trait: CallableRubricTrait, text: str, context: VerificationContext) -> TraitScore:
        """Return the trait's score: the value that its function returns for the assistant's text or, for a literal
        trait, the position of the class that it returns. Raises `CallableTraitError` as `compute_score` does.
        """
        said = assistant_text(context, text)
        value = await context.in_thread(compute_score, trait, said, context.trust, abandon=True)
        if trait.kind != "literal":
            return TraitScore(trait.name, self.result_field, value)
        position = trait.class_names.index(value)
        return TraitScore(trait.name, self.result_field, position, fields={"callable_trait_labels": value})


def compute_score(trait: CallableRubricTrait, text: str, trust: Trust) -> Any:
    """Call the trait's function and return its value: a bool (inverted with `invert_result`), a number, or a class
    name. Raises `CallableTraitError` if the function is not available or trusted, or if the value does not match the
    trait's kind. Exceptions raised by the function propagate.
    """
    value = resolve_function(trait, trust)(text)
    if trait.kind == "boolean":
        if not isinstance(value, bool):
            raise CallableTraitError(
                f"the function returned {value!r:.100}, but a boolean trait requires True or False"
            )
        return value is not trait.invert_result
    if trait.kind == "literal":
        if value not in trait.class_names:
            classes = ", ".join(trait.class_names)
            raise CallableTraitError(f"the function returned {value!r:.100}, but the trait's classes are {classes}")
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise CallableTraitError(f"the function returned {value!r:.100}, but a score trait requires a number")
    assert trait.min_score is not None
    assert trait.max_score is not None
    if not trait.min_score <= value <= trait.max_score:
        raise CallableTraitError(
            f"the function returned {value}, but the score of the trait must be from {trait.min_score} to "
            f"{trait.max_score}"
        )
    return value


def resolve_function(trait: CallableRubricTrait, trust: Trust) -> Function:
    """Return a trait's function: passed in Python, imported, or compiled from source code. Raises `CallableTraitError`
    if the function is not available or not trusted.

    Importing the module or running the trusted source code may have side effects.
    """
    if trait.given is not None:
        return trait.given
    if trait.function is not None:
        return _import_function(trait.function, trust)
    if trait.source is None:
        raise CallableTraitError(
            "the trait has only a pickled function, which is never loaded; specify its import path as "
            "`function`, or its code as `source`"
        )
    if not trust.covers(trait.source):
        raise CallableTraitError(
            f"the trait's source code (SHA-256 {digest_of(trait.source)[:16]}...) is not trusted; read "
            'the code and run `karenina trust FILE`, or pass trust="all" in Python if the file is '
            "entirely your own"
        )
    return _compile_source(trait.source, trait.name)


def _import_function(path: str, trust: Trust) -> Function:
    """Import the function at a path such as `package.module:function`, and return it. Raises `CallableTraitError` if
    there is no such function, or if it is one of the standard library that is not trusted. Other exceptions raised
    while importing the module propagate.
    """
    module_name, _, attributes = path.partition(":")
    _refuse_standard_library(module_name, path, trust)
    try:
        target: Any = reduce(getattr, attributes.split("."), import_module(module_name))
    except ImportError as error:
        raise CallableTraitError(
            f"the function {path!r} cannot be imported ({error}); install the package that contains it"
        ) from error
    except AttributeError as error:
        raise CallableTraitError(f"the function {path!r} does not exist: {error}") from error
    if not callable(target):
        raise CallableTraitError(f"{path!r} is a {type(target).__name__}, not a function")
    _refuse_standard_library(getattr(target, "__module__", None) or type(target).__module__, path, trust)
    function: Function = target
    return function


def _refuse_standard_library(module: str, path: str, trust: Trust) -> None:
    """Raise `CallableTraitError` if `module` is in the standard library and `path` is not trusted.

    Check the function's own module as well, because `package.module:os.system` also leads to the standard library.
    """
    if module.partition(".")[0] in sys.stdlib_module_names and not trust.covers(path):
        raise CallableTraitError(
            f"{path!r} is a function in Python's standard library and could run the answer as a command; "
            'write a function in a module of your own, or pass trust="all" if the benchmark is '
            "entirely your own"
        )


@lru_cache(maxsize=256)
def _compile_source(source: str, name: str) -> Function:
    """Run trusted source code, and return the function that it defines: if there are several, the one called `name`, or
    else the only public one. Raises `CallableTraitError` if the code fails or the choice is ambiguous.

    The result is cached.
    """
    filename = f"<callable trait {digest_of(source)[:16]}>"
    space: dict[str, Any] = {"__name__": "karenina_callable_trait"}
    try:
        exec(compile(source, filename, "exec"), space)  # noqa: S102 - trusted
    except Exception as error:
        raise CallableTraitError(f"the trait's source code raised an error: {describe_error(error)}") from error
    functions = {
        key: value
        for key, value in space.items()
        if inspect.isroutine(value) and getattr(value, "__module__", None) == space["__name__"]
    }
    public = [key for key in functions if not key.startswith("_")]
    chosen = [*functions] if len(functions) == 1 else [name] if name in functions else public
    if len(chosen) != 1:
        listed = ", ".join(functions) or "none"
        raise CallableTraitError(
            f"the trait's source code must define one function, but it defines {listed}; name one "
            f"function {name!r}, or start the names of all others with an underscore"
        )
    function: Function = functions[chosen[0]]
    return function


class RegexTraitEvaluator(KindEvaluator[RegexRubricTrait]):
    """Scores regex traits by searching the answer for their patterns.

    `karenina_toolkit.patterns` limits the time of a search.
    """

    name: ClassVar[str] = "regex"
    result_field: ClassVar[str] = "regex_trait_scores"
    kind = RegexRubricTrait

    async def score(self, trait: RegexRubricTrait, text: str, context: VerificationContext) -> TraitScore:
        """Search for the trait's pattern. With `invert_result`, the result is inverted."""
        said = assistant_text(context, text)
        return TraitScore(trait.name, self.result_field, await context.in_thread(matches, trait, said))


def matches(trait: RegexRubricTrait, text: str) -> bool:
    """Return whether the trait's pattern occurs in `text`, inverted by `invert_result`. Raises `PatternTimeout` if the
    search takes too long.
    """
    match = search(trait.pattern, text, () if trait.case_sensitive else ("IGNORECASE",))
    return (match is not None) is not trait.invert_result


@lru_cache(maxsize=4096)
def pattern_error(pattern: str) -> str | None:
    """Return the reason why a pattern does not compile, or None.

    The result is cached, because the questions of a benchmark often share patterns.
    """
    try:
        check_pattern(pattern)
    except ValueError as error:
        return str(error)
    return None
