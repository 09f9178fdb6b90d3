"""What can be wrong with a template."""

from __future__ import annotations

from collections.abc import Sequence

from karenina_core.errors import KareninaError


class TemplateError(KareninaError, ValueError):
    """A template that cannot be used: `reason`, and the `line` of its source and its `template` name where known."""

    def __init__(self, reason: str, *, line: int | None = None, template: str | None = None) -> None:
        where = ", ".join(part for part in (template, f"line {line}" if line is not None else None) if part)
        super().__init__(f"{where}: {reason}" if where else reason)
        self.reason = reason
        self.line = line
        self.template = template

    def at(self, line: int | None = None, template: str | None = None) -> TemplateError:
        """The same error with the place added that it did not know yet."""
        return TemplateError(
            self.reason,
            line=self.line if self.line is not None else line,
            template=self.template if self.template is not None else template,
        )


class UntrustedTemplate(TemplateError):
    """A template that is more than declarations and whose source nobody trusted. Nothing of it was executed.

    `code` says what goes beyond declarations; `digest` is the SHA-256 of the source, by which it can be trusted.
    """

    def __init__(self, code: str, *, digest: str, line: int | None = None, template: str | None = None) -> None:
        super().__init__(
            f"{code}. That is code, and this source is not trusted, so nothing of it was run. If you have read it and "
            'trust it: `karenina trust FILE` for the file that holds it, or trust="all" in Python '
            f"(SHA-256 of the source: {digest})",
            line=line,
            template=template,
        )
        self.code = code
        self.digest = digest

    def at(self, line: int | None = None, template: str | None = None) -> UntrustedTemplate:
        """The same error with the place added that it did not know yet."""
        return UntrustedTemplate(
            self.code,
            digest=self.digest,
            line=self.line if self.line is not None else line,
            template=self.template if self.template is not None else template,
        )


def missing_answer_class(names: Sequence[str], line: int | None = None) -> TemplateError:
    """Return the error for a source without a class `Answer`; `names` are those of its classes that are answers."""
    if not names:
        return TemplateError("there is no class Answer(BaseAnswer)", line=line)
    which = names[0] if len(names) == 1 else f"one of {', '.join(names)}"
    return TemplateError(f"in a source, the class of the answer must be named Answer: rename {which}", line=line)
