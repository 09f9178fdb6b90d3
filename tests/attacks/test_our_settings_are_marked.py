"""Every shipped setting, model field, trait parameter and primitive parameter states which values benchmarks may set.

A class may mark all fields that it declares itself; a field of a class without a mark is restricted, and fails here.
"""

from __future__ import annotations

from karenina.templates import known_primitives
from karenina_core import plugins
from karenina_core.config import all_settings
from karenina_core.data.rubrics import trait_kinds
from karenina_core.models.model import ModelConfig
from karenina_core.stages.stage import registered_stages
from karenina_testing.contracts import SettingsContract
from karenina_toolkit.plugin_lookup import registered_adapters

_PLUGINS = plugins.active_plugins()


class TestSettings(SettingsContract):
    models = sorted({setting.model for setting in all_settings().values()}, key=lambda model: model.__name__)


class TestModels(SettingsContract):
    models = [
        ModelConfig,
        *(offered.spec.extra for offered in registered_adapters(_PLUGINS) if offered.spec.extra is not None),
    ]


class TestTraits(SettingsContract):
    owned = {offered.stage.trait_settings for offered in registered_stages(_PLUGINS)}
    models = [*trait_kinds().values(), *(model for model in owned if model is not None)]


class TestPrimitives(SettingsContract):
    models = list(known_primitives().values())


def test_each_adapter_says_whether_a_benchmark_may_choose_it() -> None:
    assert [one.spec.interface for one in registered_adapters(_PLUGINS) if one.spec.allowed_in_files is None] == []
