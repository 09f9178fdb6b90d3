"""Executors: where the work of a run is done. `asyncio` does it here; plugins offer others (`karenina_executors`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, ClassVar, Final

from karenina_core.errors import PluginError
from karenina_core.known import known
from karenina_core.wording import nearest
from karenina_engine.scheduling.hookspecs import karenina_executors

if TYPE_CHECKING:
    from pydantic import BaseModel

    from karenina_core.plugins import Plugins
    from karenina_engine.scheduling.placed import Placed
    from karenina_engine.scheduling.prepared import PreparedRun
    from karenina_engine.scheduling.session import RunSession

DEFAULT: Final = "asyncio"
OWNER: Final = "karenina-engine"
"""The distribution of `asyncio`."""


class Executor(ABC):
    """A way to work through a run, chosen by its `name` in the configuration (`executor`).

    The run itself stays in the process that was asked for it: it has the matrix (`run.prepared.matrix`), the one
    journal, the output and the observers. An executor takes the answers of the matrix one after another, asks
    `run.todo` which of their items have to run, has them worked on (`karenina_engine.scheduling.answering.Answering`
    does that in any process), and hands each result to `run.finished`, which keeps it, before it brings it. Each item
    of the matrix has one result in the end, also where something broke on the way (`run.work.failed`).

    `settings` is the model of the configuration names that it owns, each marked `changes_results: False`: where the
    work is done changes no result. `keeps_budgets` says that it makes no call that `run.budget` does not cover, where
    the run has one: else such runs are refused. One object serves all runs of a process.
    """

    name: ClassVar[str]
    description: ClassVar[str] = ""
    keeps_budgets: ClassVar[bool] = False
    settings: ClassVar[type[BaseModel] | None] = None

    def check(self, prepared: PreparedRun) -> None:
        """Look, before anything is asked, at what would keep the run from being done. Raises `ConfigError`."""

    @abstractmethod
    def execute(self, run: RunSession) -> AsyncGenerator[Placed]:
        """Every item's result with its place in the matrix, as the run gave it, in the order in which they end.

        While it works, it has a listener at the run (`run.add_stop_listener`), which is called in the event loop when
        the run is stopped; the generator ends soon after. Where it is closed early it ends at once all that it started.
        """


class InThisProcess(Executor):
    """`asyncio`: all of it in one event loop of this process."""

    name = DEFAULT
    description = "One event loop in this process."
    keeps_budgets = True

    def execute(self, run: RunSession) -> AsyncGenerator[Placed]:
        """What the run does here."""
        return run.here()


def executors(plugins: Plugins) -> list[tuple[Executor, str]]:
    """Return the ways to work through a run, sorted by name, each with the distribution that offers it.

    `asyncio`, the engine's own, is always among them.
    """
    found: list[tuple[Executor, str]] = [(InThisProcess(), OWNER)]
    found += [(offer.value, offer.distribution) for offer in plugins.offers(karenina_executors)]
    return sorted(found, key=lambda pair: (pair[0].name, pair[1]))


def executor(plugins: Plugins, name: str) -> Executor:
    """Return the executor of that name.

    Raises `PluginError` if there is none (with the distribution that has it, or the nearest name), if its plugin failed
    to load, and if two distributions offer it.
    """
    offered = executors(plugins)
    found = [(one, owner) for one, owner in offered if one.name == name]
    if len(found) == 1:
        return found[0][0]
    if found:
        names = " and ".join(owner for _, owner in found)
        raise PluginError(
            f'two plugins offer the executor {name!r}: {names}; block one of them: [plugins] block = ["{found[-1][1]}"]'
        )
    owner = known()["executors"].get(name)
    if owner is not None:
        raise PluginError(f"there is no executor {name!r}: {plugins.why_absent(owner)}")
    raise PluginError(f"there is no executor {name!r}{nearest(name, [one.name for one, _ in offered])}")
