"""The contract of stages that fill templates."""

from karenina_core import Question
from karenina_template.templates import load_template
from karenina_testing.contracts import ParseStageContract

from last_word_parse import LastWordParse

CITY = """
class Answer(BaseAnswer):
    city: str = VerifiedField(description="The city", ground_truth="Paris", verify_with=ExactMatch())
"""


class TestLastWordParse(ParseStageContract):
    entry_point = "last_word_parse"
    stage = LastWordParse
    question = Question(question="What is the capital of France?", answer_template=CITY)
    template = load_template(CITY).for_question("city")
    response = "I think that it is Lyon."
    extracted = {"city": "Lyon"}
