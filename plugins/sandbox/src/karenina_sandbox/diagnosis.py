"""What `karenina doctor` prints about sandboxes: which work here, and which limits hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karenina_sandbox.hookspecs import karenina_sandboxes
from karenina_sandbox.sandbox import SandboxProvider
from karenina_sandbox.settings import SandboxSettings
from karenina_toolkit.package_check.metadata import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karenina_core import VerificationConfig
    from karenina_core.plugins import Plugins

_AREA: Final = "Sandboxes"


class SandboxDiagnosis:
    """The check of all sandboxes. That none works is a problem only if one is configured."""

    def findings(self, config: VerificationConfig, plugins: Plugins) -> Iterator[Finding]:
        """Yield a finding for each sandbox that works, one if the configured sandbox cannot be used or is `none`, and
        one that lists the others that cannot.
        """
        chosen = config.section(SandboxSettings).sandbox
        works, missing = False, []
        for offer in plugins.offers(karenina_sandboxes, SandboxProvider):
            provider = offer.value
            why = provider.unavailable()
            if why is not None:
                if provider.name == chosen:
                    yield Finding(_AREA, "problem", f"the configured sandbox {chosen} cannot be used: {why}")
                else:
                    missing.append(f"{provider.name} ({why})")
            elif provider.name == "none":
                if chosen == "none":
                    yield Finding(_AREA, "warning", f"none is configured: {provider.describe()}")
            else:
                works = True
                yield Finding(_AREA, "ok", f"{provider.name}: {provider.describe()}")
        if missing:
            start = "other sandboxes cannot be used here" if works else "no sandbox can be used here, which checks need"
            yield Finding(_AREA, "ok" if works else "warning", f"{start}: {'; '.join(missing)}")


DIAGNOSIS: Final = SandboxDiagnosis()
