"""Notes about what a run's journal states: items without a result, and replies that came from another model than the
one that was requested, as with a router's fallbacks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from karenina_core.errors import KareninaError
from karenina_engine.journal.view import JournalView
from karenina_report.run_notes import NotedRun, RunNote
from karenina_report.runs import find_journal, iterate_results
from karenina_toolkit.printable import in_one_line, quantity, shorten

if TYPE_CHECKING:
    from karenina_engine.journal.view import ServedReplies
    from karenina_report.runs import Run

_TAG: Final = re.compile(r":.*", re.DOTALL)
"""The provider of a router, Ollama's tag, or the version of AWS Bedrock."""
_QUANTIZATION: Final = re.compile(r"[-._@](?:ud-)?(?:i?q\d(?:_[a-z0-9]+)*|b?f16|fp16)$")
"""The end of the name of a GGUF file, such as `-Q4_K_M`."""
_PROVIDER: Final = re.compile(r"^(?:(?:[a-z]+\.)+([a-z].*?)(?:-v\d+)?|databricks-(.*))$", re.DOTALL)
"""A name of AWS Bedrock, such as `us.anthropic.claude-3-haiku-20240307-v1`, or of Databricks, around the model's own
name.
"""
_SEPARATORS: Final = re.compile(r"[\s._@:]+")
_ALIAS: Final = re.compile(r"(?:-(?:latest|preview|exp|beta|stable|instruct|it|0))+$")
"""The end of a name that stands for the newest snapshot, such as `-latest`, or the `-0` of `claude-sonnet-4-0`, or the
end for models that follow instructions, which servers often leave out.
"""
_SNAPSHOT: Final = re.compile(r"(?:-(?:latest|preview|exp|beta|stable|instruct|it|v\d+|\d{2,8}))*$")
"""The end of a snapshot's name after that of its model, such as `-2024-08-06`, `-0613`, `-002` or `-preview-05-06`."""
_NUMBERED: Final = re.compile(r"(?:^|-)[a-z]{0,2}\d[^-]*")
_MOST_COMPARED: Final = 500
"""The number of characters in longer names, which are compared as they are."""
_MOST_SHOWN: Final = 100
_MOST_LISTED: Final = 5


def served_notes(runs: Sequence[NotedRun]) -> Sequence[RunNote]:
    """Return a note for each run in whose journal replies state another model than the one requested. Snapshots of the
    requested model are not mentioned.
    """
    notes = []
    for run in runs:
        counts: Counter[ServedReplies] = Counter()
        with suppress(KareninaError):  # what cannot be read is reported where the results are read
            counts = _count_other_models(run)
        listed = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
        texts = [
            f"{quantity(count, 'reply')} of {in_one_line(id)} came from the model {shorten(served, _MOST_SHOWN)!r}; "
            f"{shorten(asked, _MOST_SHOWN)!r} was requested"
            for (id, asked, served), count in listed[:_MOST_LISTED]
        ]
        if others := listed[_MOST_LISTED:]:
            texts.append(f"{quantity(sum(count for _, count in others), 'reply')} came from other models, too")
        if texts:
            values = {f"{id}: {asked} > {served}": count for (id, asked, served), count in listed}
            notes.append(RunNote(f"Models {run.label}".rstrip(), "; ".join(texts), values))
    return notes


def unfinished_notes(runs: Sequence[NotedRun]) -> Sequence[RunNote]:
    """Return a note for each run that was stopped or is still running, if items of it have no result."""
    notes = []
    for run in runs:
        with suppress(KareninaError):
            journal = find_journal(run.source) if run.source is not None else None
            if journal is None:
                continue
            with JournalView(journal) as opened:
                done, items = opened.progress()
            if done < items:
                text = (
                    f"{items - done:,} of {quantity(items, 'item')} have no result; the run was stopped or is running"
                )
                notes.append(RunNote(f"Unfinished {run.label}".rstrip(), text, {"missing": items - done}))
    return notes


def describe_journal(run: Run) -> list[str]:
    """Return the texts of these notes about a run."""
    noted = [NotedRun("", run.model, Path(run.source) if run.source is not None else None)]
    return [note.text for note in (*unfinished_notes(noted), *served_notes(noted))]


def _count_other_models(run: NotedRun) -> Counter[ServedReplies]:
    """Return how many replies that the run's results use came from another model, by the requesting model's id, the
    requested name and the stated name. Raises `KareninaError` if the journal or the results cannot be read.
    """
    found: Counter[ServedReplies] = Counter()
    journal = find_journal(run.source) if run.source is not None else None
    if journal is None or run.source is None:
        return found
    with JournalView(journal) as opened:
        names = opened.calls_served({one for one in opened.served_models() if is_other_model(one.asked, one.served)})
    used: set[str] = set()
    for result in iterate_results(run.source) if names else ():
        if run.model in (None, result.metadata.answering_id):
            used.update(key for stage in result.stages for key in stage.call_keys if key in names)
    found.update(names[key] for key in used)
    return found


def is_other_model(asked: str, served: str) -> bool:
    """Return whether a server that was asked for one model states another one. A snapshot of the requested model, such
    as `gpt-4o-2024-08-06` for `gpt-4o`, is not another one, and neither is the same name with or without a provider, or
    the quantization of a file.
    """
    if max(len(asked), len(served)) > _MOST_COMPARED:
        return asked != served
    ours, theirs = _without_folders(asked), _without_folders(served)
    for part in (_TAG, _QUANTIZATION):
        mine, other = part.search(ours), part.search(theirs)
        if mine is None or other is None or mine[0] == other[0]:
            ours, theirs = part.sub("", ours), part.sub("", theirs)
    ours, theirs = _plain(ours), _plain(theirs)
    if not ours or not theirs or (ours.isalpha() and ours in theirs.split("-")):  # such as `sonnet`, of any version
        return False
    stem = _ALIAS.sub("", ours)
    if stem != ours and not _NUMBERED.search(stem):  # such as `gemini-flash-latest`
        theirs = _NUMBERED.sub("", theirs)
    return not any(
        theirs == start or (theirs.startswith(start) and _SNAPSHOT.match(theirs, len(start))) for start in (ours, stem)
    )


def _without_folders(name: str) -> str:
    """Return a model's name in lower case without folders or an organization, and without the ending of its file."""
    return name.strip().lower().replace("\\", "/").rstrip("/").rpartition("/")[2].removesuffix(".gguf")


def _plain(name: str) -> str:
    """Return a name with hyphens as its only separators, and without what AWS Bedrock, Databricks and Azure change."""
    own = _PROVIDER.sub(lambda found: found[1] or found[2] or "", name.removesuffix("-gguf"))
    plain = _SEPARATORS.sub("-", own)
    return f"gpt-3-5{plain[6:]}" if plain.startswith("gpt-35") else plain
