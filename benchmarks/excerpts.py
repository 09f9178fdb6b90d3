"""The speed of excerpt search, and how well it distinguishes true, changed, reordered and invented excerpts.

    python benchmarks/excerpts.py            times and confusion table
    python benchmarks/excerpts.py --rows 0   times only

Times: a 200-character excerpt is searched for in a trace of 100,000 characters, which consists of recorded responses.
This is compared with `rapidfuzz.fuzz.partial_ratio_alignment` on the whole trace. The times are medians, measured in
turns. "again" is a search in a trace that has been searched before, as is done by stages for all excerpts from one
response. The confusion table is for excerpts made from the recorded responses in the folder `--data`, with labels that
follow from how each excerpt was made.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from rapidfuzz import fuzz

from karenina_deep_judgment.excerpt_finder import SearchableText, find_excerpt

FILES = ("ifeval", "xstest", "halueval_general_600", "kqa_physician_nli", "evouna", "geneturing_genegpt")
SEED = 7
TRACE, EXCERPT, THRESHOLD = 100_000, 200, 0.8
FOUND = ("exact", "spacing", "changed")
MISSED = ("altered", "reordered", "invented", "empty")
EXPECTED = {
    "verbatim": {"exact", "spacing"},
    "respaced": {"exact", "spacing"},
    "changed": {"changed", "spacing"},
    "reordered": {"reordered"},
    "invented": {"invented"},
}


def responses(folder: Path) -> list[str]:
    """Return all recorded responses of at least thirty words."""
    found = []
    for name in FILES:
        file = folder / f"{name}.jsonl"
        if file.is_file():
            rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
            found += [row["response"] for row in rows if isinstance(row.get("response"), str)]
    return [text for text in dict.fromkeys(found) if len(text.split()) >= 30]


def labelled(texts: list[str], chance: random.Random) -> Iterator[tuple[str, str, str]]:
    """Yield labelled excerpts as (label, excerpt, text), where the excerpt is claimed to be from the text."""
    for text in texts:
        quote = passage(text, chance)
        if quote is None:
            continue
        yield "verbatim", quote, text
        yield "respaced", chance.choice(["\n", "  ", " \n    "]).join(quote.split()), text
        yield "changed", changed(quote, chance), text
        moved = reordered(quote, chance)
        if moved is not None:
            yield "reordered", moved, text
        other = passage(chance.choice(texts), chance)
        if other is not None and other not in text:
            yield "invented", other, text


def passage(text: str, chance: random.Random) -> str | None:
    """Return six to thirty consecutive words of the text, unchanged, or None if too few of them are different."""
    bounds = [0]
    bounds += [at for at in range(1, len(text)) if text[at - 1].isspace() and not text[at].isspace()]
    count = chance.randint(6, 30)
    if len(bounds) <= count:
        return None
    first = chance.randrange(len(bounds) - count)
    found = text[bounds[first] : bounds[first + count]].strip()
    return found if len(set(found.casefold().split())) >= 5 else None


def changed(quote: str, chance: random.Random) -> str:
    """Return the quotation with one small error per eight words: a changed letter, a missing word or another ending."""
    words = quote.split()
    inner = range(1, len(words) - 1)
    long = [at for at in inner if len(words[at]) > 3 and words[at].isalpha()] or [1]
    for at in chance.sample(long, min(len(long), max(1, len(words) // 8))):
        word = words[at]
        words[at] = chance.choice([word[:1] + word[2:], word[:2] + "q" + word[3:], word + "s", ""])
    return " ".join(word for word in words if word)


def reordered(quote: str, chance: random.Random) -> str | None:
    """Return the quotation's words shuffled, in two swapped halves, or with two words exchanged.

    Returns None if that changes nothing.
    """
    words = quote.split()
    way = chance.randrange(3)
    if way == 0:
        moved = chance.sample(words, len(words))
    elif way == 1:
        moved = words[len(words) // 2 :] + words[: len(words) // 2]
    else:
        one, two = sorted(chance.sample(range(len(words)), 2))
        moved = [*words]
        moved[one], moved[two] = moved[two], moved[one]
    return " ".join(moved) if [word.casefold() for word in moved] != [word.casefold() for word in words] else None


def find_kind(excerpt: str, text: str) -> str:
    """Return the result of searching for an excerpt as a single word."""
    searched = SearchableText(text)
    match = searched.find(excerpt, THRESHOLD)
    return match.kind if match is not None else searched.why_missing(excerpt).kind


def confusion(texts: list[str], chance: random.Random) -> dict[str, Counter[str]]:
    """Return how often each label got each result."""
    table: dict[str, Counter[str]] = {label: Counter() for label in EXPECTED}
    for label, excerpt, text in labelled(texts, chance):
        table[label][find_kind(excerpt, text)] += 1
    return table


def timed(texts: list[str], chance: random.Random, rounds: int) -> None:
    """Print the median times of the search and of the plain alignment for each kind of excerpt."""
    chance.shuffle(texts)
    everything = "\n\n".join(texts)
    trace, beyond = everything[:TRACE], everything[TRACE:]
    if len(trace) < TRACE or len(beyond) < 10 * EXCERPT:
        print("too little text to measure times")
        return
    kinds: dict[str, Callable[[str], str]] = {
        "verbatim": lambda quote: quote,
        "respaced": lambda quote: "  ".join(quote.split()),
        "changed": lambda quote: changed(quote, chance),
        "reordered": lambda quote: reordered(quote, chance) or quote[::-1],
        "invented": lambda _: beyond[(at := chance.randrange(len(beyond) - EXCERPT)) : at + EXCERPT],
    }
    print(f"{EXCERPT} characters in {len(trace):,}; milliseconds, median of {rounds}")
    print(f"{'excerpt':12}{'search':>9}{'again':>9}{'plain':>9}{'ratio':>8}{'again':>8}")
    searched = SearchableText(trace)
    searched.find("warmed up with words that stand nowhere in it")
    for kind, make in kinds.items():
        ours, again, plain = [], [], []
        for _ in range(rounds):
            at = chance.randrange(len(trace) - EXCERPT)
            quote = make(trace[at : at + EXCERPT])
            ours.append(seconds(lambda quote=quote: find_excerpt(quote, trace, THRESHOLD)))  # type: ignore[misc]
            again.append(seconds(lambda quote=quote: searched.find(quote, THRESHOLD)))  # type: ignore[misc]
            plain.append(seconds(lambda quote=quote: fuzz.partial_ratio_alignment(quote, trace)))  # type: ignore[misc]
        one, two, three = (statistics.median(times) * 1000 for times in (ours, again, plain))
        print(f"{kind:12}{one:9.2f}{two:9.2f}{three:9.2f}{one / three:8.2f}{two / three:8.2f}")


def seconds(work: Callable[[], object]) -> float:
    """Return the time in seconds that one call takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main() -> None:
    """Parse the arguments and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared" / "data")
    parser.add_argument("--rows", type=int, default=None, help="the number of responses (default: all)")
    parser.add_argument("--rounds", type=int, default=60)
    chosen = parser.parse_args()
    texts = responses(chosen.data)
    if not texts:
        raise SystemExit(f"{chosen.data} does not contain recorded responses; give their folder with --data")
    timed([*texts], random.Random(SEED), chosen.rounds)
    table = confusion(texts[: chosen.rows], random.Random(SEED))
    heads = (*FOUND, *MISSED)
    print(f"\n{'made as':12}" + "".join(f"{head:>11}" for head in heads) + f"{'right':>9}")
    for label, counts in table.items():
        if counts.total():
            right = sum(counts[kind] for kind in EXPECTED[label]) / counts.total()
            print(f"{label:12}" + "".join(f"{counts[head]:11}" for head in heads) + f"{right:9.1%}")


if __name__ == "__main__":
    main()
