"""What all tests share: `--ci` and `--long`, models and machine code, and the account of editors that are absent.

A test that needs a model takes a fixture from here (or carries the mark `model`) and is skipped, with the command to
run, where the model is not on this machine. A test of an editor that is absent skips itself; with
FASTCODER_REQUIRE_EDITORS=1, as in CI, that is a failure.

All processes of a run share one folder of compiled functions, the user's own: an empty one costs half a minute of
compiling, so only a test that is about an empty one has it (it unsets FASTCODER_KERNELS, or sets its own). The rest of
the cache folder is the run's own (FASTCODER_CACHE), with links to the user's models: no index, no count of use and no
record of a start gets into the user's.
"""

import os
import shutil
import tempfile
from collections.abc import Generator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import hypothesis
import pytest

from fastcoder_lsp import model
from fastcoder_lsp.config import kernels_folder
from fastcoder_lsp.errors import ModelMissingError
from fastcoder_lsp.model import ModelFiles
from tests.cpu_times import CpuTimes
from tests.groups import ONE_PROCESS
from tests.own_cache import own_cache
from tests.stalls import sitecustomize

# How long an example takes says more of the machine than of the code. `tests/examples.py` has the numbers of examples.
hypothesis.settings.register_profile("often", deadline=None, max_examples=40)
hypothesis.settings.register_profile("ci", deadline=None, max_examples=100)
hypothesis.settings.load_profile("ci")

CI_REASON, LONG_REASON = "ci: only with --ci or --long", "long: only with --long"
EDITOR_TESTS = "tests/editors/"
Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)
REQUIRE_EDITORS = os.environ.get("FASTCODER_REQUIRE_EDITORS", "") not in ("", "0")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--ci", action="store_true", help="also run what only CI runs: slow proofs, all examples")
    parser.addoption("--long", action="store_true", help="also the soaks, the kill series, the long exactness runs")
    parser.addoption("--stalls", action="store_true", help="processes and threads stand still at times")


def pytest_configure(config: pytest.Config) -> None:
    hypothesis.settings.load_profile("ci" if _with_ci(config) else "often")
    os.environ.setdefault("FASTCODER_KERNELS", str(kernels_folder()))
    if not hasattr(config, "workerinput"):  # with `-n` all processes have the first one's
        folder = Path(tempfile.mkdtemp(prefix="fastcoder-"))
        config.add_cleanup(partial(shutil.rmtree, folder, ignore_errors=True))  # a shared process may be writing yet
        os.environ["FASTCODER_CACHE"] = str(own_cache(folder / "cache"))
        os.environ["XDG_CONFIG_HOME"] = str(folder / "config")  # the user's own settings count in no test
    if config.getoption("--stalls"):
        _stall()
    if _with_ci(config):
        config.pluginmanager.register(CpuTimes())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("long") and not config.getoption("--long"):
            item.add_marker(pytest.mark.skip(reason=LONG_REASON))
        elif item.get_closest_marker("ci") and not _with_ci(config):
            item.add_marker(pytest.mark.skip(reason=CI_REASON))
    items.sort(key=lambda item: not item.nodeid.startswith(ONE_PROCESS))  # what cannot be shared out must not come last


def _stall() -> None:
    """Have this process stand still at times, and all that it starts."""
    folder, rest = str(Path(__file__).with_name("stalls")), os.environ.get("PYTHONPATH")
    os.environ[sitecustomize.VARIABLE] = "1"
    os.environ["PYTHONPATH"] = os.pathsep.join([folder, rest]) if rest else folder
    sitecustomize.begin()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `-n`: one file's tests go to one process, or one folder's, in their order."""
    from tests.side_by_side import GroupScheduling

    return GroupScheduling(config, log)


def _with_ci(config: pytest.Config) -> bool:
    return bool(config.getoption("--ci") or config.getoption("--long"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("model"):
        _find_or_skip("auto")


@pytest.fixture(scope="session")
def default_model() -> ModelFiles:
    return _find_or_skip("auto")


@pytest.fixture(scope="session")
def model_folder(default_model: ModelFiles) -> Path:
    return default_model.folder


@pytest.fixture(scope="session")
def llama_model() -> ModelFiles:
    return _find_or_skip("wheels:smollm2")


def _find_or_skip(name: str) -> ModelFiles:
    try:
        return model.find(name)
    except ModelMissingError as error:
        pytest.skip(f"{error.message}. {error.hint}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skipped editor into a failure where editors are required."""
    return _required((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a whole file that skips itself."""
    return _required((yield))


def _required(report: Report) -> Report:
    if REQUIRE_EDITORS and _skipped_editor(report):
        report.outcome = "failed"
        report.longrepr = f"skipped, and FASTCODER_REQUIRE_EDITORS is set: {_reason(report)}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = [report for report in terminalreporter.stats.get("skipped", []) if _skipped_editor(report)]
    for reason in sorted({_reason(report) for report in skipped}):
        terminalreporter.write_line(f"editor tests skipped: {reason}")


def _skipped_editor(report: pytest.TestReport | pytest.CollectReport) -> bool:
    in_place = report.nodeid.replace(os.sep, "/").startswith(EDITOR_TESTS)
    return report.skipped and in_place and _reason(report) not in (CI_REASON, LONG_REASON)


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")
