"""Objects that a plugin offers are imported when its hook is called, and classes of ports when a port is made."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from karenina_core.models.adapters import AdapterSpec
from karenina_testing import ScriptedModels
from karenina_toolkit.lazy_names import LazyPorts, offer

if TYPE_CHECKING:
    from karenina_toolkit.lazy_names import PortClasses


def test_offered_objects_are_imported_when_the_hook_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lazy_offers.py").write_text("FIRST = 'one'\nSECOND = 'two'\n", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)

    class plugin:
        karenina_words = offer("lazy_offers:FIRST", "lazy_offers:SECOND")

    assert "lazy_offers" not in sys.modules
    assert plugin.karenina_words() == ["one", "two"]


def test_classes_are_imported_when_the_first_port_is_made() -> None:
    models = ScriptedModels()
    (scripted,) = models.karenina_adapters()
    assert scripted.llm is not None
    assert scripted.parser is not None
    assert scripted.agent is not None
    llm, parser, agent = (make(models.model()) for make in (scripted.llm, scripted.parser, scripted.agent))
    imports: list[str] = []

    def classes() -> PortClasses:
        imports.append("now")
        return lambda _: llm, lambda _: parser, lambda _: agent  # type: ignore[return-value]

    ports = LazyPorts(classes)
    assert AdapterSpec(interface="lazy", description="", llm=ports.llm, parser=ports.parser, agent=ports.agent).ports
    assert imports == []

    model = models.model()
    assert (ports.llm(model), ports.parser(model), ports.agent(model)) == (llm, parser, agent)
    assert imports
