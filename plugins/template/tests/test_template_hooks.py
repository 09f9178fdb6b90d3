"""Plugins add primitives, which templates use like the built-in ones."""

from __future__ import annotations

from types import ModuleType

from karenina_core import Question, hookimpl
from karenina_core.plugins import Plugins
from karenina_template.question_template import template_of
from karenina_template.templates import Primitive


class EndsWith(Primitive):
    """A primitive of a plugin."""

    def check(self, extracted: object, expected: object) -> bool:
        """Return whether the value ends with the truth."""
        return isinstance(extracted, str) and extracted.endswith(str(expected))


def offering(primitive: type[Primitive]) -> ModuleType:
    """Return a plugin that offers `primitive`."""
    plugin = ModuleType("a_plugin")
    plugin.karenina_primitives = hookimpl(lambda: [primitive], specname="karenina_primitives")  # type: ignore[attr-defined]
    return plugin


def test_a_plugins_primitive_is_used_like_a_built_in_one() -> None:
    Plugins().register(offering(EndsWith))
    field = 'VerifiedField(description="d", ground_truth="CL2", verify_with=EndsWith())'
    question = Question(question="Which?", answer_template=f"class Answer(BaseAnswer):\n    gene: str = {field}\n")

    template = template_of(question)

    assert template is not None
    bound = template.for_question("q")
    assert bound.bind({"gene": "BCL2"}).verify() is True
    assert bound.bind({"gene": "TP53"}).verify() is False


def test_a_primitive_with_a_taken_name_fails_its_plugin() -> None:
    plugins = Plugins()
    plugins.register(offering(type("ExactMatch", (EndsWith,), {})))

    (info,) = plugins.describe()

    assert info.state == "failed"
    assert "ExactMatch" in (info.failure or "")
