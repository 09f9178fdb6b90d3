"""Discovery, selection, loading and listing of plugins, with distributions that are only metadata in a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.metadata import EntryPoint, distributions, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Protocol

import pytest
from command_runs import run_karenina
from hypothesis import given, settings
from hypothesis import strategies as st
from plugin_makers import offering
from pydantic import BaseModel
from stevedore import ExtensionManager

from karenina_core import API_VERSION, Question, Slot, Stage, VerificationConfig, VerificationContext, hookimpl
from karenina_core import plugins as plugin_room
from karenina_core.errors import PluginError, describe_error
from karenina_core.hooks import hookspec
from karenina_core.models.adapters import AdapterSpec
from karenina_core.namespaces import installed, third_parties
from karenina_core.plan import PlanError
from karenina_core.plugins import PluginInfo, Plugins, Selection
from karenina_core.plugins.hookspecs import karenina_settings
from karenina_core.plugins.specifications import Specifications
from karenina_core.stages import hookspecs
from karenina_core.stages.stage import registered_stages
from karenina_engine.check.planner import Planner
from karenina_toolkit.plugin_lookup import Hook, find_adapter, registered_adapters, specified_hooks

pytestmark = pytest.mark.alone

STAGES = "karenina.stages"
ADAPTERS = "karenina.adapters"
OTHERS = "karenina.plugins"
HOOKSPECS = "karenina.hookspecs"
ABSENT = "a_module_that_nobody_has:plugin"


class Idle(Stage):
    def execute(self, context: VerificationContext) -> None:
        """Do nothing: these stages are only planned."""


class Early(Idle):
    name = "Early"


class Late(Idle):
    name = "Late"
    after = frozenset({"Early"})


class TasteSettings(BaseModel):
    taste: int = 2


CANARY = AdapterSpec(interface="canary", description="Sings.")
FINCH = AdapterSpec(interface="finch", description="Hops.")

both_stages = offering(karenina_extra_stages=[Late, Early])
early_stage = offering(karenina_extra_stages=[Early])
late_stage = offering(karenina_extra_stages=[Late])
canary = offering(karenina_adapters=[CANARY])
whole_aviary = offering(karenina_adapters=[CANARY, FINCH], karenina_extra_stages=[Early])
from_tomorrow = type("from_tomorrow", (early_stage,), {"karenina_api": API_VERSION + 1})
misspelt = offering(karenina_extra_stage=[Early])
in_the_wrong_slot = offering(karenina_parse_template=[type("Extra", (Early,), {"slot": None})])
of_another_slot = offering(karenina_extra_stages=[type("Parse", (Early,), {"for_slot": Slot.PARSE_TEMPLATE})])
in_two_slots = offering(karenina_parse_template=[Early], karenina_extra_stages=[Early])
in_its_slot = offering(
    karenina_parse_template=[
        type("Parse", (Early,), {"slot": Slot.PARSE_TEMPLATE, "for_slot": Slot.PARSE_TEMPLATE}),
    ]
)
in_a_slot = offering(karenina_parse_template=[Early])


class unmarked:
    @staticmethod
    def karenina_extra_stages() -> Sequence[type[Stage]]:
        return [Early]


class awaited:
    @staticmethod
    @hookimpl
    async def karenina_extra_stages() -> Sequence[type[Stage]]:
        return [Early]


class specified:
    @staticmethod
    @hookspec
    def karenina_extra_stages() -> Sequence[type[Stage]]:
        return [Early]


class wrapping:
    @staticmethod
    @hookimpl(wrapper=True)
    def karenina_extra_stages() -> Iterator[None]:
        yield


class wrapping_in_the_old_way:
    @staticmethod
    @hookimpl(hookwrapper=True)
    def karenina_extra_stages() -> Iterator[None]:
        yield


class Places:
    """Distributions in a folder: `add(name, group, {entry point: object of this module})`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, name: str, points: Mapping[str, Mapping[str, str]], version: str = "1.0") -> None:
        info = self._folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        lines = []
        for group, names in points.items():
            targets = [
                f"{point} = {target if ':' in target or group == HOOKSPECS else f'{__name__}:{target}'}"
                for point, target in names.items()
            ]
            lines += [f"[{group}]", *targets]
        (info / "entry_points.txt").write_text("\n".join(lines))

    def found(self) -> list[EntryPoint]:
        return [point for one in distributions(path=[str(self._folder)]) for point in one.entry_points]

    def discover(self, **selection: Any) -> Plugins:
        return Plugins.discover(Selection.of(**selection), self.found())


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    monkeypatch.delenv("KARENINA_PLUGINS", raising=False)
    return Places(tmp_path)


def states(plugins: Plugins) -> dict[tuple[str, str], str]:
    return {(info.name, info.distribution): info.state for info in plugins.describe()}


def the(plugins: Plugins, name: str) -> PluginInfo:
    (found,) = [info for info in plugins.describe() if info.name == name]
    return found


def offers(plugins: Plugins) -> list[tuple[str, str]]:
    return [(one.stage.name, one.distribution) for one in registered_stages(plugins)]


# ---- found


def test_a_plugin_is_listed_with_where_it_comes_from(places: Places) -> None:
    places.add("early-bird", {STAGES: {"Early": "early_stage"}}, version="3.2")

    assert places.discover().describe() == [
        PluginInfo("Early", "stage", "early-bird", "3.2", f"{__name__}:early_stage", "loaded")
    ]


def test_its_stages_and_adapters_carry_its_distribution(places: Places) -> None:
    places.add(
        "aviary", {STAGES: {"Early": "whole_aviary"}, ADAPTERS: {"canary": "whole_aviary", "finch": "whole_aviary"}}
    )

    plugins = places.discover()

    assert offers(plugins) == [("Early", "aviary")]
    assert [(one.spec.interface, one.distribution, one.version) for one in registered_adapters(plugins)] == [
        ("canary", "aviary", "1.0"),
        ("finch", "aviary", "1.0"),
    ]


def test_one_object_under_several_names_is_registered_once(places: Places) -> None:
    places.add("both", {STAGES: {"Early": "both_stages", "Late": "both_stages"}, OTHERS: {"again": "both_stages"}})

    plugins = places.discover()

    assert states(plugins) == dict.fromkeys([("again", "both"), ("Early", "both"), ("Late", "both")], "loaded")
    assert offers(plugins) == [("Early", "both"), ("Late", "both")]


def test_classes_of_one_name_in_several_packages_do_not_meet(places: Places, tmp_path: Path, monkeypatch: Any) -> None:
    for number, name in enumerate(("canary", "finch")):
        module = f"birds_{number}_of_{tmp_path.name}".replace("-", "_")
        (tmp_path / f"{module}.py").write_text(f"""
from karenina_core import hookimpl
from karenina_core.models.adapters import AdapterSpec
class plugin:
    @staticmethod
    @hookimpl
    def karenina_adapters():
        return [AdapterSpec(interface={name!r}, description="")]
""")
        places.add(name, {ADAPTERS: {name: f"{module}:plugin"}})
    monkeypatch.syspath_prepend(tmp_path)

    assert set(states(places.discover()).values()) == {"loaded"}


def test_the_loader_takes_no_entry_point_from_a_cache(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    places.add("early-bird", {STAGES: {"Early": "early_stage"}})
    (point,) = places.found()
    monkeypatch.setitem(ExtensionManager.ENTRY_POINT_CACHE, STAGES, [EntryPoint("Early", ABSENT, STAGES), point])

    assert offers(places.discover()) == [("Early", "early-bird")]


@settings(max_examples=30)
@given(data=st.data())
def test_the_order_of_discovery_has_no_effect(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    places = Places(tmp_path_factory.mktemp("places"))
    places.add("both", {STAGES: {"Early": "both_stages", "Late": "both_stages"}})
    places.add("early-bird", {STAGES: {"Early": "early_stage"}})
    places.add("broken", {STAGES: {"Gone": ABSENT}, ADAPTERS: {"gone": ABSENT}})
    places.add("aviary", {ADAPTERS: {"canary": "whole_aviary", "finch": "whole_aviary"}})
    places.add("canary", {ADAPTERS: {"canary": "canary"}})
    found = places.found()
    usual = Plugins.discover(Selection(), found)

    shuffled = Plugins.discover(Selection(), data.draw(st.permutations(found)))

    assert shuffled.describe() == usual.describe()
    assert registered_stages(shuffled) == registered_stages(usual)
    assert [(one.spec.interface, one.distribution) for one in registered_adapters(shuffled)] == [("finch", "aviary")]


# ---- chosen


@pytest.mark.parametrize(
    ("table", "variable", "loaded"),
    [
        ({}, "", {"Early", "Late", "canary"}),
        ({"block": ["Early"]}, "", {"Late", "canary"}),
        ({"block": ["early-bird", "canary"]}, "", {"Late"}),
        ({"only": ["late-bird"]}, "", {"Late"}),
        ({"only": ["late-bird", "Early"]}, "", {"Early", "Late"}),
        ({"only": ["late-bird"], "block": ["Late"]}, "", set()),
        ({}, "-Early, -birdcage", {"Late"}),
        ({}, "Late,,canary", {"Late", "canary"}),
        ({"block": ["Early"]}, "-Late", {"canary"}),
        ({"only": ["Late"]}, "canary", {"Late", "canary"}),
    ],
)
def test_the_selection(
    places: Places, monkeypatch: pytest.MonkeyPatch, table: dict[str, Any], variable: str, loaded: set[str]
) -> None:
    places.add("early-bird", {STAGES: {"Early": "early_stage"}})
    places.add("late-bird", {STAGES: {"Late": "late_stage"}})
    places.add("birdcage", {ADAPTERS: {"canary": "canary"}})
    monkeypatch.setenv("KARENINA_PLUGINS", variable)

    found = places.discover(**table).describe()

    assert {info.name for info in found if info.state == "loaded"} == loaded
    assert {info.state for info in found if info.name not in loaded} <= {"blocked"}


def test_what_is_blocked_is_not_imported(places: Places) -> None:
    places.add("broken", {STAGES: {"Early": ABSENT}})

    assert the(places.discover(block=["Early"]), "Early").state == "blocked"


def test_only_leaves_the_core_its_finalizer() -> None:
    plugins = Plugins.discover(Selection.of(only=["nothing-of-this-name"]))

    assert [one.slot for one in registered_stages(plugins)] == [Slot.FINALIZE_RESULT]


def test_blocking_one_name_keeps_the_plugins_other_stages(places: Places) -> None:
    places.add("both", {STAGES: {"Early": "both_stages", "Late": "both_stages"}})

    assert offers(places.discover(block=["Early"])) == [("Late", "both")]


@pytest.mark.parametrize("spelling", ["early_bird", "Early.Bird", "early-bird"])
def test_a_distribution_is_named_in_any_spelling(
    places: Places, spelling: str, caplog: pytest.LogCaptureFixture
) -> None:
    places.add("early_bird", {STAGES: {"Early": "early_stage"}})
    places.add("Other", {STAGES: {"Early": "early_stage"}})

    assert offers(places.discover(block=[spelling])) == [("Early", "other")]
    assert offers(places.discover(only=[spelling])) == [("Early", "early-bird")]
    assert offers(places.discover(pick={"Early": spelling})) == [("Early", "early-bird")]
    assert caplog.messages == []


# ---- two of one name


def test_two_entry_points_of_one_name_are_not_imported(places: Places) -> None:
    places.add("one", {STAGES: {"Early": ABSENT}}, version="1.1")
    places.add("two", {STAGES: {"Early": ABSENT}}, version="2.2")

    found = places.discover().describe()

    assert [info.state for info in found] == ["conflict", "conflict"]
    assert found[0].failure == (
        "two distributions offer the stage Early (one 1.1 and two 2.2); choose one in the configuration with "
        '[plugins.pick] Early = "one"'
    )


def test_the_picked_one_stands(places: Places) -> None:
    places.add("one", {STAGES: {"Early": "early_stage"}})
    places.add("two", {STAGES: {"Early": "both_stages", "Late": "both_stages"}})

    plugins = places.discover(pick={"Early": "one"})

    assert offers(plugins) == [("Early", "one"), ("Late", "two")]
    assert states(plugins)["Early", "two"] == "blocked"


def test_blocking_one_of_two_is_a_choice_too(places: Places) -> None:
    places.add("one", {STAGES: {"Early": "early_stage"}})
    places.add("two", {STAGES: {"Early": ABSENT}})

    assert offers(places.discover(block=["two"])) == [("Early", "one")]


def test_picking_who_does_not_offer_it_loses_nothing_in_silence(places: Places) -> None:
    places.add("one", {STAGES: {"Early": "early_stage"}})
    places.add("two", {STAGES: {"Early": "early_stage"}})

    plugins = places.discover(pick={"Early": "onne"})

    assert the_plan_says(plugins) == (
        "[plugins.pick] Early names 'onne', which does not offer this stage; choose one that does: one, two"
    )


def test_conflicting_stages_prevent_the_plan_but_are_listed(places: Places) -> None:
    places.add("one", {STAGES: {"Early": "early_stage"}})
    places.add("two", {STAGES: {"Early": "early_stage"}})

    assert "one 1.0 and two 1.0" in the_plan_says(places.discover())


def the_plan_says(plugins: Plugins) -> str:
    """Return the problem of a plan with `plugins`, ignoring empty slots."""
    with plugin_room.use_plugins(plugins), pytest.raises(PlanError) as caught:
        Planner(VerificationConfig(), plugins).plan(Question(question="Which?"))
    (problem,) = [problem for problem in caught.value.problems if not problem.startswith("slot ")]
    return problem


# ---- broken


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (ABSENT, "No module named 'a_module_that_nobody_has'"),
        ("no_object_of_this_name", "no_object_of_this_name"),
        ("from_tomorrow", "version 2 of the plugin interface, but this core has version 1"),
        ("misspelt", "unknown hook 'karenina_extra_stage'; did you mean 'karenina_extra_stages'?"),
        ("unmarked", "karenina_extra_stages is not marked with @hookimpl, so it has no effect"),
        ("early_stage()", "does not have the form 'package.module:object'"),
        ("Early", "implements no hook; name an object with functions marked with @hookimpl"),
        ("specified", "karenina_extra_stages is not marked with @hookimpl, so it has no effect"),
        (
            "awaited",
            "karenina_extra_stages is never awaited; write def karenina_extra_stages(...), without async",
        ),
        (
            "in_the_wrong_slot",
            "Early is offered through karenina_parse_template, but declares slot = None; use karenina_extra_stages",
        ),
        ("of_another_slot", "but declares for_slot = Slot.PARSE_TEMPLATE; use karenina_parse_template"),
        (
            "in_two_slots",
            "the stage Early is offered twice, again by karenina_extra_stages; offer it only once",
        ),
        ("wrapping", "karenina_extra_stages is a wrapper, but each plugin is called separately; use plain @hookimpl"),
        ("wrapping_in_the_old_way", "karenina_extra_stages is a wrapper, but each plugin is called separately"),
        ("late_stage", "named 'Early', but test_plugins:late_stage offers Late"),
        ("canary", "offers no stage; name the entry point after the stage that it offers"),
    ],
)
def test_a_broken_plugin_offers_nothing_and_says_why(places: Places, target: str, reason: str) -> None:
    places.add("broken", {STAGES: {"Early": target}})
    places.add("fine", {ADAPTERS: {"canary": "whole_aviary"}})

    plugins = places.discover()

    assert the(plugins, "Early").state == "failed"
    assert reason in (the(plugins, "Early").failure or "")
    assert "broken" not in {owner for _, owner in offers(plugins)}
    assert find_adapter(plugins, "canary").distribution == "fine"


@pytest.mark.parametrize(
    ("target", "slot"),
    [("early_stage", None), ("in_a_slot", Slot.PARSE_TEMPLATE), ("in_its_slot", Slot.PARSE_TEMPLATE)],
)
def test_a_stage_has_the_slot_of_its_hook(places: Places, target: str, slot: Slot | None) -> None:
    places.add("one", {STAGES: {"Early": target}})

    assert [one.slot for one in registered_stages(places.discover())] == [slot]


def test_a_wrong_name_beside_right_ones_takes_nothing_from_them(places: Places) -> None:
    places.add("aviary", {STAGES: {"Early": "whole_aviary"}, ADAPTERS: {"ostrich": "whole_aviary"}})

    plugins = places.discover()

    assert states(plugins) == {("Early", "aviary"): "loaded", ("ostrich", "aviary"): "failed"}
    assert offers(plugins) == [("Early", "aviary")]


# ---- asked for


def test_an_adapter_that_nobody_offers_brings_the_nearest_name(places: Places) -> None:
    places.add("aviary", {ADAPTERS: {"canary": "canary"}})

    with pytest.raises(PluginError, match=r"no adapter 'canari'.*canary"):
        find_adapter(places.discover(), "canari")


def test_an_adapter_that_cannot_be_loaded_brings_its_reason(places: Places) -> None:
    places.add("aviary", {ADAPTERS: {"canary": ABSENT}}, version="7.0")

    with pytest.raises(PluginError, match=r"'canary' cannot be used: aviary 7\.0: ModuleNotFoundError"):
        find_adapter(places.discover(), "canary")


def test_conflicting_adapters_name_the_line_that_picks_one(places: Places) -> None:
    places.add("one", {ADAPTERS: {"canary": "canary"}})
    places.add("two", {ADAPTERS: {"canary": "canary"}})

    with pytest.raises(PluginError, match=r'\(one 1.0 and two 1.0\); choose one .*\[plugins.pick\] canary = "one"'):
        find_adapter(places.discover(), "canary")


# ---- registered by hand


def test_a_plugin_can_be_registered_by_hand() -> None:
    plugins = Plugins()
    plugins.register(early_stage, distribution="my-notebook", version="2")

    assert [(one.stage, one.distribution, one.version) for one in registered_stages(plugins)] == [
        (Early, "my-notebook", "2")
    ]


def test_what_is_offered_is_asked_again_after_a_registration() -> None:
    plugins = Plugins()
    assert registered_stages(plugins) == ()

    plugins.register(early_stage)

    assert offers(plugins) == [("Early", "this-program")]


@pytest.mark.parametrize(
    "offered", [None, TasteSettings, {TasteSettings}, [3], [TasteSettings()], [Early], [TasteSettings, "more"]]
)
def test_a_hook_that_offers_something_else_is_left_out_with_the_reason(offered: Any) -> None:
    plugins = Plugins()
    plugins.register(offering(karenina_settings=offered), distribution="broken")
    plugins.register(offering(karenina_settings=[TasteSettings]), distribution="fine")

    with plugin_room.use_plugins(plugins):
        assert VerificationConfig(taste=3).taste == 3
    (failed,) = [info for info in plugins.describe() if info.state == "failed"]
    assert failed.distribution == "broken"
    assert failed.failure == f"TypeError: karenina_settings must return list[type[BaseModel]], not {offered!r:.80}"


class Perch(Protocol):
    material: ClassVar[str]

    @property
    def length(self) -> float:
        """The length in centimetres."""

    def hold(self, weight: float) -> bool:
        """Return whether the perch holds the weight."""


class Branch:
    material = "wood"

    @property
    def length(self) -> float:
        raise OSError("there is no ruler")

    def hold(self, weight: float) -> bool:
        return True


class Wire:
    length = 30.0

    def hold(self, weight: float) -> bool:
        return True


@pytest.mark.parametrize("offered", [None, Early, {Early}])
def test_stages_must_be_offered_in_a_list(offered: Any) -> None:
    with pytest.raises(PluginError, match=r"karenina_extra_stages must return list\[type\[Stage\]\], not ") as caught:
        Plugins().register(offering(karenina_extra_stages=offered))

    assert str(caught.value).endswith(f"{offered!r:.80}")


def test_a_hook_offers_classes_as_functions() -> None:
    plugins = Plugins()
    plugins.register(offering(karenina_settings=[Branch, len]))

    assert plugins.call(karenina_settings, Callable) == [Branch, len]


def test_a_protocols_properties_are_not_evaluated() -> None:
    plugins, branch = Plugins(), Branch()
    plugins.register(offering(karenina_settings=[branch]))

    assert plugins.call(karenina_settings, Perch) == [branch]


def test_a_missing_member_of_a_protocol_is_named() -> None:
    plugins = Plugins()
    plugins.register(offering(karenina_settings=[Wire()]))

    assert plugins.call(karenina_settings, Perch) == []
    (info,) = plugins.describe()
    assert info.failure is not None
    assert info.failure.endswith(", which has no material")


def test_a_plugins_properties_are_not_evaluated() -> None:
    class Aviary:
        @property
        def bird(self) -> str:
            raise OSError("it has flown away")

        @hookimpl
        def karenina_settings(self) -> list[type[BaseModel]]:
            return [TasteSettings]

    plugins = Plugins()
    plugins.register(Aviary())

    assert plugins.call(karenina_settings) == [TasteSettings]


@pytest.fixture
def _nothing_remembered() -> Iterator[None]:
    """Forget the installed plugins before and after the test."""
    for remembered in (installed, third_parties):
        remembered.cache_clear()
    yield
    for remembered in (installed, third_parties):
        remembered.cache_clear()


@pytest.mark.usefixtures("_nothing_remembered")
def test_an_error_has_its_place_in_a_third_partys_module(places: Places, tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "their_adapter.py").write_text("def fail():\n    raise ValueError('boom')\n")
    places.add("their-adapter", {ADAPTERS: {"their_adapter.chat": "their_adapter:plugin"}})
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(ValueError, match="boom") as caught:
        import_module("their_adapter").fail()
    assert describe_error(caught.value, Early()) == "ValueError: boom (their_adapter.py:2)"


@pytest.mark.usefixtures("_nothing_remembered")
def test_settings_that_no_plugin_offers_are_warned_about(
    places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "their_settings.py").write_text(
        "import pydantic\n\nclass Size(pydantic.BaseModel):\n    size: int = 3\n"
    )
    places.add("their-settings", {OTHERS: {"theirs": "their_settings:plugin"}})
    monkeypatch.syspath_prepend(tmp_path)
    size, plugins = import_module("their_settings").Size, Plugins()

    with plugin_room.use_plugins(plugins):
        assert VerificationConfig().section(size).size == 3
        assert caplog.messages == [
            "their_settings.Size has its default values: no plugin in use declares it with karenina_settings"
        ]
        plugins.register(offering(karenina_settings=[size]))
        caplog.clear()
        assert VerificationConfig().section(size).size == 3
        assert caplog.messages == []


def test_registering_twice_offers_once() -> None:
    plugins = Plugins()
    plugins.register(early_stage)
    plugins.register(early_stage)

    assert offers(plugins) == [("Early", "this-program")]


@pytest.mark.parametrize(
    ("plugin", "reason"),
    [(misspelt, "unknown hook 'karenina_extra_stage'"), (from_tomorrow, "version 2 of the plugin interface")],
)
def test_what_does_not_fit_cannot_be_registered(plugin: object, reason: str) -> None:
    plugins = Plugins()

    with pytest.raises(PluginError, match=reason):
        plugins.register(plugin)

    plugins.register(early_stage)
    assert offers(plugins) == [("Early", "this-program")]


def test_registered_adapters_of_one_name_conflict_when_used() -> None:
    plugins = Plugins()
    plugins.register(canary, distribution="one")
    plugins.register(whole_aviary, distribution="two")

    with pytest.raises(PluginError, match="one 0 and two 0"):
        find_adapter(plugins, "canary")
    assert find_adapter(plugins, "finch").distribution == "two"


def test_chosen_plugins_hold_within_their_block_only() -> None:
    mine = Plugins()
    with plugin_room.use_plugins(mine):
        assert plugin_room.active_plugins() is mine
    assert plugin_room.active_plugins() is not mine


# ---- the specifications


SPECIFIES = """
from karenina_core.hooks import hookspec
@hookspec
def aviary_songs():
    \"\"\"Offer songs.\"\"\"
@hookspec
def aviary_call(hour):
    \"\"\"Offer what is sung at an hour.\"\"\"
"""


class Modules:
    """Modules of hook specifications in a folder, each named by an entry point of a distribution of its own."""

    def __init__(self, places: Places, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._places, self._folder = places, folder
        monkeypatch.syspath_prepend(folder)

    def add(self, distribution: str, source: str) -> ModuleType | None:
        """Write and install a module, and return it if it can be imported."""
        name = f"{distribution}_of_{self._folder.name}".replace("-", "_")
        (self._folder / f"{name}.py").write_text(source)
        self._places.add(distribution, {HOOKSPECS: {distribution: name}})
        return import_module(name) if source.startswith("\nfrom") else None


@pytest.fixture
def modules(places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Modules:
    return Modules(places, tmp_path, monkeypatch)


class singer:
    @staticmethod
    @hookimpl
    def aviary_songs() -> list[str]:
        return ["a song"]

    @staticmethod
    @hookimpl
    def aviary_call(hour: int) -> str:
        return f"a call at {hour}"


def test_a_hook_of_another_distribution_is_specified_and_called(places: Places, modules: Modules) -> None:
    owner = modules.add("aviary", SPECIFIES)
    places.add("singer", {OTHERS: {"singer": "singer"}}, version="2.0")
    assert owner is not None

    plugins = places.discover()

    assert states(plugins) == {("singer", "singer"): "loaded"}
    assert plugins.call(owner.aviary_songs) == ["a song"]
    assert [(one.value, one.distribution, one.version) for one in plugins.offers(owner.aviary_songs)] == [
        ("a song", "singer", "2.0")
    ]
    assert [one.value for one in plugins.each(owner.aviary_call, hour=5)] == ["a call at 5"]
    assert Hook("aviary_songs", "aviary", "1.0", "Offer songs.") in specified_hooks(plugins)


def test_an_implementation_that_does_not_fit_the_specification_is_refused(places: Places, modules: Modules) -> None:
    modules.add("aviary", SPECIFIES.replace("hour", "minute"))
    places.add("singer", {OTHERS: {"singer": "singer"}})

    assert "hour" in (the(places.discover(), "singer").failure or "")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import a_module_that_nobody_has", "No module named 'a_module_that_nobody_has'"),
        ("raise SystemExit('no')", "no"),
        ("karenina_api = 2" + SPECIFIES, "version 2 of the plugin interface, but this core has version 1"),
        ("", "does not specify any hooks"),
    ],
)
def test_broken_specifications_are_listed_like_a_broken_plugin(
    places: Places, modules: Modules, source: str, reason: str
) -> None:
    modules.add("aviary", source)
    places.add("early-bird", {STAGES: {"Early": "early_stage"}})

    plugins = places.discover()

    assert (the(plugins, "aviary").kind, the(plugins, "aviary").state) == ("hooks", "failed")
    assert reason in (the(plugins, "aviary").failure or "")
    assert offers(plugins) == [("Early", "early-bird")]


def test_a_hook_with_two_owners_is_a_conflict(places: Places, modules: Modules) -> None:
    owner = modules.add("aviary", SPECIFIES)
    modules.add("birdcage", SPECIFIES)
    assert owner is not None

    plugins = places.discover()

    assert states(plugins) == {("aviary", "aviary"): "conflict", ("birdcage", "birdcage"): "conflict"}
    assert the(plugins, "aviary").failure == (
        "two distributions specify the hook aviary_songs (aviary 1.0 and birdcage 1.0); block one of them with "
        '[plugins] block = ["birdcage"]'
    )
    with pytest.raises(PluginError, match="aviary_songs cannot be used"):
        plugins.call(owner.aviary_songs)
    assert places.discover(block=["birdcage"]).call(owner.aviary_songs) == []


def test_a_hook_of_the_core_is_not_taken_over(places: Places, modules: Modules) -> None:
    modules.add("aviary", SPECIFIES.replace("aviary_songs()", "karenina_extra_stages()"))
    places.add("early-bird", {STAGES: {"Early": "early_stage"}})

    plugins = places.discover()

    assert states(plugins) == {("aviary", "aviary"): "conflict", ("Early", "early-bird"): "loaded"}
    assert offers(plugins) == [("Early", "early-bird")]


def test_only_leaves_out_plugins_and_no_specifications(places: Places, modules: Modules) -> None:
    owner = modules.add("aviary", SPECIFIES)
    places.add("singer", {OTHERS: {"singer": "singer"}})
    assert owner is not None

    assert places.discover(only=["singer"]).call(owner.aviary_songs) == ["a song"]


def test_an_owner_indexes_what_was_offered(places: Places, modules: Modules) -> None:
    owner = modules.add(
        "aviary", SPECIFIES + "known = []\ndef offered(plugins):\n    known[:] = plugins.call(aviary_songs)\n"
    )
    places.add("singer", {OTHERS: {"singer": "singer"}})
    assert owner is not None

    plugins = places.discover()
    assert owner.known == ["a song"]
    plugins.register(type("Another", (singer,), {}))
    assert owner.known == ["a song"] * 2


def test_an_owner_whose_offered_fails_is_listed(places: Places, modules: Modules) -> None:
    modules.add("aviary", SPECIFIES + "def offered(plugins):\n    raise LookupError('out of tune')\n")

    plugins = places.discover()

    assert the(plugins, "aviary").state == "failed"
    assert "LookupError: out of tune" in (the(plugins, "aviary").failure or "")


def test_an_implementation_with_a_missing_owner_is_ignored() -> None:
    core = [point for point in entry_points(group=HOOKSPECS) if point.dist and point.dist.name == "karenina-core"]
    plugins = Plugins(Specifications.load(core, Selection()))
    plugins.register(offering(karenina_extra_stages=[Early], karenina_search_tools=[]))

    (info,) = plugins.describe()
    assert (info.state, offers(plugins)) == ("loaded", [("Early", "this-program")])
    (reason,) = info.ignored
    assert reason.startswith("karenina_search_tools is ignored: karenina-deep-judgment is ")
    listed = run_karenina("plugins", plugins=plugins, width=40).out
    assert f"plugin: {reason}\n" in listed


def test_a_hook_that_is_not_specified_is_not_called() -> None:
    from karenina_engine.run.hookspecs import karenina_executors

    plugins = Plugins(Specifications.load([], Selection()))

    with pytest.raises(PluginError, match="the hook karenina_executors cannot be used: karenina-engine is"):
        plugins.call(karenina_executors)


def test_there_is_one_hook_for_each_slot() -> None:
    assert len(Slot) == 13
    assert [slot.hook for slot in Slot if not hasattr(hookspecs, slot.hook)] == []


def test_a_selection_that_names_no_installed_plugin_is_warned_about(
    places: Places, caplog: pytest.LogCaptureFixture
) -> None:
    places.add("pack-a", {STAGES: {"Early": "early_stage"}})
    with caplog.at_level("WARNING", "karenina"):
        places.discover(block=["Erly", "pack-a"])
    assert [record.getMessage() for record in caplog.records] == [
        "the plugin selection contains 'Erly', but no installed plugin has that name; did you mean 'Early'?"
    ]
