"""Lazy imports, which make packages fast to import and allow adapters to be listed without their SDK."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import AgentPort, LLMPort, ParserPort

    PortClasses = tuple[
        Callable[[ModelConfig], LLMPort], Callable[[ModelConfig], ParserPort], Callable[[ModelConfig], AgentPort]
    ]


def lazy_names(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """Return a `__getattr__` for a package that imports public names on first use. `modules` maps each name to its
    module. A module that starts with a dot is relative to the package.
    """

    def find(name: str) -> object:
        """Import and return a public name, and store it in the package. Raises `AttributeError` for any other name."""
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(modules[name], package), name)
        setattr(sys.modules[package], name, value)
        return value

    return find


def offer(*targets: str) -> staticmethod[[], list[Any]]:
    """Return a hook implementation that imports and returns the objects at `targets`, written as `module:object`, when
    it is called.

    Assign the result to the name of the hook, which must take no arguments. This function is internal. Other plugins
    use `hookimpl`.
    """
    from karenina_core.hooks import hookimpl  # not loaded by `lazy_names`

    return staticmethod(hookimpl(lambda: [resolve_name(target) for target in targets]))


class LazyPorts(NamedTuple):
    """The port factories of an adapter that has all three ports.

    `classes` is a function that imports and returns the port classes. This way, the adapter can be listed without its
    SDK:

        def _classes() -> PortClasses:
            from my_adapter.ports import MyAgent, MyLLM, MyParser

            return MyLLM, MyParser, MyAgent

        PORTS = LazyPorts(_classes)
        SPEC = AdapterSpec(..., llm=PORTS.llm, parser=PORTS.parser, agent=PORTS.agent)
    """

    classes: Callable[[], PortClasses]

    def llm(self, model: ModelConfig) -> LLMPort:
        """Return the port for plain text."""
        return self.classes()[0](model)

    def parser(self, model: ModelConfig) -> ParserPort:
        """Return the port for JSON."""
        return self.classes()[1](model)

    def agent(self, model: ModelConfig) -> AgentPort:
        """Return the port for agents."""
        return self.classes()[2](model)
