"""The files that questions attach: looking them up, and the checks before a run.

A file is only needed for a call that will be made. If it is missing, its digest is taken from the journal, so that an
earlier run can be replayed and resumed without the files.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karenina_core.errors import ConfigError
from karenina_core.models.attachments import Attachment, read_attachments
from karenina_toolkit.attachments.media_types import IMAGES, MAX_MESSAGE
from karenina_toolkit.conversations import entries_with_files, files_by_message, has_files, script_entries
from karenina_toolkit.files.bounded_files import format_size
from karenina_toolkit.plugin_lookup import find_adapter

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_core.data.question import Question
    from karenina_core.models.model import ModelConfig
    from karenina_core.plugins import Plugins
    from karenina_toolkit.attachments.support import Support

logger = logging.getLogger("karenina")

_CURE = "choose another model, or select other questions"


@dataclass(slots=True)
class QuestionFiles:
    """The attached files of a benchmark.

    `folder` is the benchmark's folder; without one, paths are relative to the current folder. `journal` is the journal
    of an earlier run. `facts` contains the files found so far, by path as written, and `problems` the reasons why the
    other ones cannot be sent. Those in `missing` are only needed if they have to be sent again.
    """

    folder: Path | None
    journal: Path | None = None
    facts: dict[str, Attachment] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)
    _earlier: dict[str, Attachment] | None = None

    def resolve(self, question: Question) -> Question:
        """Return the question with the media types, digests and absolute paths of its files. Files that cannot be sent
        are not an error here, but added to `problems`.
        """
        if not has_files(question):
            return question
        changes: dict[str, object] = {"attachments": tuple(map(self._resolve, question.attachments))}
        if entries_with_files(question):
            turns = script_entries(question.extra["turns"])
            assert isinstance(turns, list | tuple), "it has entries"
            changes["extra"] = {**question.extra, "turns": [self._resolve_turn(entry) for entry in turns]}
        return question.model_copy(update=changes)  # `changed` would refuse attachments among the plugin fields

    def problem_of(self, attachment: Attachment) -> str | None:
        """Return the reason why a resolved file cannot be sent, or None."""
        return self.problems.get(attachment.source)

    def _resolve_turn(self, entry: Any) -> Any:
        """Return an entry of a script with resolved attachments. Invalid ones stay unchanged, and are refused by the
        plugin.
        """
        if not isinstance(entry, Mapping) or not entry.get("attachments"):
            return entry
        try:
            files = tuple(map(self._resolve, read_attachments(entry["attachments"])))
        except (TypeError, ValueError):
            return entry
        return {**entry, "attachments": files}

    def _resolve(self, attachment: Attachment) -> Attachment:
        """Return an attachment with the media type, digest and size of its file, or unchanged if it has them. If it
        cannot be sent, this is noted in `problems`, and it is returned unchanged or, if the file is missing, with what
        the journal states.
        """
        from karenina_toolkit.attachments.files import AttachmentProblem, MissingAttachment, examine

        if attachment.sha256:
            return attachment
        written = attachment.source
        try:
            found = examine(attachment, self.folder)
        except AttachmentProblem as error:
            self.problems[written] = str(error)
            if not isinstance(error, MissingAttachment):
                return attachment
            known = self._known(written)
            if known is None:
                return attachment
            self.missing.add(written)
            return replace(known, pages=attachment.pages, source=written)
        self.facts[written] = found
        return found

    def _known(self, written: str) -> Attachment | None:
        """Return the missing file written as `written`, as the journal describes it, or None if it does not."""
        if self._earlier is None:
            from karenina_engine.journal.view import JournalView

            self._earlier = {}
            if self.journal is not None and self.journal.exists():
                with JournalView(self.journal) as view:
                    self._earlier = view.attachments()
        return self._earlier.get(written)


@dataclass(slots=True)
class AttachmentCheck:
    """The check that the files of a run's questions can be sent to its models.

    Questions are added one at a time. `needed` contains the problems of questions whose files are only missing, by
    question id. They are refused by `refuse_missing` if one of their items has to run.
    """

    plugins: Plugins
    config: VerificationConfig
    files: QuestionFiles
    offline: bool = False
    needed: dict[str, list[str]] = field(default_factory=dict)
    _problems: dict[str, None] = field(default_factory=dict)
    _supports: dict[tuple[int, str], tuple[ModelConfig, Support, str, str]] = field(default_factory=dict)
    _unsure_judges: dict[tuple[int, str], tuple[ModelConfig, str]] = field(default_factory=dict)
    _unpriced: dict[str, str] = field(default_factory=dict)

    def add(self, question: Question) -> None:
        """Collect problems with the files of a question and the models that get them, for `check` to raise. Nothing is
        checked offline.
        """
        if self.offline:
            return
        rubrics = [rubric for rubric in (question.rubric, question.dynamic_rubric) if rubric]
        if (
            rubrics
            and self.config.core.evaluation_mode != "template_only"
            and any(trait.extra.get("attachments") for rubric in rubrics for trait in rubric.traits)
        ):
            self._check_judges(question)
        if not has_files(question):
            return
        for attachments in files_by_message(question):
            for attachment in attachments:
                self._check_file(question, attachment)
            total = sum(attachment.size for attachment in attachments)
            if total > MAX_MESSAGE:
                what = f"the attachments of a message have {format_size(total)}, but the limit is"
                self._problems[f"question {question.id}: {what} {format_size(MAX_MESSAGE)}; attach fewer"] = None
            for model in self.config.core.answering_models:
                self._check_model(question, model, attachments)

    def check(self, *, has_budget: bool) -> None:
        """Raise `ConfigError` with all problems of the questions added so far, apart from files that are only missing.
        With `has_budget`, an unknown price of a file is a problem too. Log a warning for each model of which it is
        unknown whether it understands the files.
        """
        problems = [*self._problems]
        unknown: dict[str, list[str]] = {}
        for model, media_type in self._unsure_judges.values():
            unknown.setdefault(f"{model.id!r} ({model.display_string})", []).append(media_type)
        for model, support, media_type, id in self._supports.values():
            what = f"model {model.id!r} cannot read {media_type}, which question {id!r} attaches ({support.source})"
            if support.understands is False:
                problems.append(f"{what}; {_CURE}")
            elif support.understands is None:
                unknown.setdefault(f"{model.id!r} ({model.display_string})", []).append(media_type)
        for named, media_types in unknown.items():
            logger.warning(
                "it is unknown whether the model %s understands %s; declare it in the model's extra.media, such as "
                '["image/*"]',
                *(named, ", ".join(dict.fromkeys(media_types))),
            )
        if has_budget:
            problems += [
                f"a budget needs the price of the attachments, and the tokens that {id!r} counts for {media_type} are "
                "unknown; set extra.media_tokens of the model to the most tokens of an image or page"
                for id, media_type in self._unpriced.items()
            ]
        if problems:
            raise ConfigError(problems)

    def refuse_missing(self, question_ids: Iterable[str]) -> None:
        """Raise `ConfigError` if files are missing that the items of these questions need."""
        problems = [problem for id in dict.fromkeys(question_ids) for problem in self.needed.get(id, ())]
        if problems:
            raise ConfigError(list(dict.fromkeys(problems)))

    def _check_file(self, question: Question, attachment: Attachment) -> None:
        """Record the reason why a file cannot be sent, if there is one: as a problem, or in `needed` if the file is
        only missing.
        """
        from karenina_toolkit.attachments.pdf_pages import missing_package

        problem = self.files.problem_of(attachment)
        if problem is None and attachment.pages is not None:
            problem = missing_package()
        if problem is None:
            return
        line = f"question {question.id}: {problem}"
        if attachment.source in self.files.missing:
            self.needed.setdefault(question.id, []).append(line)
        else:
            self._problems[line] = None

    def _check_judges(self, question: Question) -> None:
        """Record the judges of which it is unknown whether they understand the files that traits show them, or how many
        tokens they count for these files: those of the question or, if it has none, images of a workspace.
        """
        from karenina_toolkit.attachments.support import find_support, limits_of

        files = [file.media_type for message in files_by_message(question) for file in message]
        for model in self.config.core.parsing_models:
            spec = find_adapter(self.plugins, model.interface).spec
            limits = {} if spec.recorded else limits_of(spec, model)
            for media_type in (name for name in limits if name in (files or IMAGES)):
                if limits[media_type].max_tokens is None:
                    self._unpriced.setdefault(model.id, media_type)
                if find_support(spec, model, media_type).understands is None:
                    self._unsure_judges[id(model), media_type] = (model, media_type)

    def _check_model(self, question: Question, model: ModelConfig, attachments: tuple[Attachment, ...]) -> None:
        """Record whether a model whose answers are not recorded understands the attachments of a question, whether they
        are too large, and whether it is known what they cost.
        """
        from karenina_toolkit.attachments.support import find_support, limits_of, most_tokens

        spec = find_adapter(self.plugins, model.interface).spec
        if spec.recorded:
            return
        limits = limits_of(spec, model)
        for attachment in attachments:
            media_type = attachment.media_type
            if not media_type:
                continue
            if (id(model), media_type) not in self._supports:
                support = find_support(spec, model, media_type)
                self._supports[id(model), media_type] = (model, support, media_type, question.id)
            limit = limits.get(media_type)
            if limit is not None and attachment.size > limit.max_bytes:
                size, most = format_size(attachment.size), format_size(limit.max_bytes)
                what = f"the attachment {attachment.name!r} has {size}, but {model.display_string} accepts {most}"
                self._problems[f"question {question.id}: {what}; make the file smaller"] = None
            if limit is not None and most_tokens((attachment,), limits) is None:
                self._unpriced.setdefault(model.id, media_type)
