"""Exceptions for templates that are invalid or not trusted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from karenina_core.errors import KareninaError

TRUST_CURE: Final = (
    'Read the code, then run `karenina trust FILE` (or use --trust-all for one run; in Python, trust="all")'
)
"""The advice given for code that is not trusted."""


class TemplateError(KareninaError, ValueError):
    """Raised if a template is invalid.

    `reason` describes the problem. `line` and `template` give its location if it is known, and `place` combines the
    two.
    """

    def __init__(self, reason: str, *, line: int | None = None, template: str | None = None) -> None:
        self.place = ", ".join(part for part in (template, f"line {line}" if line is not None else None) if part)
        super().__init__(f"{self.place}: {reason}" if self.place else reason)
        self.reason = reason
        self.line = line
        self.template = template

    def at(self, line: int | None = None, template: str | None = None) -> TemplateError:
        """Return a copy of the error with `line` and `template` filled in, unless they are already known."""
        return TemplateError(
            self.reason,
            line=self.line if self.line is not None else line,
            template=self.template if self.template is not None else template,
        )


class UntrustedTemplate(TemplateError):
    """Raised if a template contains code but is not trusted. None of its code has been executed.

    `code` describes the part that is not a declaration. `digest` is the SHA-256 hash that can be used to trust the
    source.
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
        """Return a copy of the error with `line` and `template` filled in, unless they are already known."""
        return UntrustedTemplate(
            self.code,
            digest=self.digest,
            line=self.line if self.line is not None else line,
            template=self.template if self.template is not None else template,
        )


class InvalidAnswer(KareninaError, TypeError):
    """Raised if a primitive or a class's own `verify` returns something invalid, because of a mistake in its code."""


def missing_answer_class(names: Sequence[str], line: int | None = None) -> TemplateError:
    """Return the error for a source without a class `Answer`. `names` contains the subclasses of `BaseAnswer` in the
    source.
    """
    if not names:
        return TemplateError("the source has no class Answer(BaseAnswer)", line=line)
    which = names[0] if len(names) == 1 else f"one of {', '.join(names)}"
    return TemplateError(f"the answer class must be named Answer; rename {which}", line=line)
