"""fastcoder.el as a package of Emacs: what the compiler, checkdoc and package-lint say of it, and that it installs."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.editors.conftest import ROOT, find_editor

FASTCODER = ROOT / "editors/emacs/fastcoder.el"
COMPILE = """(progn (setq byte-compile-error-on-warn t) (byte-compile-file "{file}"))"""
CHECKDOC = """(progn (require 'checkdoc) (checkdoc-file "{file}"))"""
# No archive of packages is asked: what is installed here stands for what can be installed.
PACKAGE_LINT = """(progn
  (require 'package-lint)
  (package-initialize)
  (setq package-archive-contents (mapcar (lambda (known) (list (car known) (cadr known))) package-alist))
  (with-current-buffer (find-file-noselect "{file}")
    (pcase-dolist (`(,line ,_ ,level ,said) (package-lint-buffer))
      (message "fastcoder.el:%s: %s: %s" line level said))))"""
INSTALL = """(progn (package-initialize) (package-install-file "{file}"))"""
FIND_COMMANDS = """(progn
  (package-initialize)
  (message "autoloads: %s" (mapcar (lambda (name) (autoloadp (symbol-function name)))
                                   '(fastcoder-setup fastcoder-mode fastcoder-toggle)))
  (require 'fastcoder)
  (message "loaded from %s" (symbol-file 'fastcoder-mode)))"""
EXEMPT = re.compile(
    # Said of Emacs 28 by package-lint 0.16, which is older than that.
    "This makes the package uninstallable in all released Emacs versions"
    # Said by newer ones, which take Eglot for a part of Emacs although it is named as a package.
    r"|You should depend on \(emacs \"29\.1\"\) if you need `eglot-"
)


class Emacs:
    """Runs expressions, each in an Emacs of its own with a home of its own."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._program = find_editor("emacs", "emacs")
        self._home = home
        monkeypatch.setenv("HOME", str(home))
        self.require("eglot")

    def require(self, library: str) -> None:
        """Skip where Emacs has no such library."""
        if self._run(f"(require '{library})").returncode:
            pytest.skip(f"{library} absent: this Emacs has no such library")

    def said(self, expression: str, source: str) -> list[str]:
        file = self._home / FASTCODER.name
        file.write_text(source)
        done = self._run(expression.replace("{file}", str(file)))
        lines = [line.strip() for line in done.stderr.splitlines()]
        found = [line for line in lines if FASTCODER.name in line and not EXEMPT.search(line)]
        assert found or not done.returncode, done.stderr
        return found

    def messages(self, expression: str) -> str:
        done = self._run(expression)
        assert done.returncode == 0, done.stderr
        return done.stderr

    def _run(self, expression: str) -> subprocess.CompletedProcess[str]:
        command = [self._program, "--batch", "-q", "--eval", expression]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def emacs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Emacs:
    """An Emacs with Eglot, and nothing of the user's."""
    return Emacs(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("check", "fault", "expected"),
    [
        (COMPILE, "(defun fastcoder--fault (unused) nil)", "unused"),
        (CHECKDOC, "(defun fastcoder-fault () nil)", "documentation"),
        (PACKAGE_LINT, "(defun fault () nil)", "prefix"),
    ],
    ids=["byte-compiler", "checkdoc", "package-lint"],
)
def test_nothing_is_said_of_it(emacs: Emacs, check: str, fault: str, expected: str) -> None:
    """Warnings of the compiler are errors. That each check would find something is seen by a fault."""
    if check == PACKAGE_LINT:
        emacs.require("package-lint")
    source = FASTCODER.read_text()
    assert emacs.said(check, source) == []
    found = emacs.said(check, source.replace("(provide 'fastcoder)", f"{fault}\n\n(provide 'fastcoder)"))
    assert any(expected in line for line in found), found


def test_it_installs_as_a_package(emacs: Emacs, tmp_path: Path) -> None:
    emacs.messages(INSTALL.replace("{file}", str(FASTCODER)))
    found = emacs.messages(FIND_COMMANDS)
    assert "autoloads: (t t t)" in found
    assert f"loaded from {tmp_path}/.emacs.d/elpa/fastcoder-" in found
