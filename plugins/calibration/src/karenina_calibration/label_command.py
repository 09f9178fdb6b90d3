"""The command `karenina label`, which draws answers from a run for people to label."""

from __future__ import annotations

import getpass
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from karenina_calibration.commands import label_files
from karenina_report.attached_files import AttachedFiles, AttachmentsFolder
from karenina_report.options import config_error, moved_note
from karenina_terminal.completion import result_files
from karenina_terminal.screen import get_screen
from karenina_toolkit.printable import quantity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karenina_calibration.answers import AskedAnswer
    from karenina_calibration.label_file import Label
    from karenina_calibration.labelling import Labelling
    from karenina_terminal.screen import Screen


def label(
    ctx: typer.Context,
    results: Annotated[
        Path,
        typer.Argument(metavar="RESULTS", help="A result file of `karenina run`.", autocompletion=result_files),
    ],
    n: Annotated[
        int | None,
        typer.Option(
            "--n",
            min=1,
            metavar="N",
            help="The number of answers to draw. Default: 60 for a new draw. A larger number than before extends the "
            "draw.",
        ),
    ] = None,
    labeller: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The labeller's name. Default: your user name; the page asks for a name."),
    ] = None,
    sheet: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the answers to label to a sheet: .csv or .xlsx.")
    ] = None,
    page: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the answers to label as an HTML page with buttons.")
    ] = None,
    from_: Annotated[
        list[Path] | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="Add the labels in this file: a filled-in sheet, a file saved by the page, or labels of another run.",
            autocompletion=label_files,
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The label file. Default: NAME.labels.jsonl next to the results."),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="The seed of the draw. Default: a random seed.")] = None,
    simple_random: Annotated[
        bool, typer.Option("--simple-random", help="Draw from all answers with equal probability, not by verdict.")
    ] = False,
    redraw: Annotated[
        bool,
        typer.Option(
            "--redraw",
            help="Draw again, and reuse the labels of unchanged answers. The earlier file is renamed and kept.",
        ),
    ] = False,
    attachments: AttachmentsFolder = None,
    show_verdict: Annotated[
        bool, typer.Option("--show-verdict", help="Show the judge's verdict, which influences labellers.")
    ] = False,
) -> None:
    """Draw answers of a run at random, and ask a person whether each is right and was read correctly.

    The draw is stratified by the judges' verdicts, with at least 5 answers of each kind, and recorded in the label
    file. Labels are saved one by one, so you can stop at any time and repeat the command to continue. Several people
    can label the same answers. The labels are read by `karenina calibrate`.
    """
    screen = get_screen(ctx)
    with screen.report_errors():
        from karenina_calibration.calibration_text import outside_text, stale_text
        from karenina_calibration.label_file import label_command
        from karenina_calibration.label_paths import default_labels, find_labels_file
        from karenina_calibration.labelling import Labelling, describe_draw, move_away
        from karenina_calibration.sheets import SUFFIXES

        if sheet is not None and sheet.suffix.lower() not in SUFFIXES:
            raise config_error(f"the sheet {sheet} must have the file extension {' or '.join(SUFFIXES)}")
        if show_verdict and (sheet is not None or (from_ and page is None)):
            raise config_error(
                "--show-verdict applies only to the terminal and --page because a sheet never shows verdicts; remove it"
            )
        if attachments is not None and page is None:
            raise config_error("--attachments applies only to --page, which shows the pictures; add --page FILE")
        attached = AttachedFiles(attachments)
        if labeller is not None and not labeller.strip():
            raise config_error("--labeller is empty; specify a name")
        file = labels if labels is not None else find_labels_file(results)
        earlier = [file] if redraw and os.path.lexists(file) else []
        if redraw and labels is None:
            file = default_labels(results)
        resumes = os.path.lexists(file) and not redraw
        opened = Labelling.open(results, file, count=n, seed=seed, simple=simple_random, redraw=redraw)
        name = (labeller or _user()).strip()
        taken = [(path, *opened.read(path, name)) for path in from_ or ()]
        for path, imported, strange in taken:
            if strange and not imported:
                raise config_error(
                    f"{path} contains no labels for the answers in {results}; pass a file with labels for these results"
                )
        earlier_labels = [opened.read(path, name)[0] for path in earlier]
        before = move_away(file) if redraw else None
        opened.save_draw()
        if not resumes:
            screen.note(f"Drawn with seed {opened.draw.seed}: " + "; ".join(describe_draw(opened.draw)))
        elif n is not None and n < len(opened.draw.items):
            screen.note(
                "--n is ignored because a draw never shrinks; the number of answers drawn before is "
                f"{len(opened.draw.items)}."
            )
        if before is not None:
            screen.note(f"The earlier labels are kept in {before}.")
        for path, imported in zip(earlier, earlier_labels, strict=True):
            opened.take_over(imported)
            screen.note(f"{_labels_read(imported)} {before or path}.")
        for path, imported, strange in taken:
            opened.take_over(imported)
            left = (
                f"; left out {quantity(strange, 'label')} for answers that the results do not contain"
                if strange
                else ""
            )
            screen.note(f"{_labels_read(imported)} {path}{left}.")
        stale = opened.stale()
        if stale:
            again = "this answer needs a new label" if len(stale) == 1 else "these answers need new labels"
            screen.note(f"Warning: {stale_text([answer.question_id for answer in stale])}; {again}.")
        missing = opened.labels.missing(name)
        people = {person for _, person in opened.labels.stale}
        reader = people.pop() if labeller is None and len(people) == 1 else name
        in_file = opened.ask(opened.asked_in_file(labeller), labeller)
        if labeller is None and reader in _labelled(in_file, opened):
            reader = "NAME"
        if sheet is not None:
            from karenina_calibration.sheets import count_cut, write_sheet

            cut = count_cut(sheet, in_file)
            if cut:
                screen.note(
                    f"Warning: {cut} answer{' was' if cut == 1 else 's were'} truncated to fit into a cell; a "
                    ".csv file contains the full text."
                )
            moved = write_sheet(sheet, in_file)
            read = label_command("label", results, file, "--from", str(sheet), "--labeller", reader)
            screen.note(
                f"The sheet {sheet} contains {_describe_count(in_file, opened, labeller)}{moved_note(moved)}. Write "
                f"yes, no or unclear in the `right` column, then read the sheet with: {read}"
            )
        if page is not None:
            from karenina_calibration.questions import saved_name, write_label_page

            moved = write_label_page(
                page, opened, in_file, labeller=labeller or "", show_verdict=show_verdict, attached=attached
            )
            read = label_command("label", results, file, "--from", saved_name(file, reader))
            screen.note(
                f"The page {page} contains {_describe_count(in_file, opened, labeller)}{moved_note(moved)}. The page "
                f"saves the labels in a file named after the labeller; read that file (here for {reader}) with: {read}"
            )
        if sheet is None and page is None and not from_:
            _ask_all(screen, opened, missing, name, blind=not show_verdict)
        known_items = opened.labels.known_items
        done = sum(item.item in known_items for item in opened.draw.items)
        screen.note(f"{done} of {len(opened.draw.items)} drawn answers are labelled in {file}.")
        outside = len(known_items & opened.answers.by_id.keys()) - done
        if outside:
            screen.note(outside_text(outside, len(opened.answers.by_id), results, file))
        if done:
            screen.note(f"Compare the labels with the verdicts: {label_command('calibrate', results, file)}")


def _user() -> str:
    """Return the user's name. Raises `ConfigError` if the system does not provide one."""
    try:
        return getpass.getuser()
    except (OSError, KeyError) as error:
        raise config_error("cannot determine your user name; specify --labeller NAME") from error


def _labels_read(labels: Sequence[Label]) -> str:
    """Return the start of a sentence that ends with a file name, such as `1 label was read from`."""
    return f"{quantity(len(labels), 'label')} {'was' if len(labels) == 1 else 'were'} read from"


def _labelled(asked: Sequence[AskedAnswer], opened: Labelling) -> list[str]:
    """Return the names of the people who have labelled the answers. If any of the answers is shown again, the list is
    empty.
    """
    if any(entry.why for entry in asked):
        return []
    return sorted({name for entry in asked for name in opened.labels.by_item.get(entry.answer.id, {})})


def _describe_count(asked: Sequence[AskedAnswer], opened: Labelling, labeller: str | None) -> str:
    """Describe how many answers there are to label and how many of them again and, if `labeller` is None, who has
    already labelled them.
    """
    again = sum(bool(entry.why) for entry in asked)
    text = quantity(len(asked), "answer") + " to label" + (f", {again:,} of them again" if again else "")
    names = _labelled(asked, opened) if labeller is None else []
    if not names:
        return text
    labelled = sum(bool(opened.labels.by_item.get(entry.answer.id)) for entry in asked)
    how_many = "all" if labelled == len(asked) else f"{labelled:,}"
    return f"{text}, {how_many} of them already labelled by {', '.join(names)}; another person can label them too"


def _ask_all(screen: Screen, opened: Labelling, missing: list[str], labeller: str, *, blind: bool) -> None:
    """Ask about the `missing` answers until the labeller stops, without showing verdicts if `blind` is set. Each label
    is saved immediately.
    """
    from karenina_calibration.labelling import asks_verdict, now
    from karenina_calibration.questions import Stop, answer_lines, ask_answer

    def ask(question: str) -> str:
        try:
            reply: str = typer.prompt(question, prompt_suffix=": ", type=str)
        except typer.Abort:
            raise Stop from None
        return reply

    try:
        for number, asked in enumerate(opened.ask(missing, labeller), 1):
            answer = asked.answer
            for line in answer_lines(asked, number, len(missing), screen.out.width, blind=blind):
                typer.echo(line)
            before = opened.labels.by_item.get(answer.id, {}).get(labeller)
            answered = ask_answer(
                asked,
                ask,
                labeller=labeller,
                now=now,
                asks_verdict=asks_verdict(answer),
                blind=blind,
                earlier=before.extractions if before is not None else (),
            )
            if answered is not None:
                opened.add([answered])
    except Stop:
        screen.note("Stopped. All labels entered so far are saved.")
