"""Answers built from recorded ones: texts that mention a right and a wrong value, and commit to one or to none.

A recorded question gives a right value and a wrong one, both in the words of recorded answers. Each kind of answer puts
them into one of its wordings. Half of the questions are for choosing prompts, the other half for reporting, and each
half has its own wordings, so that no prompt is fitted to the sentences that are reported.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, Final, Literal

from agreement import ON_EXTRACTED, gold_pattern, says_gold

Part = Literal["choose", "report"]

WORDINGS: Final[Mapping[str, tuple[Sequence[str], Sequence[str]]]] = {
    "negated": (
        (
            "It is often claimed to be {no}; it is not. I do not know.",
            "People will tell you {no}, but that is wrong. The right answer escapes me.",
            "Not {no}, that much is certain. Beyond that I have nothing to offer.",
            "Whatever you have read, {no} is not the answer. What is, I could not find.",
            "I used to think {no}. That has turned out to be untrue, and I have no replacement.",
            "{no} is what everybody shouts on quiz night, wrongly. I give up.",
            "It can't be {no}. Sorry, I'm not able to answer this.",
            "The claim that it is {no} is false. I have no reliable information on the real one.",
            "My colleague suggested {no}, but we checked and it's incorrect. We don't know the answer.",
            "Contrary to popular belief, it is not {no}. Unfortunately, I don't have the correct information.",
            "I don't know. Certainly not {no}.",
            "Don't say {no}: that's a myth. As to the truth, historians disagree and I won't guess.",
            "An earlier version of this answer said {no}; that was withdrawn. Nothing has replaced it.",
            "Is it {no}? I looked it up: it isn't. I couldn't find out more.",
        ),
        (
            "{no}? No. I have no better suggestion, though.",
            "One finds {no} in many places. This has been disproved, and what is true instead is unclear to me.",
            "I can rule out {no}. I cannot say more than that.",
        ),
    ),
    "corrected": (
        (
            "At first {no}; looking closer, {yes}.",
            "My first thought was {no}. But no, wait: it has to be {yes}.",
            "{no} - sorry, that was a slip. I mean {yes}.",
            "{no}... wait, scratch that. {yes}.",
            "I said {no} a moment ago. I was wrong; the answer is {yes}.",
            "Initially I assumed {no}, but after double-checking it turns out to be {yes}.",
            "First I thought that it was {no}. Actually, it is {yes}.",
            "{no}? Let me recheck... No, {yes}.",
            "My original answer, {no}, was incorrect. The right one: {yes}.",
            "Off the top of my head: {no}. After looking it up: {yes}.",
            "Ignore what I said before about {no}; {yes} is my final answer.",
            "It's {no}. Oops, I mixed things up, it's {yes}, of course.",
            "Draft: {no}. Final: {yes}.",
        ),
        (
            "I was about to write {no}. Having checked, I answer {yes}.",
            "Answer: {no}. Correction: the answer above is wrong, it should read {yes}.",
            "Let me start with {no}. Hmm, that does not fit. So {yes}.",
        ),
    ),
    "several candidates": (
        (
            "Many say {no}, a common mistake; it is {yes}.",
            "There are two candidates, {no} and {yes}. The former does not hold up, so I settle on the latter.",
            "It is {yes}. Do not confuse this with {no}, which is often given instead.",
            "Although {no} is frequently named, the correct answer is {yes}.",
            "Both {no} and {yes} are mentioned in the literature, but the evidence favours {yes}.",
            "It was {yes} rather than {no}.",
            "You may have seen {no} or {yes}; only the latter is correct.",
            "Candidates: (a) {no}, (b) {yes}. Option (b) is right.",
            "{yes} is the answer; {no} is a popular misconception.",
            "Contrary to what many believe, it is {yes}, not {no}.",
            "While {no} gets a lot of credit, it was in fact {yes}.",
            "Of {yes} and {no}, the first is correct.",
            "{no} is wrong, {yes} is right.",
        ),
        (
            "Some sources name {no}. They are mistaken, since {yes} is correct.",
            "{yes}, and not {no} as is widely believed.",
            "Between {no} and {yes}, only the second one is right.",
        ),
    ),
    "hedged": (
        (
            "I am not sure, but I think it is {yes}.",
            "It might be {no}, but more probably it is {yes}.",
            "Probably {yes}, if I remember correctly; please check it.",
            "I believe it was {yes}, although I might be wrong.",
            "If I had to guess, I'd say {yes}.",
            "It's likely {yes}, but there's a small chance that it's {no}.",
            "{yes}? I'm about 70% sure.",
            "Could be {yes}. Don't quote me on that.",
            "As far as I know, it's {yes}.",
            "I'm torn between {yes} and {no}, but I lean towards {yes}.",
            "Maybe {yes}.",
            "I vaguely recall {no}, but {yes} sounds more plausible to me.",
            "Most likely {yes}. {no} seems improbable.",
            "I can't say for certain; {yes} would be my pick.",
        ),
        (
            "My best guess would be {yes}.",
            "I would not bet on it, yet {yes} seems the most likely. I doubt that it is {no}.",
            "Possibly {yes}; I cannot be certain.",
        ),
    ),
    "quoted": (
        (
            'The quiz show accepted "{no}". The quiz show was mistaken: it is {yes}.',
            'I quote the handbook: "The answer is {yes}." I agree with it.',
            'My neighbour insists: "It is {no}!" I told him that he is wrong, because it is {yes}.',
            'According to the article, "{yes}" is correct, and I have no reason to disagree.',
            'The caption reads "{no}", which is a misprint for {yes}.',
            '"{no}," claimed the host. He was later corrected: {yes}.',
            'As the almanac puts it: "{yes}".',
            'Some fans chant "{no}!", but the official record lists {yes}.',
            'A commenter wrote "{no}", and another replied "no, {yes}". The second commenter is right.',
            'The guide told us "{no}". That is a legend. The plaque on the wall has {yes}, and that is correct.',
            'My teacher always said: "Remember, {yes}." She was right.',
            '"{no}" is quoted all over the internet; the quote is false, and {yes} is what it should be.',
        ),
        (
            'A reader writes: "Surely it is {no}." Our editors reply that this is an error and that {yes} is right.',
            '"{yes}", says the encyclopedia, and it is right.',
            'An old textbook states "{no}", which nobody believes any more. It is in fact {yes}.',
        ),
    ),
    "long": (
        (
            "This question comes up again and again, and there is a lot of confusion about it. For a long time "
            "one could read {no} in newspapers and on web pages, and it was copied from one to the next without "
            "a check. Those who went back to the records found something else. There are also people who have "
            "no opinion on it, which is fine. Taking everything together, the answer is {yes}. The other value, "
            "as I said, goes back to a misprint, and one should not use it any more.",
            "Let me think about this step by step. First, the question asks for one thing only. Second, my "
            "memory offers {yes}. Third, I compare this with what else could be meant. An obvious alternative "
            "would be {no}, and I can see why somebody would choose it: it is well known, and it has to do with "
            "the subject. However, it does not fit the wording of the question. Therefore I keep my first idea "
            "and reject the alternative.",
            "Thank you for the interesting question! Before I answer, some background. The subject has been "
            "discussed since long before our time. In older books the name or number given is {no}. These books "
            "were reprinted many times, but they were superseded. Newer research is based on better sources and "
            "comes to a different result, namely {yes}. I hope that this helps. Please let me know if I should "
            "explain how the research was done, or if you would like a list of books on the subject.",
            "The short version that circulates online is {no}. I wanted to be careful, so I went through the "
            "usual places one by one. The first two simply repeat each other. The third is a fan page and gives "
            "no date or author. The fourth is the official site, and it gives {yes}. I would trust the official "
            "site over the others. If you need this for something important, please check it yourself, because "
            "sites change.",
            "{yes} is the answer. Let me explain why I am confident. The question is phrased in a way that could "
            "mislead: on a quick reading one thinks of {no}. That would be the answer to a slightly different "
            "question, one that comes up a lot in the same context. But read it once more and you will see that "
            "it does not match. So do not be misled.",
            "Let's break it down.\n\n1. What is being asked? A single fact.\n2. What are the options? I can think"
            " of {no} and {yes}.\n3. What speaks against {no}? It came later and under other circumstances.\n4. "
            "What speaks for {yes}? It matches every detail of the question.\n\nConclusion: the option from point"
            " 4 is correct.",
            "Many readers have written to us about this. Most of them were sure that it is {no}, and a few were "
            "quite angry that our quiz did not accept it. We understand the frustration. We asked two experts, "
            "independently of each other. Both told us that {no} is a mistake that goes back to a newspaper "
            "article, and that {yes} is correct. We have kept our solution as it was.",
            "My grandfather told me this story often. In his version it was {no}, and he would bang the table at "
            "that point. After he died, I found his old notebooks in the attic. In them, in his own hand, he had "
            "written {yes}, and underlined it twice. I checked it in the library since then, and the notebook is "
            "right. He must have liked his version better.",
            "I have looked at this from several angles. On the one hand, the phrase in the question is quite "
            "specific. On the other hand, memory plays tricks. What I found in the end, after some reading, is "
            "this: {yes}. I also came across {no} along the way, in two places, but neither of them cited "
            "anything, and one of them has since been corrected by its authors. There is not much more to say. "
            "Feel free to ask a follow-up question.",
        ),
        (
            "In short: {yes}. The longer story is this. Several web pages give {no} instead. They seem to "
            "depend on one another, because they share the same spelling errors, and none of them names a "
            "source. A friend of mine wrote to one of the authors and got no reply. I have looked into two "
            "printed works and they agree with each other and disagree with the web pages. So I am confident in "
            "the answer that I gave at the beginning and would disregard the rest.",
            "Good question. I remember that we discussed it at school, and that the teacher wrote {no} on the "
            "board. Everybody copied it. A week later she came back, apologised, and told us that she had mixed "
            "something up. She crossed it out. What she wrote next to it was {yes}, and this is what was "
            "expected in the examination. It has stayed in my mind because teachers do not often admit "
            "mistakes. I have seen the same confusion elsewhere since then.",
            "To answer this, one has to distinguish two things that are easily mixed up. One of them is {no}. "
            "It belongs to a related question, and it would be the right answer there, but it is not what is "
            "asked for here. The other one is {yes}. This is what is asked for here. Much more could be said "
            "about the relation between the two, about who first confused them, and about why the confusion "
            "lasts; for the purpose of this answer that is not needed.",
        ),
    ),
    "other languages": (
        (
            "Viele sagen {no}, aber das ist falsch. Richtig ist {yes}.",
            "On dit souvent que c'est {no}, mais c'est une erreur : la bonne réponse est {yes}.",
            "Al principio pensé en {no}, pero no es así. La respuesta es {yes}.",
            "Veel mensen noemen {no}. Dat klopt niet: het is {yes}.",
            "No es {no}, sino {yes}.",
            "Molti pensano a {no}, ma la risposta corretta è {yes}.",
            "Ich dachte erst, es sei {no}, aber das war ein Irrtum; es ist {yes}.",
            "Contrairement à une idée reçue, ce n'est pas {no} mais {yes}.",
            "Muitos dizem {no}, mas o correto é {yes}.",
            "Många tror att det är {no}, men rätt svar är {yes}.",
            "Wielu mówi {no}, ale to błąd. Poprawna odpowiedź to {yes}.",
            "Die Antwort lautet {yes}; {no} ist eine häufige Verwechslung.",
            "Je pensais à {no}, mais après vérification, c'est {yes}.",
            "Es {yes}. Mucha gente lo confunde con {no}.",
            "多くの人は{no}と言いますが、それは間違いです。正しくは{yes}です。",
            "很多人以为是{no}\uff0c其实是{yes}。",
        ),
        (
            "Zuerst dachte ich an {no}. Bei näherem Hinsehen ist es aber {yes}.",
            "La réponse est {yes}, et non {no} comme on le croit parfois.",
            "Molti credono che sia {no}; invece è {yes}.",
            "A resposta certa é {yes}. Há quem diga {no}, mas está enganado.",
        ),
    ),
}
"""By kind, the wordings for choosing and for reporting: `{yes}` is the value committed to, `{no}` the other one."""

NOTATIONS: Final[tuple[Sequence[str], Sequence[str]]] = (
    ("It was {yes}.", "Not {no} but {yes}.", "{yes}, I would say."),
    ("The answer is {yes}.", "I first had {no}, which was wrong; it is {yes}.", "That would be {yes}."),
)
"""The wordings for values in other units and notations."""

DATES: Final = ("{0:%Y}-{0:%m}-{0:%d}", "the {day} day of {0:%B} in the year {0:%Y}", "{0:%Y}, {0:%B} {0.day}")
UNITS: Final[Mapping[str, tuple[float, str, str]]] = {
    "square miles": (2.58999, "square miles", "square kilometres"),
    "grams": (0.035274, "grams", "ounces"),
    "lifespan": (12, "years", "months"),
    "venom": (0.0338, "millilitres", "fluid ounces"),
}
"""By a word of the question: the factor, the unit of the truth, and the other unit that the answer gives as well."""

ON_DATE: Final = """
class Answer(BaseAnswer):
    answer: date = VerifiedField(
        description="The date that the response gives as its answer to the question",
        ground_truth={gold!r},
        verify_with=DateMatch(),
    )
"""
ON_NUMBER: Final = """
class Answer(BaseAnswer):
    answer: float = VerifiedField(
        description={description!r},
        ground_truth={gold!r},
        verify_with=NumericExact(),
    )
"""
_ONES: Final = re.findall(
    r"\w+",
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen",
)
_TENS: Final = re.findall(r"\w+", "_ _ twenty thirty forty fifty sixty seventy eighty ninety")


@dataclass(frozen=True, slots=True)
class BuiltAnswer:
    """A built answer: its question, kind and part, and whether the verdict on it must be "correct".

    `template` is the source of its template, and `plain` the verdict of comparing the whole text with the truth.
    """

    id: str
    question: str
    kind: str
    part: Part
    text: str
    right: bool
    template: str
    plain: bool


@dataclass(frozen=True, slots=True)
class _Source:
    """A recorded question, with a right and a wrong value in words of recorded answers."""

    question: str
    gold: Sequence[str]
    truth: str
    other: str

    @property
    def part(self) -> Part:
        return "choose" if _digest(self.question) % 2 else "report"


def build(rows: Iterable[Mapping[str, Any]]) -> list[BuiltAnswer]:
    """Return the answers built from recorded rows, always the same ones and in the same order."""
    by_question: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        by_question[" ".join(row["question"].split())].append(row)
    found: list[BuiltAnswer] = []
    for question, recorded in sorted(by_question.items()):
        source = _source(question, recorded)
        if source is not None:
            found += _in_words(source)
        found += _in_other_notations(question, recorded)
    return found


def _source(question: str, rows: Sequence[Mapping[str, Any]]) -> _Source | None:
    """Return the question with its values, or None if no short right or no short wrong value was recorded."""
    gold = list(dict.fromkeys(text.replace("\xa0", " ") for row in rows for text in row["gold"]))
    short = [(_tidy(row["response"]), bool(row["human_label"])) for row in rows]
    short = sorted({(text, label) for text, label in short if len(text) > 2 and len(text.split()) <= 6})
    right = [text for text, label in short if label and says_gold(text, gold)]
    wrong = [text for text, label in short if not label and not says_gold(text, gold)]
    pairs = [(one, other) for one in right for other in wrong if not _overlap(one, other)]
    if not pairs:
        return None
    truth, other = min(pairs, key=lambda pair: _digest(question, *pair))
    return _Source(question, gold, truth, other)


def _overlap(one: str, other: str) -> bool:
    return one.casefold() in other.casefold() or other.casefold() in one.casefold()


def _in_words(source: _Source) -> Iterator[BuiltAnswer]:
    template = ON_EXTRACTED.format(pattern=gold_pattern(source.gold), gold=" / ".join(source.gold))
    for kind, wordings in WORDINGS.items():
        of_part = wordings[source.part == "report"]
        first = _digest(kind, source.question)
        for turn, right in enumerate((True, False)):
            wording = of_part[(first + turn) % len(of_part)]
            right &= kind != "negated"
            yes, no = (source.truth, source.other) if right else (source.other, source.truth)
            if says_gold(wording.format(yes=source.other, no=source.other), source.gold):
                continue  # a word of the wording is a right answer
            text = wording.format(yes=yes, no=no)
            plain = says_gold(text, source.gold)
            name = f"{kind.replace(' ', '-')}-{turn}-{_digest(source.question):08x}"
            yield BuiltAnswer(name, source.question, kind, source.part, text, right, template, plain)


def _in_other_notations(question: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[BuiltAnswer]:
    """Yield answers whose date or number is written in other units or another notation than the truth."""
    gold = [text.replace("\xa0", " ").replace("â€“", "-") for row in rows for text in row["gold"]]
    for text in dict.fromkeys(gold):
        day = _date(text)
        number = re.fullmatch(r"\d{1,3}(?:,\d{3})*|\d+", text.strip())
        if day is None and number is None:
            continue
        for turn in range(2):
            part: Part = "choose" if _digest(question) % 2 else "report"
            right = (_digest("notation", question) + turn) % 2 == 0
            wording = NOTATIONS[part == "report"][_digest(question, str(turn)) % 3]
            if day is not None:
                other = day.replace(year=day.year - 1, day=1 + day.day % 28)
                write: Callable[[Any], str] = _date_writer(question, turn)
                truth: Any = day
                template = ON_DATE.format(gold=f"{day:%Y-%m-%d}")
            else:
                truth = int(text.replace(",", ""))
                other = truth + (3 if truth < 1000 else 12)
                write, description = _number_writer(question, truth)
                template = ON_NUMBER.format(gold=float(truth), description=description)
            yes, no = (truth, other) if right else (other, truth)
            said = wording.format(yes=write(yes), no=write(no))
            name = f"other-units-{turn}-{_digest(question):08x}"
            yield BuiltAnswer(name, question, "other units", part, said, right, template, says_gold(said, gold))
        return


def _date(text: str) -> datetime | None:
    for format in ("%B %d, %Y", "%d %B %Y"):
        try:
            return datetime.strptime(text.strip(), format)
        except ValueError:
            continue
    return None


def _date_writer(question: str, turn: int) -> Callable[[datetime], str]:
    format = DATES[(_digest(question) + turn) % len(DATES)]
    return lambda day: format.format(day, day=_ordinal(day.day))


def _number_writer(question: str, truth: int) -> tuple[Callable[[int], str], str]:
    """Return how to write a number of this question, and the description of the field."""
    described = "The number that the response gives as its answer to the question"
    units = next((units for word, units in UNITS.items() if word in question), None)
    if units is not None:
        factor, unit, other = units
        return lambda number: f"{number * factor:.4g} {other} ({number:g} {unit})", f"{described}, in {unit}"
    if 1100 <= truth < 2100:
        return _year_in_words, described
    return (lambda number: f"{number / 1000:g} thousand") if truth >= 1000 else _in_number_words, described


def _ordinal(number: int) -> str:
    ending = "th" if 10 < number < 14 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _in_number_words(number: int) -> str:
    if number < 20:
        return _ONES[number]
    if number < 100:
        return _TENS[number // 10] + (f"-{_ONES[number % 10]}" if number % 10 else "")
    rest = f" and {_in_number_words(number % 100)}" if number % 100 else ""
    return f"{_ONES[number // 100]} hundred{rest}"


def _year_in_words(year: int) -> str:
    century, rest = divmod(year, 100)
    if 2000 <= year < 2010:
        return "two thousand" + (f" and {_ONES[rest]}" if rest else "")
    after = "hundred" if rest == 0 else f"oh {_ONES[rest]}" if rest < 10 else _in_number_words(rest)
    return f"{_in_number_words(century)} {after}"


def _tidy(text: str) -> str:
    return re.sub(r"\s+([,.])", r"\1", " ".join(text.replace("\xa0", " ").split())).strip(" .")


def _digest(*parts: str) -> int:
    return int(sha256("\n".join(parts).encode()).hexdigest()[:8], 16)
