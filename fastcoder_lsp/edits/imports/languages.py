"""The families of languages whose imports are known."""

from typing import Final

from fastcoder_lsp.edits.imports.go import GoImports
from fastcoder_lsp.edits.imports.jvm import JvmImports
from fastcoder_lsp.edits.imports.php import PhpImports
from fastcoder_lsp.edits.imports.python import PythonImports
from fastcoder_lsp.edits.imports.rust import RustImports
from fastcoder_lsp.edits.imports.script import ScriptImports
from fastcoder_lsp.edits.imports.values import ImportSyntax
from fastcoder_lsp.edits.imports.whole_files import IncludeImports, RequireImports

SYNTAXES: Final[tuple[ImportSyntax, ...]] = (
    PythonImports(),
    ScriptImports(),
    GoImports(),
    RustImports(),
    JvmImports(),
    PhpImports(),
    IncludeImports(),
    RequireImports(),
)
_BY_LANGUAGE: Final = {language: syntax for syntax in SYNTAXES for language in syntax.languages}


def syntax_of(language: str) -> ImportSyntax | None:
    """The syntax of a language's imports; None where it is not known."""
    return _BY_LANGUAGE.get(language)


def syntax_of_file(path: str) -> ImportSyntax | None:
    """The syntax of a file's imports, by the end of its name; None where it has none."""
    return next((syntax for syntax in SYNTAXES if path.endswith(syntax.endings)), None)
