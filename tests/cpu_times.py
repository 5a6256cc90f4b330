"""Where a run's processor time goes, by file: wall times say more of what else a machine does.

A test's time is that of its process, fixtures included, and of the processes that it started and waited for.
"""

import os
from collections import defaultdict
from collections.abc import Generator

import pytest

SHOWN = 25
_NAME = "cpu_s"


class CpuTimes:
    """A plugin for the processes that run tests and, with pytest-xdist, for the one that collects their reports."""

    def __init__(self) -> None:
        self._by_file = defaultdict[str, float](float)
        self._before_s = _spent_s()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        now_s = _spent_s()
        report.user_properties = [*report.user_properties, (_NAME, now_s - self._before_s)]
        self._before_s = now_s
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file = report.nodeid.partition("::")[0]
        self._by_file[file] += sum(float(str(value)) for name, value in report.user_properties if name == _NAME)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say it, the most expensive files first."""
        terminalreporter.section(f"{sum(self._by_file.values()):.0f} s of processor time, by file")
        for file, spent_s in sorted(self._by_file.items(), key=lambda item: -item[1])[:SHOWN]:
            terminalreporter.write_line(f"{spent_s:7.1f} s  {file}")


def _spent_s() -> float:
    """Seconds of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
