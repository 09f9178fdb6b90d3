"""Questions, and a benchmark as a collection of them."""

import pytest

from karenina_benchmark import Benchmark
from karenina_core.data.question import Question
from karenina_core.data.rubrics import DynamicRubric, LLMRubricTrait, RegexRubricTrait, Rubric
from karenina_core.data.trust import Trust
from karenina_template.question_template import template_of, template_source_of
from karenina_template.templates import BaseAnswer, ExactMatch, TemplateError, UntrustedTemplate, VerifiedField

DECLARED = (
    "class Answer(BaseAnswer):\n"
    "    capital: str = VerifiedField(description='the capital', ground_truth='Paris', verify_with=ExactMatch())\n"
)
CODE = DECLARED + "    def verify(self):\n        return True\n"


class Capital(BaseAnswer):
    capital: str = VerifiedField(description="the capital", ground_truth="Paris", verify_with=ExactMatch())


@pytest.fixture
def benchmark():
    made = Benchmark.create("Capitals", description="of countries")
    made.add_question("What is the capital of France?", "Paris", DECLARED, question_id="fr")
    made.add_question(question="What is the capital of Italy?", raw_answer="Rome", question_id="it")
    return made


def test_the_id_depends_on_the_text_alone():
    first, second = Question(question="a?"), Question(question="a?", raw_answer="b")
    assert first.id == second.id != Question(question="b?").id
    assert first.id.startswith("urn:uuid:")


@pytest.mark.parametrize("fields", [{"question": ""}, {"question": " \n"}, {"question": "a?", "raw_anwser": "b"}])
def test_a_wrong_question_is_refused(fields):
    with pytest.raises(ValueError, match=r"question|raw_anwser"):
        Question(**fields)


def test_blank_templates_and_empty_rubrics_mean_none():
    question = Question(question="a?", answer_template=" \n", rubric=Rubric())
    assert (question.answer_template, question.rubric, question.has_template) == (None, None, False)
    assert template_of(question) is None


def test_questions_keep_their_order(benchmark):
    assert [question.id for question in benchmark] == ["fr", "it"]
    assert len(benchmark) == 2
    assert "fr" in benchmark
    assert benchmark.get("it").raw_answer == "Rome"


def test_a_duplicate_id_is_refused(benchmark):
    with pytest.raises(ValueError, match=r"two questions have the id 'fr'.*question_id"):
        benchmark.add_question("Another?", question_id="fr")
    assert len(benchmark) == 2


def test_a_question_object_takes_no_other_arguments(benchmark):
    with pytest.raises(ValueError, match="cannot be combined"):
        benchmark.add_question(Question(question="a?"), raw_answer="b")
    assert benchmark.add_question(Question(question="a?")) in benchmark.questions


def test_several_questions_are_added_together_or_not_at_all(benchmark):
    with pytest.raises(ValueError, match="two questions"):
        benchmark.add_questions([Question(question="new?"), Question(question="x?", id="it")])
    assert len(benchmark) == 2


def test_keywords_are_not_one_text(benchmark):
    with pytest.raises(ValueError, match=r"write \['geo'\]"):
        benchmark.add_question("a?", keywords="geo")


def test_an_unknown_id_suggests_the_nearest():
    benchmark = Benchmark.create("b")
    benchmark.add_question("a?", question_id="paris")
    with pytest.raises(KeyError, match="did you mean 'paris'"):
        benchmark.get("pariss")


def test_a_question_is_changed_by_replacing_it(benchmark):
    benchmark.replace(benchmark.get("fr").changed(raw_answer="Paris!"))
    assert [(question.id, question.raw_answer) for question in benchmark] == [("fr", "Paris!"), ("it", "Rome")]
    assert benchmark.get("fr").answer_template == DECLARED


def test_a_removed_question_is_gone(benchmark):
    assert benchmark.remove("fr").id == "fr"
    assert [question.id for question in benchmark] == ["it"]


def test_rubrics_merge_for_a_question(benchmark):
    benchmark.global_rubric = Rubric.of(LLMRubricTrait(name="clear"))
    benchmark.dynamic_rubric = DynamicRubric.of(LLMRubricTrait(name="safe", summary="safety"))
    question = benchmark.add_question("a?", rubric=[RegexRubricTrait(name="cites", pattern="x")])
    assert benchmark.rubric_for(question).names == ("clear", "cites")
    assert benchmark.dynamic_rubric_for(question).names == ("safe",)
    assert benchmark.dynamic_rubric_for(question.changed(dynamic_rubric=None)).names == ("safe",)


def test_a_trait_name_that_the_global_rubric_has_is_refused(benchmark):
    benchmark.global_rubric = Rubric.of(LLMRubricTrait(name="clear"))
    with pytest.raises(ValueError, match="'clear' is used both in the global rubric"):
        benchmark.add_question("a?", rubric=[LLMRubricTrait(name="clear")])


def test_a_template_is_loaded_once():
    question = Question(question="a?", answer_template=DECLARED)
    assert template_of(question) is template_of(question)


def test_a_broken_template_raises_on_access():
    question = Question(question="a?", answer_template="class Answer(")
    with pytest.raises(TemplateError):
        template_of(question)


def test_trust_is_not_remembered_between_calls():
    question = Question(question="a?", answer_template=CODE)
    assert template_of(question, Trust.all()) is not None
    with pytest.raises(UntrustedTemplate):
        template_of(question)


def test_a_class_needs_no_trust_and_is_saved_as_source(tmp_path):
    benchmark = Benchmark.create("b")
    question = benchmark.add_question("a?", answer_template=Capital)
    assert question.answer_class is Capital
    assert template_of(question) is not None
    benchmark.save(tmp_path / "b.jsonld")
    (loaded,) = Benchmark.load(tmp_path / "b.jsonld")
    assert loaded.answer_template == template_source_of(question)
    assert "VerifiedField(" in loaded.answer_template


def test_questions_with_different_classes_differ():
    class Other(Capital):
        pass

    first, second = (Question(question="a?", answer_template=kind) for kind in (Capital, Other))
    assert first != second
    assert first == Question(question="a?", answer_template=Capital)


def test_the_class_stays_with_a_changed_question():
    question = Question(question="a?", answer_template=Capital).changed(raw_answer="b")
    assert question.answer_class is Capital


def test_the_format_of_a_file_is_found_by_its_content(tmp_path, benchmark):
    benchmark.save(tmp_path / "b.jsonld")
    (tmp_path / "b.txt").write_text((tmp_path / "b.jsonld").read_text())
    loaded = Benchmark.load(tmp_path / "b.txt")
    assert loaded == benchmark
    assert loaded.path == tmp_path / "b.txt"


def test_loading_executes_nothing(tmp_path):
    mark = tmp_path / "executed"
    benchmark = Benchmark.create("b")
    benchmark.add_question("a?", answer_template=f"open({str(mark)!r}, 'w')\n{DECLARED}")
    for ending in (".jsonld", ".yaml"):
        benchmark.save(tmp_path / f"b{ending}")
        assert Benchmark.load(tmp_path / f"b{ending}") == benchmark
    assert not mark.exists()
