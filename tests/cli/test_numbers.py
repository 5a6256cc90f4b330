"""Numbers on command lines: what is out of bounds is refused before any work."""

import shlex

import pytest

from fastcoder_lsp.cli.main import main


@pytest.mark.parametrize(
    "line",
    [
        "team --replicas 0",
        "team --port 0",
        "team key add me --open 0",
        "team key add me --a-minute -5",
        "http --port 65536",
        "index search x --limit -1",
        "corpus build . --name ../x",
        "corpus remove ../x",
        "bench engine --rounds 0",
    ],
)
def test_a_number_or_name_out_of_bounds_is_wrong_use(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The command ends with 2 and names what is wrong."""
    try:
        code = main(shlex.split(line))
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0
    assert code == 2
    assert shlex.split(line)[-1] in capsys.readouterr().err
