"""`CallableTraitEvaluator`: a function looks at the answer."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache, reduce
from importlib import import_module
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar, Final

from karenina_core.data.rubrics import CallableRubricTrait, RubricTrait
from karenina_core.data.trust import digest_of
from karenina_core.errors import KareninaError, describe_error
from karenina_rubric.concurrent_scoring import score_each
from karenina_rubric.evaluators import TraitScore

if TYPE_CHECKING:
    from karenina_core import VerificationContext
    from karenina_core.data.trust import Trust

FIELD: Final = "callable_trait_scores"

Function = Callable[[str], object]


class CallableTraitError(KareninaError, ValueError):
    """A function of a callable trait that cannot be had or may not run, or what it returned that is no score."""


class CallableTraitEvaluator:
    """Calls the function of each callable trait with the answer's text, in a thread.

    A function that the caller gave in this process runs, and so does one named by its import path, which the user
    installed; one of Python's own library (`os:system`) would turn an answer into a command, so it needs trust like any
    source. A source runs only if the user trusted exactly it. What was pickled is never loaded. A function has no time
    limit of its own, because a thread cannot be ended: `item_timeout` and Ctrl-C end the item without it, and the
    function goes on by itself.
    """

    name: ClassVar[str] = "callable"
    precedence: ClassVar[int] = 0

    def claims(self, trait: RubricTrait, context: VerificationContext) -> bool:
        """All callable traits."""
        return isinstance(trait, CallableRubricTrait)

    async def evaluate(
        self, traits: Sequence[RubricTrait], text: str, context: VerificationContext
    ) -> Sequence[TraitScore]:
        """One score for each."""

        async def score(trait: CallableRubricTrait) -> TraitScore:
            given = await context.in_thread(compute_score, trait, text, context.trust, abandon=True)
            if trait.kind != "literal":
                return TraitScore(trait.name, FIELD, given)
            return TraitScore(
                trait.name, FIELD, trait.class_names.index(given), fields={"callable_trait_labels": given}
            )

        return await score_each([one for one in traits if isinstance(one, CallableRubricTrait)], FIELD, score)


def compute_score(trait: CallableRubricTrait, text: str, trust: Trust) -> Any:
    """Return what the trait's function gives for `text`: a bool, a number, or the name of a class.

    Raises `CallableTraitError` if there is no function to call, if it may not run, and if it returns what does not fit
    the trait's kind; whatever the function raises passes through.
    """
    given = resolve_function(trait, trust)(text)
    if trait.kind == "boolean":
        if not isinstance(given, bool):
            raise CallableTraitError(f"the function returned {given!r:.100}, and a boolean trait takes True or False")
        return given is not trait.invert_result
    if trait.kind == "literal":
        if given not in trait.class_names:
            classes = ", ".join(trait.class_names)
            raise CallableTraitError(f"the function returned {given!r:.100}, and the trait's classes are {classes}")
        return given
    if isinstance(given, bool) or not isinstance(given, int | float) or not isfinite(given):
        raise CallableTraitError(f"the function returned {given!r:.100}, and a score trait takes a number")
    assert trait.min_score is not None
    assert trait.max_score is not None
    if not trait.min_score <= given <= trait.max_score:
        raise CallableTraitError(
            f"the function returned {given}, and the trait's scores go from {trait.min_score} to {trait.max_score}"
        )
    return given


def resolve_function(trait: CallableRubricTrait, trust: Trust) -> Function:
    """The function that the trait names or holds. Raises `CallableTraitError`."""
    if trait.given is not None:
        return trait.given
    if trait.function is not None:
        return _import_function(trait.function, trust)
    if trait.source is None:
        raise CallableTraitError(
            "the trait holds only a pickled function of another program, which is never loaded; give its import path "
            "as `function`, or its code as `source`"
        )
    if not trust.covers(trait.source):
        raise CallableTraitError(
            f"the trait's source (SHA-256 {digest_of(trait.source)[:16]}...) is code that you have not trusted: read "
            'it and run `karenina trust FILE`, or pass trust="all" in Python where the file is all your own'
        )
    return _compile_source(trait.source, trait.name)


def _import_function(path: str, trust: Trust) -> Function:
    module_name, _, attributes = path.partition(":")
    _refuse_standard_library(module_name, path, trust)
    try:
        found: Any = reduce(getattr, attributes.split("."), import_module(module_name))
    except ImportError as error:
        raise CallableTraitError(
            f"the function {path!r} cannot be imported ({error}): install the package that has it"
        ) from error
    except AttributeError as error:
        raise CallableTraitError(f"there is no function {path!r}: {error}") from error
    if not callable(found):
        raise CallableTraitError(f"{path!r} is a {type(found).__name__}, not a function")
    _refuse_standard_library(getattr(found, "__module__", None) or type(found).__module__, path, trust)
    function: Function = found
    return function


def _refuse_standard_library(module: str, path: str, trust: Trust) -> None:
    """A name of another module may lead there too (`package.module:os.system`), so what it leads to is looked at."""
    if module.partition(".")[0] in sys.stdlib_module_names and not trust.covers(path):
        raise CallableTraitError(
            f"{path!r} leads to Python's own library, where a function may run the answer as a command: define your "
            'own function in a module, or pass trust="all" where the benchmark is all your own'
        )


@lru_cache(maxsize=256)
def _compile_source(source: str, name: str) -> Function:
    """The function that a trusted source defines: its only one, else that with the trait's name, else its only public
    one."""
    filename = f"<callable trait {digest_of(source)[:16]}>"
    space: dict[str, Any] = {"__name__": "karenina_callable_trait"}
    try:
        exec(compile(source, filename, "exec"), space)  # noqa: S102 - trusted
    except Exception as error:
        raise CallableTraitError(f"the trait's source fails: {describe_error(error)}") from error
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
            f"the trait's source must define one function, and it defines {listed}; name the one to call {name!r}, or "
            "let the names of the others begin with _"
        )
    function: Function = functions[chosen[0]]
    return function
