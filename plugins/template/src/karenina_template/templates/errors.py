"""Exceptions for templates that are invalid or not trusted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from karenina_core.errors import KareninaError

TRUST_CURE: Final = (
    'Read the code, then run `karenina trust FILE` (or use --trust-all for one run; in Python, trust="all")'
)
"""What to do about code that is not trusted."""


class TemplateError(KareninaError, ValueError):
    """Raised when a template is invalid.

    `reason` describes the problem. `line` is the line in the template's source and `template` is the template's name;
    both are None if not known. `place` is a string that combines the two.
    """

    def __init__(self, reason: str, *, line: int | None = None, template: str | None = None) -> None:
        self.place = ", ".join(part for part in (template, f"line {line}" if line is not None else None) if part)
        super().__init__(f"{self.place}: {reason}" if self.place else reason)
        self.reason = reason
        self.line = line
        self.template = template

    def at(self, line: int | None = None, template: str | None = None) -> TemplateError:
        """Return a copy of the error with `line` and `template` filled in where they were unknown."""
        return TemplateError(
            self.reason,
            line=self.line if self.line is not None else line,
            template=self.template if self.template is not None else template,
        )


class UntrustedTemplate(TemplateError):
    """Raised when a template contains code and is not trusted. None of the code was executed.

    `code` describes the part of the template that is not a declaration. `digest` is the SHA-256 hash of the source, by
    which the template can be trusted.
    """

    def __init__(self, code: str, *, digest: str, line: int | None = None, template: str | None = None) -> None:
        super().__init__(
            f"{code}; this code is not trusted, so it was not run. {TRUST_CURE}",
            line=line,
            template=template,
        )
        self.code = code
        self.digest = digest

    def at(self, line: int | None = None, template: str | None = None) -> UntrustedTemplate:
        """Return a copy of the error with `line` and `template` filled in where they were unknown."""
        return UntrustedTemplate(
            self.code,
            digest=self.digest,
            line=self.line if self.line is not None else line,
            template=self.template if self.template is not None else template,
        )


class InvalidAnswer(KareninaError, TypeError):
    """Raised when a primitive or a class's own `verify` returns an invalid result because of an error in its code."""


def missing_answer_class(names: Sequence[str], line: int | None = None) -> TemplateError:
    """Return the error for a source without a class `Answer`. `names` are the names of its `BaseAnswer` subclasses."""
    if not names:
        return TemplateError("the source has no class Answer(BaseAnswer)", line=line)
    which = names[0] if len(names) == 1 else f"one of {', '.join(names)}"
    return TemplateError(f"the answer class must be named Answer; rename {which}", line=line)
