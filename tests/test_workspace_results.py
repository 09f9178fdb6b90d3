"""A continued run reuses results of workspaces unless a file has changed."""

from __future__ import annotations

from pathlib import Path

from karenina import ModelConfig, Question, VerificationConfig
from karenina_core import plugins as plugin_room
from karenina_core.data.trust import Trust
from karenina_engine.check.planner import Planner
from karenina_engine.journal.fingerprint import Fingerprints


def test_a_result_is_invalid_after_its_files_changed(tmp_path: Path) -> None:
    question, plugins = Question(question="Which?", workspace_path="one"), plugin_room.active_plugins()
    model = ModelConfig(id="m", interface="openai", model_name="m", endpoint_base_url="http://localhost:1/v1")
    config = VerificationConfig(agentic_parsing=True, workspace_root=tmp_path)
    plan = Planner(config, plugins).plan(question)

    def fingerprint(content: str) -> bytes:
        (tmp_path / "one").mkdir(exist_ok=True)
        (tmp_path / "one/table.csv").write_text(content)
        return Fingerprints(config, plugins, Trust()).compute(question, plan, model, model)

    assert fingerprint("1") == fingerprint("1") != fingerprint("2")
