"""The contract of stages, and the number of words."""

from karenina_testing.contracts import StageContract

from word_count import WORDS, WordCount


class TestWordCount(StageContract):
    entry_point = "word_count"
    stage = WordCount

    def test_words_are_counted(self) -> None:
        run = self.run()
        assert (run.artifact(WORDS), run.field("words")) == (3, 3)
        assert run.state.values["word_count.words"].value == 3
