"""The right answers of a table have kinds: what each cell becomes, and what stays as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from karenina_benchmark import Benchmark, BenchmarkFileError
from karenina_benchmark.tables.answer_kinds import Cell, find_kinds, is_prose
from karenina_benchmark.tables.declare_answers import declare_answers
from karenina_benchmark.tables.question_wording import asked_unit, asks_whether, offered_labels
from karenina_benchmark.template_declarations import make_template_source
from karenina_template.question_template import template_of
from karenina_template.templates import load_template


def kinds(values: list[Any], questions: str | list[str] = "") -> list[tuple[str, Any]]:
    asked = [questions] * len(values) if isinstance(questions, str) else questions
    detected = find_kinds([Cell(value, question) for value, question in zip(values, asked, strict=True)])
    return [(answer.kind, answer.truth) for answer in detected.answers]


def kind_names(values: list[Any], questions: str | list[str] = "") -> list[str]:
    return [kind for kind, _ in kinds(values, questions)]


NUMBERS = [
    "1,234.5",
    "1 234",
    "$5",
    "5 USD",
    "USD 5",
    "5 %",
    "5%",
    "5e-3",
    "½",
    "~5",
    "<5",
    "5 mg",
    "-7",
    "1922",
    "(1,200)",
    "$(4.5)M",
]
TEXTS = [
    *("F", "NO", "MAR1", "SEPT2", "BCL2", "007", "1.2.3", "555-1234", "5-10", "192.168.1.1", "10:30", "A1", "3D"),
    *(
        "January 2024",
        "Q1 2024",
        "20240115T10",
        "1990s",
        "50 Cent",
        "7 Up",
        "3M",
        "None",
        "unknown",
        "2024-01-15T10:30:00",
    ),
]
ERRORS = ["#N/A", "#DIV/0!", "#REF!", "#VALUE!", "#NAME?", "#NUM!", "#NULL!", "#SPILL!", "#CALC!"]
EMPTY = [
    None,
    "",
    "  ",
    "N/A",
    "n/a",
    "-",
    "?",
    "???",
    "null",
    "NaN",
    "NaT",
    "<NA>",
    *ERRORS,
    float("nan"),
    float("inf"),
    [],
]


@pytest.mark.parametrize("text", NUMBERS)
def test_a_number_is_certain_alone(text: str) -> None:
    assert kinds([text, "Lima"])[0] == ("number", text)


@pytest.mark.parametrize("text", TEXTS)
def test_names_and_codes_stay_what_they_are(text: str) -> None:
    assert kinds([text])[0] == ("text", text)
    assert kinds([text, "5 mg", "Lima"])[0] == ("text", text)


@pytest.mark.parametrize("value", EMPTY, ids=repr)
def test_placeholders_are_no_answers(value: Any) -> None:
    assert kind_names([value, "5"]) == ["empty", "number"]


@pytest.mark.parametrize("text", ["46 chromosomes", "3rd", "1/2", "5g", "1E10"])
def test_what_may_be_a_number_needs_others_or_the_question(text: str) -> None:
    assert kind_names([text, "Lima"]) == ["text", "text"]
    assert kind_names([text, "7", "9"]) == ["number", "number", "number"]
    assert kind_names([text, "Lima"], "How many are there?")[0] == "number"


@pytest.mark.parametrize(
    ("values", "question"),
    [
        (["555 123 456", "555 123 457"], "What is the phone number of the shop?"),
        (["12", "14"], "Which version has it?"),
        (["3.9", "3.10", "3.11"], "Which Python release has it?"),  # or 3.1 would be 3.10
        (["3.1", "3.10"], "Which chapter explains it?"),
        (["5 &micro;g", "3&nbsp;kg"], "How heavy?"),
        (["int a = 5; return a;", "f(1); g(2);", "for x { i++; j }"], "What does it print?"),
        (["123456", "234567"], "What is the PubMed id of the paper?"),
        (["100", "200"], "Who won the race?"),
        (["A1", "1E10", "2E5"], "Which well?"),
        (["1E10", "2E5"], "Where is it?"),
        (["007", "123"], "Which agent?"),
        (["NO", "CO2", "N2O"], "Which gas is it?"),
        (["NO", "NO"], "Which gas is it?"),
        (["yes", "no", "maybe"], "Does it work?"),
    ],
)
def test_a_question_or_other_cells_contradict_a_kind(values: list[str], question: str) -> None:
    assert kinds(values, question) == [("text", value) for value in values]


def test_a_power_of_ten_is_no_code_beside_codes() -> None:
    assert kind_names(["007", "10⁵", "123", "Lima"]) == ["text", "number", "text", "text"]


@pytest.mark.parametrize("values", [["yes", "NO"], ["TRUE", "false"], ["Y", "N"], ["Ja", "nein"], [True, False]])
def test_yes_or_no_is_a_column_without_anything_else(values: list[Any]) -> None:
    assert kinds(values) == [("yes or no", True), ("yes or no", False)]
    assert kind_names([*values, "Lima"])[2] == "text"


@pytest.mark.parametrize("values", [["1", "0"], [1, 0]])
def test_1_and_0_are_yes_and_no_if_all_questions_ask_whether(values: list[Any]) -> None:
    assert kinds(values, "Is it a metal?") == [("yes or no", True), ("yes or no", False)]
    assert kind_names(values, ["Is it a metal?", "How many?"]) == ["number", "number"]
    assert kind_names([*values, 2], "Is it a metal?") == ["number", "number", "number"]


def test_yes_after_a_question_that_asks_whether_is_certain() -> None:
    asked = ["Is gold a metal?", "Which gas is it?", "What is the capital?"]
    assert kinds(["yes", "NO", "Lima"], asked) == [("yes or no", True), ("text", "NO"), ("text", "Lima")]


def test_the_type_does_not_tell_which_of_similar_questions_has_another_answer() -> None:
    assert kind_names(["yes", "no", "unclear", "5 mg"], ["Is it?", "Is it?", "Is it?", "How much?"]) == [
        *("text", "text", "text", "number")
    ]


@pytest.mark.parametrize(
    ("values", "dates"),
    [
        (["2024-01-15", "15 January 2024"], ["2024-01-15", "2024-01-15"]),
        (["2024-01-15 00:00:00", "2024-01-16T00:00:00Z"], ["2024-01-15", "2024-01-16"]),  # as pandas writes dates
        (["13/02/2024", "01/02/2024"], ["2024-02-13", "2024-02-01"]),
        (["02/13/2024", "01/02/2024"], ["2024-02-13", "2024-01-02"]),
        (["01/02/2024", "03/04/2024"], ["01/02/2024", "03/04/2024"]),
    ],
)
def test_dates_are_read_by_what_the_column_shows(values: list[str], dates: list[str]) -> None:
    assert kinds(values) == [("date", date) for date in dates]


@pytest.mark.parametrize(
    ("value", "items"),
    [
        ("BRCA1; BRCA2", ["BRCA1", "BRCA2"]),
        ("['a', 'b']", ["a", "b"]),
        ('["a, b", "c"]', ["a, b", "c"]),
        (["a", 5], ["a", "5"]),
        ("- a\n- b", ["a", "b"]),
    ],
)
def test_lists_are_read_in_all_spellings(value: Any, items: list[str]) -> None:
    assert kinds([value, "5 mg", "Lima"])[0] == ("list", items)


def test_labels_with_commas_are_a_list_if_the_question_offers_them() -> None:
    assert kinds(["1,2", "3"], "Which hold? 1) a 2) b 3) c") == [("list", ["1", "2"]), ("list", ["3"])]
    assert kinds(["A, C", "B"], "Which? A) x B) y C) z") == [("list", ["A", "C"]), ("list", ["B"])]
    assert kinds(["b", "c"], "Which? (a) x (b) y (c) z") == [("letter", "B"), ("letter", "C")]
    assert kinds(["B", "(a)"], "Which? A) x B) y C) z") == [("letter", "B"), ("letter", "A")]


def test_one_of_twenty_cells_may_have_another_kind() -> None:
    detected = find_kinds([Cell("5")] * 19 + [Cell("unknown")])
    assert (detected.kind, detected.unfit) == ("number", (19,))
    assert find_kinds([Cell("5")] * 18 + [Cell("unknown")]).kind is None
    done = declare_answers([Cell("5")] * 19 + [Cell("unknown", "", "line 21")])
    warning = "1 answer is compared as text although most answers are numbers, with or without units: 'unknown'"
    assert f"{warning} (line 21)" in done.warnings[0]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("gap", [" ", "\t", "\n", "\n#### ", ", ", " and ", "0"])
@pytest.mark.parametrize("start", ["a", "1", "9 kg\n#### a"])
def test_long_answers_are_read_in_time(start: str, gap: str) -> None:
    """A pattern that takes quadratic time would need minutes."""
    text = f"{start}{gap * 200_000}b"

    done = declare_answers([Cell(text, "Which is it, a or b?")], exact=True)

    assert len(done.fields) == 1


def test_padded_answers_of_mathematical_problems_are_numbers() -> None:
    asked = "Let $x$ be real. Find $m+n$."
    cells = [
        Cell("204", asked),
        Cell("033", asked),
        Cell("116", "What is the sum of both?"),
        Cell("540", "Which?"),
    ]

    done = declare_answers(cells)

    assert [answer.kind for answer in done.kinds.answers] == ["number", "text", "number", "text"]
    bound = load_template(make_template_source({"answer": done.fields[1]})).for_question("q")
    assert [bound.bind({"answer": text}).verify() for text in ("033", "33", "3")] == [True, True, False]
    (code,) = declare_answers([Cell("033", "What is the area code?")]).fields
    assert code is not None
    assert code["verify_with"] == "ExactMatch"


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ("What is the sum of 3 and 4 in binary, with 8 bits?", "00000111"),
        ("Calculate the combination of the lock.", "005"),
        ("Which agent spends $5 million of the $9 million?", "007"),
        ("Which agent spends $5-$9?", "007"),
    ],
)
def test_leading_zeros_count_outside_of_mathematical_problems(asked: str, text: str) -> None:
    (field,) = declare_answers([Cell(text, asked)]).fields

    assert field is not None
    assert field["verify_with"] == "ExactMatch"


def test_yes_in_another_language_and_ranges_that_are_compared_as_text_are_warned_of() -> None:
    answers = ["ja", "nein", "10\u201312", "Lima", "5-10"]
    done = declare_answers([Cell(answer) for answer in answers])
    assert [field["type"] for field in done.fields if field is not None] == ["str"] * 5
    assert [warning.partition(":")[0] for warning in done.warnings] == [
        "2 answers are compared as text",
        "1 answer is compared as text",
    ]
    done = declare_answers([Cell("ja"), Cell("10 to 12")], types=["yes/no", None])
    assert [field["ground_truth"] for field in done.fields if field is not None] == [True, "10 to 12"]
    assert done.warnings == []


def test_latex_that_is_compared_as_text_is_warned_of() -> None:
    answers = [r"$\frac{1}{2}$", r"\sqrt{2}", "half", "$5$"]

    done = declare_answers([Cell(answer) for answer in answers])

    (warning,) = done.warnings
    assert warning.startswith(r"2 LaTeX expressions are compared as text, so 1/2 does not match \frac{1}{2}")
    assert "write `expression` in a `type` column" in warning


def test_a_single_answer_beside_lists_of_alternatives_has_its_own_kind() -> None:
    cells = [Cell(["3"], "How many?"), Cell("9 November 1989", "When?"), Cell(["Bo", "Robert"], "Who?"), Cell(["Ada"])]

    done = declare_answers(cells, any_of=True)

    assert [answer.kind for answer in done.kinds.answers] == ["number", "date", "list", "text"]
    assert [rule["verify_with"] for rule in done.fields if rule][:2] == ["NumberWithUnit", "DateMatch"]


@pytest.mark.parametrize("any_of", [False, True])
def test_the_last_line_of_a_worked_solution_is_the_answer(any_of: bool) -> None:
    solutions = [
        "He runs 9*60=540 m\n#### 540",
        "2+1=<<2+1=3>>3.\nSo 3 bolts.\n\n#### 3 \n",
        "It costs 5*14,000\n#### 70,000",
    ]

    done = declare_answers([Cell(text) for text in solutions], any_of=any_of)

    assert [field["ground_truth"] for field in done.fields if field] == ["540", "3", "70,000"]
    assert {field["verify_with"] for field in done.fields if field} == {"NumberWithUnit"}
    assert done.notes[-1] == "3 answers are the end of a worked solution, after '####' or in \\boxed{}"


def test_a_list_with_commas_is_warned_of_if_the_question_asks_for_several_items() -> None:
    asked = [("red, green and blue", "Name the primary colours."), ("Smith, John", "Who wrote it?")]
    done = declare_answers([Cell(text, question, "line 2") for text, question in asked])
    assert done.warnings == [
        "1 answer is compared as a single string although the question asks for several items: 'red, green and blue' "
        "(line 2); separate the items with semicolons, or write `list` in a `type` column"
    ]
    named = declare_answers([Cell(text, question) for text, question in asked], types=["list", None])
    assert (named.kinds.answers[0].truth, named.warnings) == (["red", "green", "blue"], [])


@pytest.mark.parametrize("value", [{"gene": "A", "year": 5}, [["a"], ["b"]], '{"gene": "A", "year": 5}'])
def test_an_object_is_compared_by_no_rule(value: Any) -> None:
    declared = declare_answers([Cell(value)])
    assert declared.fields == [None]
    assert declared.objects.startswith("1 of 1 answer is an object or a list of several values such as ")


@pytest.mark.parametrize(
    "text",
    [
        "Киану Ривз сыграл Нео.",  # noqa: RUF001
        "서비스 지역은 북미임.",
        "Yes, it is mandatory.",
        "Pickup takes 5 days; delivery is free from 1000 RUB.",
    ],
)
def test_short_sentences_are_sentences(text: str) -> None:
    assert find_kinds([Cell(text)]).kind == "prose"


@pytest.mark.parametrize("text", ["New York City.", "Bank of America.", "Acme Widgets Inc.", "Paris.", "It melts."])
def test_names_with_a_full_stop_are_texts(text: str) -> None:
    (field,) = declare_answers([Cell(text)]).fields
    assert field is not None
    assert field["verify_with"]["normalize"][-1]["mapping"] == {text.casefold().rstrip("."): text.casefold()}


def test_texts_among_sentences_are_sentences() -> None:
    cells = ["It is the largest of all of these islands.", "Yes, it has been so for a long time.", "d = 512"]
    assert [answer.kind for answer in find_kinds([Cell(text) for text in cells]).answers] == ["prose"] * 3


@pytest.mark.parametrize(
    ("text", "comma"), [(["1.234,5", "1,5"], True), (["1,234.5", "1.5"], False), (["1,234"], False)]
)
def test_the_column_shows_its_decimal_mark(text: list[str], comma: bool) -> None:
    rules = [field["verify_with"] for field in declare_answers([Cell(value) for value in text]).fields if field]
    assert rules == [{"type": "NumberWithUnit", "decimal": ","} if comma else "NumberWithUnit"] * len(text)


@pytest.mark.parametrize(
    ("text", "prose"),
    [
        ("The Strange Case of Dr. Jekyll and Mr. Hyde", False),
        ("J. R. R. Tolkien", False),
        ("It binds to the receptor and blocks it.", True),
        ("one two three four five six seven eight nine ten eleven twelve thirteen", True),
        ("水在一百摄氏度时沸腾。", True),
        ("先把蔬菜洗干净再切成小块\uff0c然后放进锅里", True),
        ("光合作用把太阳的能量变成植物可以在叶子里储存起来的糖分子", True),
        ("電車は毎朝八時に駅を出発します。", True),
        ("น้ำเดือดที่อุณหภูมิหนึ่งร้อยองศาเซลเซียสที่ระดับน้ำทะเลและเย็นลงเมื่อปิดไฟ", True),
        ("पानी सौ डिग्री पर उबलता है।", True),
        ("北京", False),
        ("联合国教育、科学及文化组织", False),
        ("红色\uff0c绿色\uff0c蓝色", False),
        ("東京スカイツリー", False),
        ("กรุงเทพมหานคร", False),
    ],
)
def test_sentences_are_prose_with_and_without_spaces(text: str, prose: bool) -> None:
    assert is_prose(text) is prose
    assert kind_names([text]) == ["prose" if prose else "text"]


def test_items_of_a_list_in_chinese_are_no_sentences() -> None:
    lines = "今天下午我们一起骑车去城里的图书馆借了三本书\n晚上回家以后又把其中最厚的一本书全部读完了"
    assert kind_names([lines, "银; 铜; 铁"]) == ["prose", "list"]


def test_solutions_of_several_lines_are_no_lists_beside_prose() -> None:
    long = "There are 4 boxes of 6 eggs, and each of them holds 24 eggs together with others.\nTotal: 24"
    assert kind_names([long, "4 * 6 = 24 eggs\nTotal: 24"]) == ["prose", "prose"]
    assert kind_names(["iron\ngold", "Lima\nQuito"]) == ["list", "list"]


@pytest.mark.parametrize(
    ("question", "unit"),
    [
        ("How long is it in km?", "km"),
        ("How many grams are 5 kg?", "grams"),
        ("How many pairs of chromosomes are there?", "pairs"),
        ("How many genes are there?", None),
        ("What percentage of people agree?", "%"),
        ("What is the boiling point of water (in \u00b0C)?", "\u00b0C"),
        ("How old was she?", "years"),
        ("In which year was it?", None),
        ("How long is it in km, and how long in miles?", None),
        ("Her rent is $800 in a month. How much does she pay in a year?", None),
        ("She keeps 3 parrots in a cage. How many parrots are in a cage if a parrot flies away?", None),
        ("How many B&Bs are in town?", None),
        ("How many A's are on the list?", None),
        ("How many in total did they buy?", None),
        ("How many people live in US cities?", None),
        ("How many lines has the program in C?", None),
        ("He pays with $20 in dollar coins. What is his change?", None),
        ("How much does the cake cost in pounds?", None),
        ("What does the cat weigh in pounds?", "pounds"),
        ("It runs 5 hours in days of rain. How far is it in km from home?", "km"),
        ("How many total meters does he swim?", "meters"),
        ("How old is the puppy in months?", "months"),
        ("What is the height of the tower (in m)?", "m"),
        ("How much in euros does she earn?", "euros"),
        ("Give the speed in miles per hour.", "miles per hour"),
    ],
)
def test_a_question_names_the_unit_that_it_asks_for(question: str, unit: str | None) -> None:
    assert asked_unit(question) == unit


def test_questions_are_read_by_their_words() -> None:
    assert asks_whether("In 2020, did it rain?")
    assert not asks_whether("Which of them is a metal?")
    assert offered_labels("Which? (A) x (B) y") == ("A", "B")
    assert offered_labels("Who is J. Doe?") == ()


cells = st.builds(
    Cell,
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats()
    | st.lists(st.text() | st.integers() | st.none(), max_size=3)
    | st.text()
    | st.text("0123456789.,;-/$% eExyesno[]'\"\n", max_size=30)
    | st.dictionaries(st.text(), st.text(), max_size=2),
    st.text() | st.sampled_from(["Is it?", "How many km?", "Which? A) x B) y", "Who?"]),
)


@settings(max_examples=settings().max_examples // 2)  # each is a column of many templates
@given(st.lists(cells, max_size=25), st.booleans())
def test_any_column_becomes_templates_that_accept_their_truths(column: list[Cell], any_of: bool) -> None:
    done = declare_answers(column, any_of=any_of, exact=True)
    assert len(done.fields) == len(column)
    for declared in filter(None, done.fields):
        bound = load_template(make_template_source({"answer": declared})).for_question("q")
        assert bound.bind({"answer": declared["ground_truth"]}).verify()


values_of_kinds = {
    "number": st.integers(1, 999).map(str),
    "number with unit": st.integers(1, 999).map("{} mg".format),
    "date": st.dates().map(lambda day: f"{day.year:04}-{day.month:02}-{day.day:02}"),
    "list": st.lists(st.sampled_from(["BRCA1", "BRCA2", "TP53", "MYC"]), min_size=2, unique=True).map("; ".join),
    "yes or no": st.sampled_from(["yes", "no"]),
    "letter": st.sampled_from(["A", "B", "C"]),
    "text": st.sampled_from(["Lima", "Oslo", "NO", "F", "007", "MAR1"]),
}
QUESTIONS = {"yes or no": "Is it a metal?", "letter": "Which? A) x B) y C) z"}


@given(st.data(), st.lists(st.sampled_from(list(values_of_kinds)), min_size=1, max_size=30))
def test_what_a_judge_sees_does_not_depend_on_the_values(data: st.DataObject, column: list[str]) -> None:
    def draw_column() -> tuple[list[str], list[Any]]:
        drawn = [Cell(data.draw(values_of_kinds[kind]), QUESTIONS.get(kind, "What is it?")) for kind in column]
        declared = declare_answers(drawn)
        sources = [make_template_source({"answer": field}) for field in declared.fields if field is not None]
        kinds = [answer.kind for answer in declared.kinds.answers]
        return kinds, [load_template(source).judge_schema() for source in sources]

    (kinds, schemas), (other_kinds, other_schemas) = draw_column(), draw_column()

    assume(kinds == other_kinds)  # 100 is a code, and no number, beside 007
    assert schemas == other_schemas


def loaded(folder: Path, text: str, columns: dict[str, str] | None = None) -> Benchmark:
    (folder / "t.csv").write_text(text, "utf-8")
    return Benchmark.load(folder / "t.csv", columns=columns)


def truths(benchmark: Benchmark) -> list[Any]:
    templates = [template_of(question) for question in benchmark]
    return [None if template is None else template.for_question("q").expected() for template in templates]


SEVERAL = (
    "question,answer.gene,answer.year,description.gene\n"
    "Which gene was found when?,BCL2,1985,The symbol of the gene\n"
    "And which later?,TP53,,The symbol of the gene\n"
)


def test_columns_of_several_answers_are_fields_that_must_all_match(tmp_path: Path) -> None:
    benchmark = loaded(tmp_path, SEVERAL)
    assert truths(benchmark) == [{"gene": "BCL2", "year": "1985"}, {"gene": "TP53"}]
    assert [question.raw_answer for question in benchmark] == ["gene: BCL2; year: 1985", "gene: TP53"]
    template = template_of(benchmark.questions[0])
    assert template is not None
    bound = template.for_question("q")
    assert bound.bind({"gene": "bcl2", "year": "in 1985"}).verify()
    assert not bound.bind({"gene": "bcl2", "year": "1986"}).verify()
    parts = bound.judge_schema()["properties"]
    assert parts["gene"]["description"] == "The symbol of the gene"
    assert parts["year"]["description"].startswith("The year that the response gives, a number")


def test_columns_of_other_names_are_several_answers(tmp_path: Path) -> None:
    text = "question,Gene,Year,answer\nWhich?,BCL2,1985,x\n"
    benchmark = loaded(tmp_path, text, {"answer.gene": "Gene", "answer.year": "Year"})
    assert truths(benchmark) == [{"gene": "BCL2", "year": "1985"}]
    with pytest.raises(BenchmarkFileError, match="no column 'Gen'"):
        loaded(tmp_path, text, {"answer.gene": "Gen"})


KNOWN = (
    "question,answer.gene,answer.steps,from.steps,answer.tools,from.tools,answer.asked,from.asked\n"
    "Which gene?,BCL2,8,trace.steps,find_order; refund,trace.tools,yes,conversation.reached\n"
    "And which later?,TP53,six,,,trace.tools,,\n"
)


def test_a_column_names_the_known_value_that_fills_a_field(tmp_path: Path) -> None:
    benchmark = loaded(tmp_path, KNOWN)
    first, second = (template_of(question) for question in benchmark)

    assert first is not None
    assert second is not None
    assert first.key.sources() == {
        "steps": "trace.steps",
        "tools": "trace.tools",
        "asked": "conversation.reached",
    }
    assert truths(benchmark) == [
        {"gene": "BCL2", "steps": 8, "tools": ["find_order", "refund"], "asked": True},
        {"gene": "TP53", "steps": "six"},
    ]
    assert (first.shape.judge_fields, second.shape.judge_fields) == (("gene",), ("gene", "steps"))
    assert not second.key.sources()


def test_known_values_are_mapped_to_columns_of_other_names(tmp_path: Path) -> None:
    text = "question,Most,Source\nWhich?,8,trace.steps\n"
    benchmark = loaded(tmp_path, text, {"answer.steps": "Most", "from.steps": "Source"})
    assert truths(benchmark) == [{"steps": 8}]
    template = template_of(benchmark.questions[0])
    assert template is not None
    assert template.key.sources() == {"steps": "trace.steps"}


@pytest.mark.parametrize("kind", ["from", "description"])
def test_a_column_about_a_field_without_answers_is_an_error(tmp_path: Path, kind: str) -> None:
    text = "question,answer,Source\nWhich?,8,trace.steps\n"
    with pytest.raises(BenchmarkFileError, match=f"{kind}.steps refers to a field .* answer.steps=COLUMN"):
        loaded(tmp_path, text, {f"{kind}.steps": "Source"})


def test_a_right_answer_of_another_type_than_its_known_value_is_named(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkFileError, match="line 2: the ground truth 'eight' is not of type 'int'"):
        loaded(tmp_path, "question,answer.steps,from.steps\nWhich?,eight,trace.steps\n")


def test_a_column_of_types_decides(tmp_path: Path) -> None:
    text = 'question,answer,type\nWhich?,1922,text\nIs it?,y,yes/no\nWhich two?,"a, b",list\nWhen?,2 May 1999,\n'
    assert truths(loaded(tmp_path, text)) == [
        {"answer": "1922"},
        {"answer": True},
        {"answer": ["a", "b"]},
        {"answer": "1999-05-02"},
    ]
    with pytest.raises(BenchmarkFileError, match="line 2: the answer 'many' is not of type 'number'"):
        loaded(tmp_path, "question,answer,type\nHow many?,many,number\n")


PROSE = "question,answer\nWhy?,It blocks the receptor and so the cell stops growing.\nWhich?,BCL2\n"


def test_a_table_of_sentences_is_refused_with_the_ways_on(tmp_path: Path) -> None:
    benchmark = loaded(tmp_path, PROSE)
    assert truths(benchmark) == [None, {"answer": "BCL2"}]
    assert "1 of 2 answers is the sentence 'It blocks the receptor" in benchmark.missing_answers
    for way in ("karenina draft", "evaluation_mode=rubric_only", "--exact"):
        assert way in benchmark.missing_answers
    (error,) = Benchmark.check_file(tmp_path / "t.csv").errors
    assert error.what == benchmark.missing_answers


def test_exact_compares_sentences_word_for_word(tmp_path: Path) -> None:
    benchmark = loaded(tmp_path, PROSE, {"exact": "true"})
    assert benchmark.missing_answers == ""
    assert truths(benchmark)[0] == {"answer": "It blocks the receptor and so the cell stops growing."}
    assert any("1 sentence is compared word for word" in warning for warning in benchmark.load_warnings)


def test_what_was_found_is_noted_with_counts(tmp_path: Path) -> None:
    benchmark = loaded(tmp_path, "question,answer\nHow long?,5 km\nWhen?,2024-01-15\nIs it?,yes\nWhich?,BCL2\n")
    notes = [note for note in benchmark.load_notes if note.startswith("'answer': ")]
    assert notes == [
        "'answer': 1 number, with or without a unit (NumberWithUnit)",
        "'answer': 1 date (DateMatch)",
        "'answer': 1 yes or no (BooleanMatch)",
        "'answer': 1 name or short text (ExactMatch), such as 'BCL2' (line 5)",
    ]
    assert "karenina import" in benchmark.load_notice


def test_a_typed_table_survives_saving(tmp_path: Path) -> None:
    rows = "How long?,\"1,234.5 km\"\nWhen?,01/02/2024\nIs it?,yes\nWhich?,\"['a', 'b']\"\nWhat? A) x B) y,B\n"
    benchmark = loaded(tmp_path, f"question,answer\n{rows}")
    for name in ("again.yaml", "again.jsonld", "again.jsonl"):
        benchmark.save(tmp_path / name)
        again = Benchmark.load(tmp_path / name)
        assert truths(again) == truths(benchmark)
        assert json.dumps(truths(again)) == json.dumps(truths(benchmark))
