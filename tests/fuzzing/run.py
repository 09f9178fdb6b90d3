"""Try one kind of input for some time: `python tests/fuzzing/run.py --kind yaml --seconds 600 --seed 1 --out found`.

Prints how many inputs were tried, and of each way in which one broke the law its type, place and count. The smallest
input of each is in the folder `--out`, beside `current`, the last input that was tried, should one kill the process.
Ends with 1 where anything was found.
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import os
import re
import resource
import sys
import tempfile
import traceback
import warnings
from pathlib import Path

from hypothesis.errors import HypothesisWarning

sys.path[0] = str(Path(__file__).resolve().parents[1])

from fuzzing.engine import Fuzzer, Report, environment, fuzz
from fuzzing.kinds import NAMES, get_kind


def main() -> int:
    arguments = _arguments()
    faulthandler.enable()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore", HypothesisWarning)  # of large inputs, which are wanted here
    resource.setrlimit(resource.RLIMIT_AS, (arguments.memory << 20,) * 2)
    out: Path = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    kind = get_kind(arguments.kind)
    with tempfile.TemporaryDirectory(prefix="karenina-fuzzing-") as name:
        folder = Path(name)
        os.environ.update(environment(folder))
        tempfile.tempdir = None  # it was asked for before
        current = (out / f"{kind.name}.current").open("wb", buffering=0)
        with Fuzzer(kind, folder) as laboratory, current:

            def about_to(one: object) -> None:
                faulthandler.dump_traceback_later(arguments.hang, exit=True)  # what waits uses no processor time
                current.seek(0)
                current.truncate()
                current.write(kind.shown(one))

            report = fuzz(laboratory, seconds=arguments.seconds, first_seed=arguments.seed, about_to=about_to)
            faulthandler.cancel_dump_traceback_later()
    _print(report, out)
    return 1 if report.findings else 0


def _print(report: Report[object], out: Path) -> None:
    kind = report.kind
    share = report.accepted / max(report.tried, 1)
    print(
        f"{kind.name}: {report.tried} inputs in {report.seconds:.0f} s, {share:.0%} of them accepted, "
        f"{len(report.findings)} distinct failures"
    )
    for number, found in enumerate(sorted(report.findings.values(), key=lambda one: -one.count), 1):
        name = re.sub(r"\W+", "-", found.signature)[:60]
        file = out / f"{kind.name}-{number}-{name}"
        file.write_bytes(kind.shown(found.example))
        file.with_name(file.name + ".txt").write_text(
            "".join(traceback.format_exception(found.error)), "utf-8", "replace"
        )
        print(f"  {found.count:6} {found.signature}")
        print(f"         {file}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=NAMES, required=True)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("found"), help="where failing inputs are written")
    parser.add_argument("--hang", type=float, default=120, help="seconds after which an input that waits ends all")
    parser.add_argument("--memory", type=int, default=8192, help="megabytes that the process may have")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
