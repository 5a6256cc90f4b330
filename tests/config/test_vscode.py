"""What the VS Code extension declares of the server's settings: made from the one table."""

from pathlib import Path

from fastcoder_lsp.config import Scope, specs, vscode

EXTENSION = Path(__file__).parents[2] / "editors" / "vscode"


def test_the_extension_declares_the_settings_of_the_table() -> None:
    """Both files are what the table makes of them; else: python -m fastcoder_lsp.config.vscode editors/vscode."""
    for path, content in vscode.outputs(EXTENSION).items():
        assert path.read_text(encoding="utf-8") == content


def test_what_names_models_and_paths_is_out_of_a_workspaces_reach() -> None:
    """From no `.vscode/settings.json` VS Code takes settings of the scope `machine`."""
    declared = {name: schema["scope"] for name, schema in vscode.properties().items()}
    for spec in specs().values():
        if spec.active:
            assert (declared[f"fastcoder.{spec.name}"] == "machine") == (spec.scope is Scope.MACHINE)
