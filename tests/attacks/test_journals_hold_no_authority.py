"""A journal holds replies and results, never authority.

Whatever a journal states of its run (code to trust, folders, files, models, settings), `resume`, `rescore`, `status`,
`export` and `show` start nothing, open nothing, overwrite nothing and send no key because of it. `resume` goes by the
command that the user gave, which lies in a folder that only that user can write. A secret in a URL is stored nowhere.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers import RecordingServer, recording_server
from users import User, delete_results, edit_command, genes, reply

from karenina import VerificationResultSet
from karenina_engine.journal.schema import with_digest
from karenina_engine.journal.view import JournalView
from karenina_testing.server import Reply

KEY = "sk-the-users-own-key-0123456789"
LEFT_OUT = "(left out of the journal: it is or may hold a secret)"


@pytest.fixture
def server() -> Iterator[RecordingServer]:
    with recording_server(reply) as found:
        yield found


@pytest.fixture
def elsewhere() -> Iterator[RecordingServer]:
    """Provide the attacker's server."""
    with recording_server(reply) as found:
        yield found


@pytest.fixture
def victim(tmp_path: Path) -> User:
    return User.at(tmp_path / "victim")


@pytest.fixture
def stranger(tmp_path: Path) -> User:
    return User.at(tmp_path / "stranger")


def ran(person: User, server: RecordingServer, name: str = "genes", text: str | None = None, *more: str) -> Path:
    """Return the journal of a run that the person finished."""
    file = person.write(f"{name}.yaml", text if text is not None else genes())
    model = f"openai:m@{server.url}"
    done = person.karenina("run", file.name, "-a", model, "-j", model, "-o", f"{name}.jsonl", "--quiet", *more)
    assert done.returncode == 0, done.stderr
    server.seen.clear()
    return person.folder / f"{name}.journal"


def with_code(marker: Path) -> str:
    """Return a benchmark whose template leaves a file behind if it runs."""
    return (
        "karenina: 1\nname: Genes\nquestions:\n  - id: first\n    question: Which gene does venetoclax target?\n"
        "    template: |\n      class Answer(BaseAnswer):\n"
        '          gene: str = Field(description="the gene")\n'
        "          def verify(self):\n"
        f'              open({str(marker)!r}, "w").close()\n'
        "              return True\n"
    )


# ---- item 2: trust


@pytest.mark.parametrize("command", ["resume", "rescore"])
def test_trust_in_a_journal_runs_no_code(
    victim: User, stranger: User, server: RecordingServer, tmp_path: Path, command: str
) -> None:
    """Attack: send a journal of a run that trusted everything, with its benchmark in the named place."""
    marker = tmp_path / "ran"
    journal = ran(stranger, server, "code", with_code(marker), "--trust-all")
    assert marker.exists()
    marker.unlink()
    if command == "resume":
        delete_results(journal)
    with edit_command(journal) as told:
        assert told["trust_all"] is True
    done = victim.karenina(command, journal)

    assert done.returncode == 2, done.stderr
    assert f"karenina {'run' if command == 'resume' else 'rescore'} " in done.stderr
    assert not marker.exists()
    assert server.seen == []


def test_a_rescored_benchmark_is_not_trusted_by_its_journal(
    victim: User, stranger: User, server: RecordingServer, tmp_path: Path
) -> None:
    """Attack: the user names the stranger's benchmark beside the journal, and has not trusted its code."""
    marker = tmp_path / "ran"
    journal = ran(stranger, server, "code", with_code(marker), "--trust-all")
    marker.unlink()
    done = victim.karenina("rescore", journal, stranger.folder / "code.yaml")

    assert not marker.exists()
    assert "this code is not trusted, so it was not run" in " ".join(done.stderr.split())


def test_trust_for_a_run_ends_when_the_content_changes(victim: User, server: RecordingServer, tmp_path: Path) -> None:
    """Attack: change the benchmark after its user ran it with --trust-all, and wait for the resume."""
    harmless, hostile = tmp_path / "harmless", tmp_path / "hostile"
    journal = ran(victim, server, "code", with_code(harmless), "--trust-all")
    harmless.unlink()
    delete_results(journal)
    assert victim.karenina("resume", journal).returncode == 0
    assert harmless.exists()
    delete_results(journal)
    victim.write("code.yaml", with_code(hostile))
    done = victim.karenina("resume", journal)

    assert "The run's --trust-all no longer applies because something has changed" in done.stderr
    assert not hostile.exists()


def test_folder_plugins_and_executor_of_a_journal_are_not_used(
    victim: User, stranger: User, server: RecordingServer
) -> None:
    """Attack: name a folder with modules, an executor, plugins, telemetry and recordings in a journal's command."""
    journal = ran(stranger, server)
    (stranger.folder / "sitecustomize.py").write_text("raise SystemExit('code of the folder ran')")
    fifo = stranger.folder / "recordings.jsonl"
    os.mkfifo(fifo)
    with edit_command(journal) as told:
        told["folder"] = str(stranger.folder)
        told["config_file"] = str(fifo)
        told["config"] |= {
            "executor": "ray",
            "ray_address": "127.0.0.1:1",
            "otel": True,
            "plugins": {"block": ["karenina-template"]},
            "workspace_root": "/",
        }
        for model in told["config"]["answering_models"]:
            model |= {"manual_traces": str(fifo), "extra": {"cli_path": "/bin/true"}}
    mine = victim.write("mine.yaml", genes("TP53"))
    done = victim.karenina("rescore", journal, mine, "--json", script=True)

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [one["question_id"] for one in found["flips"]] == ["first"]
    assert "Some settings were not taken from the journal" in done.stderr
    assert victim.karenina("resume", journal, script=True).returncode == 2
    assert server.seen == []


# ---- item 3: files


def test_the_output_of_a_journal_is_not_touched(victim: User, stranger: User, server: RecordingServer) -> None:
    """Attack: name a file of the victim as the output of the run."""
    thesis = victim.write("thesis.txt", "my thesis")
    journal = ran(stranger, server)
    with edit_command(journal) as told:
        told["output"] = str(thesis)
    for command in ("resume", "rescore", "status", "export"):
        victim.karenina(command, journal)

    assert thesis.read_text() == "my thesis"
    assert sorted(path.name for path in victim.folder.iterdir()) == ["thesis.txt"]


def test_a_journal_cannot_make_a_run_replace_a_file(victim: User, server: RecordingServer) -> None:
    """Attack: put a file of the victim at the name of the output, in a journal that says that the same run goes on."""
    journal = ran(victim, server)
    thesis = victim.write("genes.jsonl", "my thesis\n")
    done = victim.karenina("resume", journal, "--quiet")

    assert done.returncode == 2
    assert "is not a result file" in done.stderr
    assert thesis.read_text() == "my thesis\n"


@pytest.mark.parametrize("kind", ["link", "hard link", "results of another run", "half a line"])
def test_what_lies_at_the_output_is_kept(victim: User, server: RecordingServer, kind: str) -> None:
    """Attack: swap the output of a run for a link, a hard link or other results before it goes on."""
    journal, output, thesis = ran(victim, server), victim.folder / "genes.jsonl", victim.folder / "thesis.txt"
    if kind == "results of another run":
        ran(victim, server, "others", genes("TP53"))
        thesis.write_bytes((victim.folder / "others.jsonl").read_bytes())
        shutil.copyfile(thesis, output)
    elif kind == "half a line":
        thesis.write_bytes(output.read_bytes() + b'{"metadata":{"question_id":"my own notes"')
        shutil.copyfile(thesis, output)
    else:
        thesis.write_bytes(output.read_bytes())
        output.unlink()
        output.symlink_to(thesis) if kind == "link" else output.hardlink_to(thesis)
    before = thesis.read_bytes()
    done = victim.karenina("resume", journal, "--quiet")

    assert done.returncode == 0, done.stderr
    assert thesis.read_bytes() == before
    assert (victim.folder / "genes-1.jsonl").read_bytes() == before
    assert not output.is_symlink()
    assert len(VerificationResultSet.load(output)) == 2


def test_an_output_that_became_a_pipe_is_refused(victim: User, server: RecordingServer) -> None:
    """Attack: put a pipe without a reader at the output of a run, so that its resume hangs."""
    journal = ran(victim, server)
    (victim.folder / "genes.jsonl").unlink()
    os.mkfifo(victim.folder / "genes.jsonl")
    done = victim.karenina("resume", journal)

    assert done.returncode == 2
    assert "is a named pipe (FIFO)" in done.stderr


# ---- item 4: keys


def test_an_address_in_a_journal_gets_no_key(
    victim: User, stranger: User, server: RecordingServer, elsewhere: RecordingServer
) -> None:
    """Attack: name the victim's configuration file, and a model with the victim's id at another address."""
    entry = f"{{id: m, interface: openai, model_name: m, endpoint_base_url: '{server.url}', endpoint_api_key: {KEY}}}"
    own = victim.write("karenina.yaml", f"answering_models: [{entry}]\nparsing_models: [{entry}]\n")
    journal = ran(stranger, server)
    delete_results(journal)
    with edit_command(journal) as told:
        told["config_file"] = str(own)
        for role in ("answering_models", "parsing_models"):
            for model in told["config"][role]:
                model |= {"endpoint_base_url": elsewhere.url, "endpoint_api_key": LEFT_OUT}
    database = sqlite3.connect(journal, isolation_level=None)
    database.execute("DELETE FROM replies")
    database.close()
    done = victim.karenina("resume", journal, OPENAI_API_KEY=KEY, KARENINA_RUN_NAME="mine")

    assert done.returncode == 2
    assert elsewhere.seen == []
    assert server.seen == []


def test_a_key_is_used_only_with_its_complete_entry(
    victim: User, server: RecordingServer, elsewhere: RecordingServer
) -> None:
    """Attack: the address of a model in the configuration file differs from that in the stored command."""
    entry = (
        "{{id: m, interface: openai, model_name: m, endpoint_base_url: '{url}', endpoint_api_key: {key}, "
        "extra: {{body: {{plugins: [{{authorization: {key}}}]}}}}}}"
    )
    both = "answering_models: [{0}]\nparsing_models: [{0}]\n"
    victim.write("models.yaml", both.format(entry.format(url=server.url, key=KEY)))
    victim.write("genes.yaml", genes())
    assert victim.karenina("run", "genes.yaml", "-c", "models.yaml", "-o", "genes.jsonl").returncode == 0
    journal = victim.folder / "genes.journal"
    database = sqlite3.connect(journal, isolation_level=None)
    database.execute("DELETE FROM results")
    database.execute("DELETE FROM replies")
    database.close()
    server.seen.clear()
    resumed = victim.karenina("resume", journal, "--quiet")
    assert resumed.returncode == 0, resumed.stderr
    assert server.seen
    assert all(KEY in one for one in server.seen)

    other = "sk-the-key-of-another-entry-9876543210"
    victim.write("models.yaml", both.format(entry.format(url=elsewhere.url, key=other)))
    refused = victim.karenina("resume", journal, "--quiet")
    assert refused.returncode == 2
    assert "endpoint_base_url" in refused.stderr
    assert "karenina run genes.yaml" in refused.stderr
    assert elsewhere.seen == []
    assert b"sk-the" not in b"".join(path.read_bytes() for path in victim.folder.iterdir() if path.suffix != ".yaml")
    assert "sk-the" not in "".join(path.read_text() for path in victim.runs.iterdir())


# ---- the state folder


def own_run(victim: User, server: RecordingServer) -> tuple[Path, Path]:
    """Return a journal of the victim, and the file that holds its command."""
    journal = ran(victim, server)
    (state,) = victim.runs.iterdir()
    return journal, state


def test_the_command_is_stored_for_its_user_alone(victim: User, server: RecordingServer) -> None:
    _, state = own_run(victim, server)

    assert (state.stat().st_mode & 0o777, state.parent.stat().st_mode & 0o777) == (0o600, 0o700)


@pytest.mark.parametrize(
    "flaw", ["link", "hard link", "readable", "open folder", "broken", "no command", "pipe", "another user"]
)
def test_a_state_file_that_others_may_have_written_is_refused(
    victim: User, server: RecordingServer, tmp_path: Path, flaw: str
) -> None:
    """Attack: bring a command into the state folder, or change the one that lies there."""
    journal, state = own_run(victim, server)
    if flaw == "link":
        state.rename(tmp_path / "hostile.json")
        state.symlink_to(tmp_path / "hostile.json")
    elif flaw == "hard link":
        (tmp_path / "other.json").hardlink_to(state)
    elif flaw == "readable":
        state.chmod(0o644)
    elif flaw == "open folder":
        state.parent.chmod(0o777)
    elif flaw == "broken":
        state.write_text('{"version": 1, "journal": ')
    elif flaw == "no command":
        state.write_text(json.dumps({"version": 1, "journal": str(journal), "command": {"output": 7}}))
    elif flaw == "pipe":
        state.unlink()
        os.mkfifo(state, 0o600)
    elif os.geteuid() == 0:
        os.chown(state, 12345, 12345)
    else:  # as an ordinary user one cannot give a file away: the folder of another one does as well
        state.unlink()
        state.parent.rmdir()
        state.parent.symlink_to("/")
    done = victim.karenina("resume", journal)

    assert done.returncode == 2
    assert "state f" in done.stderr
    assert "Traceback" not in done.stderr
    assert "karenina run genes.yaml" in done.stderr


def test_a_copy_of_a_journal_has_no_command(victim: User, server: RecordingServer) -> None:
    """Attack: put a journal with the id of one of the victim's runs at another place."""
    journal, _ = own_run(victim, server)
    copy = victim.folder / "copy.journal"
    shutil.copyfile(journal, copy)

    assert victim.karenina("resume", copy).returncode == 2
    assert victim.karenina("resume", journal).returncode == 0


def test_a_link_in_place_of_a_journal_has_no_command(victim: User, stranger: User, server: RecordingServer) -> None:
    """Attack: swap the journal for a link to a journal of one's own that has the same id."""
    journal, _ = own_run(victim, server)
    hostile = stranger.folder / "hostile.journal"
    shutil.copyfile(journal, hostile)
    journal.unlink()
    journal.symlink_to(hostile)

    assert victim.karenina("resume", journal).returncode == 2


@pytest.mark.parametrize("id", ["../../../../../evil", "/etc/passwd", "", "A" * 32, 7])
def test_an_id_leads_out_of_no_folder(victim: User, stranger: User, server: RecordingServer, id: str | int) -> None:
    """Attack: an id that is a path to a file which the attacker can write."""
    journal = ran(stranger, server)
    with JournalView(journal) as view:
        command = view.command()
    evil = victim.write("evil.json", json.dumps({"version": 1, "journal": str(journal), "command": command}))
    evil.chmod(0o600)
    database = sqlite3.connect(journal, isolation_level=None)
    database.execute("UPDATE meta SET value = ? WHERE name = 'id'", (id,))
    database.close()
    victim.runs.mkdir(parents=True, mode=0o700)

    assert victim.karenina("resume", journal).returncode == 2


def test_the_command_of_a_forged_journal_is_quoted_for_shells(
    victim: User, stranger: User, server: RecordingServer
) -> None:
    """Attack: names with shell commands, escape sequences and line breaks in all that is printed."""
    journal = ran(stranger, server)
    with edit_command(journal) as told:
        told["benchmark"] = "/x/$(touch hacked);\n\x1b[2Jrm -rf ~.yaml"
        told["output"] = "/x/-o; touch hacked"
        told["config"]["answering_models"][0]["model_name"] = "m'; touch hacked; '\x1b]0;title\x07"
        told["config"]["run_name"] = "`touch hacked`\u202e"
        told["questions"] = ["first", "$(touch hacked)"]
    done = victim.karenina("resume", journal)

    assert done.returncode == 2
    assert "\x1b" not in done.stderr
    assert "\x07" not in done.stderr
    assert "\u202e" not in done.stderr
    (line,) = [one for one in done.stderr.splitlines() if one.startswith("  karenina run ")]
    script = f"karenina() {{ printf '%s\\n' \"$@\"; }}\n{line}\n"
    victim.write("script.sh", script)
    os.system(f"cd {victim.folder} && sh script.sh > words.txt")
    assert not (victim.folder / "hacked").exists()
    assert (victim.folder / "words.txt").read_text().splitlines()[0] == "run"


@pytest.mark.parametrize(
    "told",
    [
        "[]",
        "7",
        '"x"',
        "{}",
        '{"config": 7}',
        '{"config": {"answering_models": 7, "parsing_models": [7]}}',
        "[" * 10000,
    ],
)
def test_a_malformed_command_is_an_error_with_a_cure(
    victim: User, stranger: User, server: RecordingServer, told: str
) -> None:
    """Attack: a command that is not of the form that Karenina writes."""
    journal = ran(stranger, server)
    database = sqlite3.connect(journal, isolation_level=None)
    row = database.execute("SELECT * FROM runs").fetchone()
    database.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?)", with_digest("runs", (*row[:5], told)))
    database.close()
    mine = victim.write("mine.yaml", genes("TP53"))
    for command in (("resume", journal), ("rescore", journal, mine), ("status", journal)):
        done = victim.karenina(*command)
        assert "Traceback" not in done.stderr
        assert done.returncode == (0 if command[0] == "status" and done.returncode == 0 else 2), done.stderr


def test_a_configuration_in_a_strangers_folder_is_not_read(
    victim: User, stranger: User, server: RecordingServer, elsewhere: RecordingServer
) -> None:
    """Attack: leave configuration files about in the folder in which the victim gives the command."""
    journal = ran(victim, server)
    delete_results(journal)
    text = f"answering_models: [{{id: m, interface: openai, model_name: m, endpoint_base_url: '{elsewhere.url}'}}]\n"
    for name in ("karenina.yaml", "karenina.toml", "config.yaml", ".karenina.yaml"):
        stranger.write(name, text if name.endswith("yaml") else "executor = 'ray'\n")
    there = User(victim.home, stranger.folder)
    done = there.karenina("resume", journal, "--quiet")

    assert done.returncode == 0, done.stderr
    assert elsewhere.seen == []


# ---- secrets in URLs, and outputs that are no files


def test_a_secret_in_a_url_is_stored_nowhere(victim: User, server: RecordingServer) -> None:
    """Attack: read the journal, the results, the state and all that was printed for a secret of the URL's path."""
    secret = "hidden-gateway-token-42"
    url = server.url.replace("/v1", f"/{secret}/v1")
    victim.write("genes.yaml", genes())
    models = f"[{{id: m, interface: openai, model_name: m, endpoint_base_url: '{url}'}}]"
    victim.write("models.yaml", f"answering_models: {models}\nparsing_models: {models}\n")

    def refuses(_body: object) -> Reply:
        return Reply({"error": {"message": f"no route to {url}"}}, 500)

    server.reply = refuses
    failed = victim.karenina(
        "-vv", "run", "genes.yaml", "-c", "models.yaml", "-o", "genes.jsonl", "--set", "retry_server=0"
    )
    server.reply = reply
    again = victim.karenina("-vv", "resume", "genes.journal")
    given = victim.karenina("run", "genes.yaml", "-a", f"openai:m@{url}", "-j", f"openai:m@{url}", "-o", "b.jsonl")
    lost = victim.karenina("resume", "b.journal")

    assert again.returncode == 0, again.stderr
    assert given.returncode == 0, given.stderr
    assert lost.returncode == 2
    assert "run the whole `karenina run` command again" in lost.stderr
    files = [path for path in (*victim.folder.iterdir(), *victim.runs.iterdir()) if path.name != "models.yaml"]
    assert [path.name for path in files if secret.encode() in path.read_bytes()] == []
    for done in (failed, again, given, lost):
        assert secret not in done.stdout + done.stderr


@pytest.mark.parametrize("kind", ["FIFO", "device", "folder", "link to a FIFO"])
@pytest.mark.parametrize("command", ["run", "export", "rescore"])
def test_an_output_that_is_no_file_is_refused_at_once(
    victim: User, server: RecordingServer, kind: str, command: str
) -> None:
    """Attack: an output that hangs whoever opens it, or that is no file to be put in order."""
    journal = ran(victim, server)
    place = victim.folder / "place"
    if kind == "folder":
        place.mkdir()
    elif kind == "device":
        place.symlink_to("/dev/null")
    elif kind == "FIFO":
        os.mkfifo(place)
    else:
        os.mkfifo(victim.folder / "fifo")
        place.symlink_to("fifo")
    model = f"openai:m@{server.url}"
    arguments = ("run", "genes.yaml", "-a", model, "-j", model) if command == "run" else (command, journal)
    form = ("--format", "json") if command == "export" else ()  # else by the ending, which this name does not have
    done = victim.karenina(*arguments, *form, "-o", "place")

    assert done.returncode == 2
    assert "place is a" in done.stderr
    assert server.seen == []


# ---- ordinary workflows ask nothing new


def test_ones_own_run_goes_on_and_is_scored_again(victim: User, server: RecordingServer) -> None:
    journal = ran(victim, server)
    delete_results(journal)
    elsewhere = User(victim.home, victim.home)

    resumed = elsewhere.karenina("resume", journal, "--json")
    assert resumed.returncode == 0, resumed.stderr
    assert [one["outcome"] for one in json.loads(resumed.stdout)["results"]] == ["correct", "wrong"]
    victim.write("genes.yaml", genes("TP53"))
    rescored = elsewhere.karenina("rescore", journal, "--json")
    assert rescored.returncode == 0, rescored.stderr
    assert [one["question_id"] for one in json.loads(rescored.stdout)["flips"]] == ["first"]
    assert server.seen == []


def test_a_foreign_journal_is_rescored_with_a_copied_benchmark(
    victim: User, stranger: User, server: RecordingServer
) -> None:
    secret = server.url.replace("/v1", "/some-gateway-token/v1")
    stranger.write("genes.yaml", genes())
    model = json.dumps(
        {
            "id": "theirs",
            "interface": "openai",
            "model_name": "m",
            "endpoint_base_url": secret,
            "temperature": 0.5,
            "extra": {"headers": {"X-Token": KEY}},
            "system_prompt": "Be brief.",
        }
    )
    ran_there = stranger.karenina("run", "genes.yaml", "-a", model, "-j", model, "-o", "genes.jsonl")
    assert ran_there.returncode == 0, ran_there.stderr
    server.seen.clear()
    theirs = victim.folder / "theirs.journal"
    shutil.copyfile(stranger.folder / "genes.journal", theirs)
    mine = victim.write("mine.yaml", genes("TP53"))
    done = victim.karenina("rescore", theirs, mine, "--diff", "--json")

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert ([one["question_id"] for one in found["flips"]], found["missing"]) == (["first"], 0)
    assert server.seen == []
    assert KEY.encode() not in theirs.read_bytes()


def test_only_the_command_line_chooses_the_judge_that_is_called(
    victim: User, stranger: User, server: RecordingServer
) -> None:
    """Attack: let --ask send truths to the judge that a journal names."""
    journal = ran(stranger, server)
    mine = victim.write("mine.yaml", genes("TP53"))
    refused = victim.karenina("rescore", journal, mine, "--ask", OPENAI_API_KEY=KEY)
    given = victim.karenina("rescore", journal, mine, "--ask", "-j", f"openai:m@{server.url}", "--json")

    assert refused.returncode == 2
    assert "--ask takes judges from the command line" in refused.stderr
    assert given.returncode == 0, given.stderr
    assert [one["question_id"] for one in json.loads(given.stdout)["flips"]] == ["first"]
    assert server.seen == []


@pytest.mark.parametrize("form", ["text", "trace"])
def test_a_journal_over_recordings_is_scored_without_them(
    victim: User, stranger: User, server: RecordingServer, form: str
) -> None:
    stranger.write("genes.yaml", genes())
    said = (
        {"answer": "BCL2"}
        if form == "text"
        else {"trace": [{"role": "user", "content": "Which?"}, {"role": "assistant", "content": "BCL2"}]}
    )
    stranger.write("answers.jsonl", "".join(json.dumps({"id": id, **said}) + "\n" for id in ("first", "second")))
    judge = f"openai:m@{server.url}"
    options = ("--recordings", "answers.jsonl", "-j", judge, "-o", "genes.jsonl")
    ran_there = stranger.karenina("run", "genes.yaml", *options)
    assert ran_there.returncode == 0, ran_there.stderr
    server.seen.clear()
    own = stranger.karenina("resume", "genes.journal", "--quiet")
    assert own.returncode == 0, own.stderr
    (stranger.folder / "answers.jsonl").unlink()
    done = victim.karenina(
        "rescore", stranger.folder / "genes.journal", victim.write("mine.yaml", genes("TP53")), "--json"
    )

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert ([one["question_id"] for one in found["flips"]], found["missing"]) == (["first"], 0)
    assert server.seen == []


def test_a_shared_journal_continues_with_the_printed_command(
    victim: User, stranger: User, server: RecordingServer, tmp_path: Path
) -> None:
    shared = tmp_path / "drive"
    shared.mkdir()
    ran(stranger, server)
    shutil.copyfile(stranger.folder / "genes.journal", shared / "genes.journal")
    victim.write("genes.yaml", genes())
    refused = victim.karenina("resume", shared / "genes.journal")
    (line,) = [one.strip() for one in refused.stderr.splitlines() if one.startswith("  karenina run ")]
    given = victim.karenina(*shlex.split(line)[1:], "--json")

    assert given.returncode == 0, given.stderr
    assert server.seen == []
    assert json.loads(given.stdout)["calls"]["items_kept"] == 2
    assert victim.karenina("resume", shared / "genes.journal").returncode == 0


def test_a_copy_that_goes_on_leaves_the_original_its_command(victim: User, server: RecordingServer) -> None:
    journal = ran(victim, server)
    shutil.copyfile(journal, victim.folder / "copy.journal")
    model = f"openai:m@{server.url}"
    options = ("-a", model, "-j", model, "-o", "copy.jsonl", "--journal", "copy.journal")
    assert victim.karenina("run", "genes.yaml", *options).returncode == 0

    assert victim.karenina("resume", journal).returncode == 0
    assert victim.karenina("resume", "copy.journal").returncode == 0


def test_the_command_of_a_journal_that_is_gone_is_removed(victim: User, server: RecordingServer) -> None:
    journal = ran(victim, server)
    journal.unlink()
    ran(victim, server, "others")

    assert [json.loads(path.read_text())["journal"] for path in victim.runs.iterdir()] == [
        str(victim.folder / "others.journal")
    ]
