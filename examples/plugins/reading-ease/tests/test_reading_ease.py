"""The contract of kinds of traits, with texts of known ease."""

from karenina_testing.contracts import TraitContract

from reading_ease import ReadingEaseEvaluator, ReadingEaseTrait

HARD = "Pharmacological inhibition of antiapoptotic proteins precipitates mitochondrial disintegration."


class TestReadingEase(TraitContract):
    entry_point = "reading_ease"
    trait = ReadingEaseTrait(name="easy")
    evaluator = ReadingEaseEvaluator()
    scores = {
        "The cat sat on the mat. It was warm.": 100.0,
        HARD: 0.0,
        "Stop taking the tablets and see a doctor.": 82.4,
    }
    lowest, highest = 0, 100

    def test_an_answer_without_words_has_no_score(self) -> None:
        (score,) = self.evaluate("42")
        assert (score.score, score.error) == (None, "the answer has no words")
