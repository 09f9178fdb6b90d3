"""Code does not run without trust, and trust covers exactly one source."""

import json
from pathlib import Path

import pytest

from karenina_core.data.trust import Trust, digest_of
from karenina_engine.user_files import TrustFileError, load_trust, store_trust
from karenina_template.templates import BaseAnswer, TemplateError, UntrustedTemplate, load_template
from karenina_template.templates.source.loading import template_of_class

FIELD = 'x: str = VerifiedField(description="d", ground_truth="t", verify_with=ExactMatch())'
DO = '__import__("os").system("touch MARKER")'


def answer(*lines: str, before: str = "") -> str:
    return before + "class Answer(BaseAnswer):\n" + "".join(f"    {line}\n" for line in (FIELD, *lines))


def with_truth(expression: str) -> str:
    return answer().replace('"t"', expression)


def with_primitive(expression: str) -> str:
    return answer().replace("ExactMatch()", expression)


CODE = {
    "at module level": answer(before=f"{DO}\n"),
    "at class level": answer(DO),
    "as a class attribute": answer(f"y = {DO}"),
    "as a default": answer(f"y: int = {DO}"),
    "in Field": answer(f"y: int = Field(default={DO})"),
    "in a factory": answer(f"y: int = Field(default_factory=lambda: {DO})"),
    "as a truth": with_truth(DO),
    "in a container": with_truth(f"[{{1: {DO}}}]"),
    "in an f-string": with_truth(f"f'{{{DO}}}'"),
    "in a comprehension": with_truth(f"[{DO} for i in (1, 2)]"),
    "in an operation": with_truth(f"'a' + {DO}"),
    "behind a sign": with_truth(f"-{DO}"),
    "by a constructor's other method": with_truth("date.today()"),
    "by unpacking a list": with_primitive("ExactMatch(*[])"),
    "by unpacking a mapping": with_primitive("ExactMatch(**{})"),
    "as a weight": with_primitive(f"ExactMatch(), weight={DO}"),
    "in a primitive": with_primitive(f"ExactMatch(normalize={DO})"),
    "as a decorator": answer(before=f"@{DO}\n"),
    "as a base": answer().replace("(BaseAnswer)", f"(BaseAnswer, {DO})"),
    "as a class argument": answer().replace("(BaseAnswer)", f"(BaseAnswer, metaclass={DO})"),
    "as an annotation": answer(f"y: {DO}"),
    "in an annotation": answer(f"y: list[{DO}]"),
    "in Literal": answer(f"y: Literal[{DO}]"),
    "in a text annotation": answer(f"y: {DO!r}"),
    "in text within an annotation": answer(f"y: list[{DO!r}]"),
    "under future annotations": answer(f"y: {DO}", before="from __future__ import annotations\n"),
    "in the strategy": answer("class VerificationStrategy:", f"    verify_strategy = {DO}"),
    "beside the strategy": answer("class VerificationStrategy:", f"    {DO}"),
    "in a nested model": answer(before=f"class N(BaseModel):\n    a: int = {DO}\n"),
    "in an enumeration": answer(before=f"class E(Enum):\n    A = {DO}\n"),
    "in a method": answer(f"def verify(self, x={DO}): return True"),
    "by an import": answer(before="import os\n"),
    "by a relative import": answer(before="from . import x\n"),
    "by an unknown name of a known package": answer(before="from karenina_engine import engine\n"),
    "by a star": answer(before="from typing import *\n"),
    "by hiding a known name": answer(before="class ExactMatch(BaseModel):\n    a: int = 1\n"),
}


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "it-ran"


@pytest.mark.parametrize("where", CODE)
def test_code_does_not_run_without_trust(where: str, marker: Path):
    source = CODE[where].replace("MARKER", str(marker))
    with pytest.raises(UntrustedTemplate) as caught:
        load_template(source)
    assert not marker.exists()
    assert caught.value.digest == digest_of(source)
    assert caught.value.line is not None
    assert "karenina trust FILE" in str(caught.value)
    assert 'trust="all"' in str(caught.value)


def test_the_marker_would_appear(marker: Path):
    source = CODE["at class level"].replace("MARKER", str(marker))
    load_template(source, trust=Trust(frozenset({digest_of(source)})))
    assert marker.exists()


def test_trust_is_given_to_one_source_exactly(marker: Path):
    source = CODE["at class level"].replace("MARKER", str(marker))
    with pytest.raises(UntrustedTemplate):
        load_template(source + " ", trust=Trust(frozenset({digest_of(source)})))
    assert not marker.exists()


def test_a_source_that_ran_with_trust_is_still_refused_without():
    source = "class Answer(BaseAnswer):\n    x: str\n    def verify(self): return True\n"
    load_template(source, trust=Trust.all())
    with pytest.raises(UntrustedTemplate, match=r"line 3: class Answer has the method verify\(\)"):
        load_template(source)


def test_declarations_are_not_executed_with_trust_either(monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> None:
        raise AssertionError("executed")

    monkeypatch.setattr("builtins.exec", refuse)
    source = answer()
    assert load_template(source, trust=Trust.all()).for_question("q").judge_fields == ("x",)


@pytest.mark.parametrize(
    ("source", "says", "line"),
    [
        ("class Answer(BaseAnswer):\n    x: str\n    y = 1 / 0\n", "ZeroDivisionError", 3),
        ("import no_such_module_at_all\n", "No module named", 1),
        ("x = 1\n", "no class Answer", None),
        (
            "def f(): pass\nclass A(BaseAnswer):\n    x: str\nclass B(BaseAnswer):\n    x: str\n",
            "must be named Answer; rename one of A, B",
            None,
        ),
        ("def f(): pass\nclass Answer(BaseAnswer):\n    x: str\n", "verifies nothing", None),
        (answer(before="def f(): pass\n").replace("str", "int"), "does not match the field annotation", 2),
    ],
)
def test_a_trusted_source_that_is_no_template_is_an_error(source: str, says: str, line: int | None):
    with pytest.raises(TemplateError, match=says) as caught:
        load_template(source, trust=Trust.all())
    assert caught.value.line == line


def test_trusted_sources_may_import_from_the_reference_project():
    source = (
        "from __future__ import annotations\nimport re\nfrom karenina.schemas.entities import BaseAnswer\n"
        "class Node(BaseModel):\n    inner: list[Node]\n"
        "class Answer(BaseAnswer):\n    n: Node\n    def verify(self): return bool(re.match('a', 'a'))\n"
    )
    bound = load_template(source, trust=Trust.all()).for_question("q")
    assert bound.bind({"n": {"inner": [{"inner": []}]}}).verify()


class TestTheUsersFile:
    @pytest.fixture(autouse=True)
    def home(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("KARENINA_CONFIG_HOME", str(tmp_path / "config"))
        return tmp_path / "config"

    def test_nothing_is_trusted_at_first(self):
        assert load_trust() == Trust()
        assert not load_trust().covers("x")

    def test_what_is_stored_is_trusted_from_then_on(self):
        store_trust([digest_of("one")], "the first")
        path = store_trust([digest_of("two"), digest_of("one")], "both")
        assert [load_trust().covers(source) for source in ("one", "two", "three")] == [True, True, False]
        assert json.loads(path.read_text())["trusted"][digest_of("one")]["note"] == "the first"

    def test_the_folder_follows_xdg(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.delenv("KARENINA_CONFIG_HOME")
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
        assert store_trust([digest_of("one")]).parent == tmp_path / "xdg" / "karenina"

    @pytest.mark.parametrize(
        "content", ["", "{", "[]", '{"version": 2, "trusted": {}}', '{"version": 1, "trusted": {"all": {}}}']
    )
    def test_a_broken_file_is_an_error_and_stays_unchanged(self, home: Path, content: str):
        home.mkdir()
        path = home / "trusted.json"
        path.write_text(content)
        for attempt in (load_trust, lambda: store_trust([digest_of("one")])):
            with pytest.raises(TrustFileError, match="broken"):
                attempt()
        assert path.read_text() == content

    def test_only_digests_are_stored(self):
        with pytest.raises(ValueError, match="not a SHA-256"):
            store_trust(["class Answer"])


def test_a_class_object_is_its_callers_own_code():
    class Answer(BaseAnswer):
        x: str

        def verify(self) -> bool:
            return self.x == "yes"

    assert template_of_class(Answer).for_question("q").bind({"x": "yes"}).verify()
