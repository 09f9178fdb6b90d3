"""What users write for checks, and the reports and patches that checks read."""

from __future__ import annotations

import asyncio
import difflib
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from karenina_core.errors import ConfigError
from karenina_core.hooks import hookimpl
from karenina_core.plugins import Plugins
from karenina_sandbox.diffs.applying import apply_diff
from karenina_sandbox.diffs.reading import DiffError
from karenina_sandbox.fields import Check, CheckFields
from karenina_sandbox.junit import BadReport, nearest_names, plain_test_name, read_junit, spelled_as
from karenina_sandbox.limits.command_limiter import CommandLimiter
from karenina_sandbox.sandbox import SandboxProvider
from karenina_sandbox.settings import find_provider


@pytest.mark.parametrize(
    ("check", "problem"),
    [
        ({"run": []}, "at least 1 item"),
        ({"run": [""]}, "empty command"),
        ({"run": "pytest -q"}, "write the command as a list of words"),
        ({"run": ["pytest"], "report": "junit"}, "{report}"),
        ({"run": ["pytest", "{report}"]}, "{report}"),
        ({"run": ["make"], "passing_before": ["a::b"]}, "needs `report: junit`"),
        ({"run": ["make"], "add": "../tests"}, "relative to the workspace root"),
        ({"run": ["make"], "restore": ["/etc"]}, "relative to the workspace"),
        ({"run": ["make"], "timeout": 0}, "greater than 0"),
        ({"run": ["make"], "time_out": 5}, "timeout"),
    ],
)
def test_a_check_that_cannot_work_is_refused(check: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Check.model_validate(check)
    assert problem in str(refused.value)


@pytest.mark.parametrize("name", ["", "a b", "a.b", "1", "a*"])
def test_a_name_that_no_known_value_can_have_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="of a check must consist of"):
        CheckFields.model_validate({"checks": {name: {"run": ["make"]}}})


def report(*cases: str) -> bytes:
    return f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>".encode()


def test_tests_are_listed_by_their_worst_outcome() -> None:
    found = read_junit(
        report(
            '<testcase classname="t" name="a"/>',
            '<testcase classname="t" name="b"><failure message="m">text</failure></testcase>',
            '<testcase classname="t" name="c"><skipped/></testcase>',
            '<testcase classname="t" name="d"><error/></testcase>',
            '<testcase classname="t" name="a"><error>the teardown failed</error></testcase>',
            '<testcase name="e"><system-out>ok</system-out></testcase>',
        )
    )

    assert (found.passed, found.failed) == (["::e"], ["t::b"])
    assert (found.errors, found.skipped) == (["t::a", "t::d"], ["t::c"])


@pytest.mark.parametrize(
    ("attributes", "outcome"),
    [
        ('status="run" result="completed"', "passed"),
        ('status="PASSED"', "passed"),
        ('status="notrun" result="suppressed"', "skipped"),
        ('status="run" result="skipped"', "skipped"),
        ('status="disabled"', "skipped"),
        ('status="Not Run"', "skipped"),
        ('status="fail"', "failed"),
        ('status="failed"', "failed"),
        ('status="error"', "errors"),
        ('status="TIMED_OUT"', "errors"),
        ('status="timedOut"', "errors"),
        ('status="in_progress"', "errors"),
        ('status="run" result="interrupted"', "errors"),
        ('status="notrun" result="filtered"', "skipped"),
        ('result="NotExecuted"', "skipped"),
    ],
)
def test_attributes_of_tests_state_that_they_did_not_pass(attributes: str, outcome: str) -> None:
    found = read_junit(report(f'<testcase classname="t" name="a" {attributes}/>'))
    assert getattr(found, outcome) == found.names() == ["t::a"]


def test_no_test_of_a_suite_that_failed_has_passed() -> None:
    suites = '<testsuite errors="1"><testcase name="a"/><error/></testsuite><testsuite><testcase name="b"/></testsuite>'
    found = read_junit(report(suites, '<testcase name="c"><flakyFailure/></testcase>'))
    assert (found.passed, found.errors) == (["::b", "::c"], ["::a"])


def test_failures_that_a_report_counts_are_there() -> None:
    two = '<testcase name="a"><failure/><error/></testcase>'
    assert read_junit(f'<testsuite failures="1" errors="1">{two}</testsuite>'.encode()).errors == ["::a"]
    for suite in ('<testsuite failures="3"', '<testsuite errors="1" failures="2"'):
        with pytest.raises(
            BadReport, match="contradicts itself: a suite counts 3 failures and errors, but contains only 2"
        ):
            read_junit(f"<testsuites>{suite}>{two}</testsuite></testsuites>".encode())


@pytest.mark.parametrize(
    "content",
    [
        b"",
        report('<testcase name="a"><system-out>\x1b[31m</system-out></testcase>'),
        b'<testsuites failures="1"><testsuite><testcase name="a"/></testsuite></testsuites>',
        b"<html/>",
        report('<testcase classname="t" name="a"/>')[:-14],
        b'<!DOCTYPE x [<!ENTITY a "b">]><testsuites>&a;</testsuites>',
        b'<!DOCTYPE x SYSTEM "file:///etc/passwd"><testsuites/>',
        b"<testsuites>" + b"<a>" * 1000,
        b"\xff\xfe\x00",
        b"<testsuites>" + b'<testcase name="a"/>' * 200_002 + b"</testsuites>",
        b" " * 20_000_001,
    ],
)
def test_a_report_that_is_broken_or_hostile_is_none(content: bytes) -> None:
    with pytest.raises(BadReport):
        read_junit(content)


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("tests/test_sum.py::test_total", "tests.test_sum::test_total"),
        (
            "tests/test_sum.py::TestSum::TestInner::test_total[a::b]",
            "tests.test_sum.TestSum.TestInner::test_total[a::b]",
        ),
        ("test_sum.py::test_path[a/b.py]", "test_sum::test_path[a/b.py]"),
        ("tests.test_sum::test_total", "tests.test_sum::test_total"),
        ("test_total (app.tests.Case)", "test_total (app.tests.Case)"),
    ],
)
def test_ids_of_pytest_are_read_by_one_rule(name: str, plain: str) -> None:
    assert plain_test_name(name) == plain
    assert plain_test_name(plain) == plain
    assert spelled_as([plain], [name]) == [name]


def test_the_nearest_names_are_found() -> None:
    assert nearest_names("tests/test_a.py::test_totl", ["tests.test_a::test_total", "x::y"]) == [
        "tests.test_a::test_total"
    ]


LINES = st.lists(st.sampled_from(["a\n", "b\n", "c d\n", "\n", "\t+\n", "--- x\n", "@@\n"]), max_size=12)


@given(LINES, LINES, st.booleans(), st.booleans())
def test_a_diff_makes_the_new_file_of_the_old(old: list[str], new: list[str], cut_old: bool, cut_new: bool) -> None:
    before, after = "".join(old), "".join(new)
    before, after = (text[:-1] if cut else text for text, cut in ((before, cut_old), (after, cut_new)))
    lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True), "a/f", "b/f")
    diff = "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        (folder / "f").write_bytes(before.encode())
        apply_diff(diff.encode(), folder)
        assert (folder / "f").read_bytes() == after.encode()


GIT = """diff --git a/new.sh b/new.sh
new file mode 100755
--- /dev/null
+++ b/new.sh
@@ -0,0 +1 @@
+echo hello
diff --git a/old.py b/old.py
deleted file mode 100644
--- a/old.py
+++ /dev/null
@@ -1 +0,0 @@
-pass
diff --git a/here.txt b/sub/there.txt
similarity index 100%
rename from here.txt
rename to sub/there.txt
diff --git a/empty b/empty
new file mode 100644
index 000..e69
"""


def test_files_are_made_removed_and_renamed(tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text("pass\n")
    (tmp_path / "here.txt").write_text("text\n")

    apply_diff(GIT.encode(), tmp_path)

    files = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert files == {"new.sh", "sub/there.txt", "empty"}
    assert (tmp_path / "new.sh").stat().st_mode & 0o777 == 0o755


BINARY = """\
diff --git a/new.gif b/new.gif
new file mode 100644
index 0000000000000000000000000000000000000000..9986758bdaf7ec02106957f3bfd47490faa45689
GIT binary patch
literal 10
RcmZ?wbhEHbWXMY`2LKM=0`mX>

literal 0
HcmV?d00001

diff --git a/old.png b/old.png
index c889de194ce5bf1af5075b4acf932077c1f22638..df2a3f21583a95335560072020ecf526e12aa0ae 100644
GIT binary patch
literal 98
zcmeAS@N?(olHy`uWMXDvWn<^y<l^Sx<>MC+6cQE@6%&_`l#-T_m6KOcR8m$^Ra4i{
z)Y8_`)zddHG%_|ZH8Z!cw6eCbwX=6{baHlab#wRd^z!!c_45x13<?ej4GWKm1OR%r
B5l;XB

literal 11
ScmeAS@N?(olH$tGNdW*6&I0KG

"""


def test_binary_files_in_a_diff_of_git_are_written(tmp_path: Path) -> None:
    (tmp_path / "old.png").write_bytes(b"\x89PNG\r\n\x1a\nold")

    apply_diff(BINARY.encode(), tmp_path)

    assert (tmp_path / "new.gif").read_bytes() == b"GIF89a\0new"
    assert (tmp_path / "old.png").read_bytes() == b"\x89PNG\r\n\x1a\n" + bytes(range(90))


@pytest.mark.parametrize(
    ("diff", "problem"),
    [
        ("Please change it.", "not a unified diff"),
        ("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-other\n+new\n", "does not apply"),
        ("--- a/f\n+++ b/f\n@@ -1,3 +1 @@\n-a\n", "cut off"),
        ("--- a/../out\n+++ b/../out\n@@ -1 +1 @@\n-a\n+b\n", "outside the folder"),
        ("--- /dev/null\n+++ /etc/x\n@@ -0,0 +1 @@\n+b\n", "outside the folder"),
        ("--- a/link/secret\n+++ b/link/secret\n@@ -1 +1 @@\n-s\n+t\n", "cannot be read"),
        ("--- /dev/null\n+++ b/link/new\n@@ -0,0 +1 @@\n+b\n", "cannot be applied"),
        ("diff --git a/b b/b\nGIT binary patch\nliteral 3\n", "damaged"),
        ("diff --git a/b b/b\nGIT binary patch\nliteral 10\nJcmZ?wbhEHbWX\n\n", "damaged"),
        ("diff --git a/b b/b\nGIT binary patch\nliteral 99999999\nRcmZ?wbhEHbWXMY`2LKM=0`mX>\n\n", "larger than"),
        ("diff --git a/b b/f\nnew file mode 100644\nrename from f\nrename to ../f\n", "outside the folder"),
        ("diff --git a/f b/f\nGIT binary patch\ndelta 10\nRcmZ?wbhEHbWXMY`2LKM=0`mX>\n\n", "does not apply"),
        ("diff --git a/b b/b\nBinary files a/b and b/b differ\n", "git diff --binary"),
        ("diff --git a/f b/f\nindex 1..2 120000\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+/etc\n", "the link 'f'"),
        ("--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+b\n", "which already exists"),
    ],
)
def test_a_diff_that_does_not_fit_changes_nothing(tmp_path: Path, diff: str, problem: str) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    (outside / "secret").write_text("s\n")
    (folder / "f").write_text("a\n")
    (folder / "link").symlink_to(outside)

    with pytest.raises(DiffError, match=problem):
        apply_diff(diff.encode(), folder)
    assert sorted(path.name for path in folder.iterdir()) == ["f", "link"]
    assert (folder / "f").read_text() == "a\n"
    assert [path.name for path in outside.iterdir()] == ["secret"]


def test_a_command_that_runs_alone_has_no_neighbours() -> None:
    running: list[str] = []
    seen: list[tuple[str, int]] = []

    async def run(limiter: CommandLimiter, name: str, *, alone: bool) -> None:
        async with limiter.slot(alone=alone):
            running.append(name)
            seen.append((name, len(running)))
            await asyncio.sleep(0.01)
            running.remove(name)

    async def run_all() -> None:
        limiter = CommandLimiter(2)
        jobs = [run(limiter, str(number), alone=number == 3) for number in range(8)]
        await asyncio.gather(*jobs)

    asyncio.run(run_all())
    assert max(count for _, count in seen) == 2
    assert dict(seen)["3"] == 1


def test_sandboxes_are_offered_by_name() -> None:
    class Elsewhere(SandboxProvider):
        name = "elsewhere"
        needs_image = False

    class Offers:
        @hookimpl
        def karenina_sandboxes(self) -> list[Elsewhere]:
            return [Elsewhere()]

    plugins = Plugins()
    plugins.register(Offers())
    assert isinstance(find_provider(plugins, "elsewhere"), Elsewhere)
    with pytest.raises(ConfigError, match="did you mean 'elsewhere'"):
        find_provider(plugins, "elsewere")
