"""Regex and callable traits, which need no judge."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import pytest
from rubric_runs import ANSWER, score

from karenina_core import ArtifactKeys as Keys
from karenina_core import Question, VerificationConfig
from karenina_core.data.rubrics import CallableRubricTrait, DynamicRubric, RegexRubricTrait, Rubric
from karenina_core.data.trust import NO_TRUST, Trust, digest_of
from karenina_rubric import plugin
from karenina_rubric.evaluation import RubricEvaluation
from karenina_testing import ScriptedModels, run_stage
from karenina_toolkit import patterns

DOI = r"doi:10\.\d{4}"
WORDS = "def words(text):\n    return len(text.split())\n"


def has_doi(text: str) -> bool:
    return "doi:" in text


def count_words(text: str) -> int:
    return len(text.split())


def returns_text(text: str) -> Any:
    return text


def raises(text: str) -> bool:
    raise RuntimeError("no network")


HERE = __name__


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"pattern": DOI}, True),
        ({"pattern": DOI, "invert_result": True}, False),
        ({"pattern": "PLEASE"}, False),
        ({"pattern": "PLEASE", "case_sensitive": False}, True),
        ({"pattern": "apoptosis$"}, False),
        ({"pattern": "absent", "invert_result": True}, True),
    ],
    ids=str,
)
def test_a_pattern_is_found_or_not(fields: Mapping[str, Any], expected: bool) -> None:
    models = ScriptedModels()
    found = score(RegexRubricTrait(name="r", **fields), models=models)
    assert found.field("regex_trait_scores") == {"r": expected}
    assert models.requests == []


def test_a_pattern_that_never_ends_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns.search, "__kwdefaults__", {"seconds": 0.05})
    endless = RegexRubricTrait(name="endless", pattern=r"^(a|aa)+$")
    found = score(endless, RegexRubricTrait(name="b", pattern="b"), answer="a" * 60 + "b")
    assert found.field("regex_trait_scores") == {"endless": None, "b": True}
    assert "backtracks" in found.field("trait_errors")["endless"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"function": f"{HERE}:has_doi"}, True),
        ({"function": f"{HERE}:has_doi", "invert_result": True}, False),
        ({"function": f"{HERE}:count_words", "kind": "score", "min_score": 0, "max_score": 100}, len(ANSWER.split())),
    ],
    ids=str,
)
def test_a_function_is_called_by_its_import_path(fields: Mapping[str, Any], expected: bool | int) -> None:
    assert score(CallableRubricTrait(name="c", **fields)).field("callable_trait_scores") == {"c": expected}


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"function": f"{HERE}:raises"}, "RuntimeError: no network"),
        ({"function": f"{HERE}:returns_text"}, "a boolean trait requires True or False"),
        ({"function": f"{HERE}:count_words"}, "a boolean trait requires True or False"),
        ({"function": f"{HERE}:has_doi", "kind": "score"}, "a score trait requires a number"),
        ({"function": f"{HERE}:count_words", "kind": "score"}, "must be from 1 to 5"),
        ({"function": f"{HERE}:absent"}, "absent' does not exist"),
        ({"function": f"{HERE}:HERE"}, "is a str, not a function"),
        ({"function": "no_such_module_anywhere:f"}, "install the package"),
        ({"function": "os:system"}, "Python's standard library"),
        ({"function": "builtins:eval"}, "Python's standard library"),
        ({"function": f"{HERE}:patterns.re.compile"}, "Python's standard library"),
        ({"source": WORDS, "kind": "score"}, "karenina trust"),
        ({"pickled": "gASVAAAA"}, "never loaded"),
    ],
    ids=str,
)
def test_a_function_that_cannot_score_fails_its_trait_alone(fields: Mapping[str, Any], says: str) -> None:
    found = score(CallableRubricTrait(name="c", **fields), CallableRubricTrait(name="d", function=f"{HERE}:has_doi"))
    assert found.field("callable_trait_scores") == {"c": None, "d": True}
    assert says in found.field("trait_errors")["c"]


def test_what_is_not_trusted_is_not_run(tmp_path: Any) -> None:
    mark = tmp_path / "it ran"
    source = f"open({str(mark)!r}, 'w').close()\ndef f(text):\n    return True\n"
    trait = CallableRubricTrait(name="c", source=source)
    score(trait, trust=Trust(frozenset({digest_of(source + " ")})))
    assert not mark.exists()
    assert score(trait, trust=Trust(frozenset({digest_of(source)}))).field("callable_trait_scores") == {"c": True}
    assert mark.exists()


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (WORDS, 6),
        ("import re\ndef _n(t):\n    return len(re.findall('o', t))\ndef letters(t):\n    return _n(t)\n", 4),
        ("def c(t):\n    return 1\ndef other(t):\n    return 2\n", 1),
        ("c = lambda text: 5\n", 5),
    ],
    ids=["only one", "only public one", "of the trait's name", "lambda"],
)
def test_a_trusted_source_says_which_function_it_is(source: str, expected: int) -> None:
    trait = CallableRubricTrait(name="c", source=source, kind="score", min_score=0, max_score=10)
    assert score(trait, trust=Trust.all()).field("callable_trait_scores") == {"c": expected}


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("x = 1\n", "it defines none"),
        ("def a(t):\n    return True\ndef b(t):\n    return True\n", "it defines a, b"),
        ("import no_such_module_anywhere\n", "ModuleNotFoundError"),
        ("def f(text:\n", "SyntaxError"),
    ],
)
def test_a_trusted_source_that_is_no_function_says_why(source: str, says: str) -> None:
    found = score(CallableRubricTrait(name="c", source=source), trust=Trust.all())
    assert says in found.field("trait_errors")["c"]


def test_functions_do_not_hold_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("rubric_threads")
    vars(module)["elsewhere"] = lambda _text: threading.current_thread() is not threading.main_thread()
    monkeypatch.setitem(sys.modules, "rubric_threads", module)
    found = score(CallableRubricTrait(name="c", function="rubric_threads:elsewhere"))
    assert found.field("callable_trait_scores") == {"c": True}


def test_a_cancelled_item_does_not_wait_for_its_function(monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on, done = threading.Event(), threading.Event()

    def hangs(_text: str) -> bool:
        goes_on.wait(120)
        done.set()
        return True

    module = ModuleType("rubric_hangs")
    vars(module)["hangs"] = hangs
    monkeypatch.setitem(sys.modules, "rubric_hangs", module)

    async def cut_off() -> bool:
        question = Question(question="Q?", rubric=[CallableRubricTrait(name="c", function="rubric_hangs:hangs")])  # type: ignore[arg-type]  # a list of traits is accepted
        stage = run_stage(
            RubricEvaluation, question=question, artifacts={Keys.RAW_LLM_RESPONSE: ANSWER}, plugins=[plugin]
        )
        try:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(stage, 0.3)
            return done.is_set()
        finally:
            goes_on.set()

    assert asyncio.run(cut_off()) is False


# ---- patterns


@pytest.mark.parametrize("rubric", ["rubric", "dynamic_rubric"])
def test_an_invalid_pattern_is_refused_before_the_run(rubric: str) -> None:
    config = VerificationConfig(parsing_models=[ScriptedModels().model()])
    kind = Rubric if rubric == "rubric" else DynamicRubric
    broken = RegexRubricTrait(name="cites", summary="It cites.", pattern="([")
    questions = [
        Question(question="One?", id="1", rubric=Rubric.of(RegexRubricTrait(name="doi", pattern="doi:"))),
        Question(question="Two?", id="2", **{rubric: kind.of(broken)}),
    ]
    stage = RubricEvaluation()

    assert [stage.checks_question(config, question) for question in questions] == [False, True]
    with pytest.raises(ValueError, match=r"question 2, trait 'cites': the pattern '\(\[' does not compile"):
        stage.before_run(config, questions, NO_TRUST)
