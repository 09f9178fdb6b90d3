"""The classes of an adapter's ports are imported when a port is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.models.adapters import AdapterSpec
from karenina_testing import ScriptedModels
from karenina_toolkit.lazy_names import LazyPorts

if TYPE_CHECKING:
    from karenina_toolkit.lazy_names import PortClasses


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
