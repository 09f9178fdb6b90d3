"""Answer templates, and the stages (1, 7 and 8) that load, fill and verify them."""

from __future__ import annotations

from karenina_toolkit.lazy_names import offer


class plugin:  # noqa: N801 - what entry points name
    """The stages that this distribution provides."""

    karenina_validate_template = offer("karenina_template.validate_template:ValidateTemplate")
    karenina_parse_template = offer("karenina_template.parse_template:ParseTemplate")
    karenina_verify_template = offer("karenina_template.verify_template:VerifyTemplate")
