"""Languages of files, by their names, as LSP's language ids."""

from collections.abc import Mapping
from pathlib import PurePath
from typing import Final

_BY_SUFFIX: Final[Mapping[str, str]] = {
    suffix: language
    for language, suffixes in {
        "ada": ".ada .adb .ads",
        "bat": ".bat .cmd",
        "c": ".c",
        "clojure": ".clj .cljs .cljc .edn",
        "cmake": ".cmake",
        "cpp": ".cc .cpp .cxx .c++ .h .hh .hpp .hxx .ipp .inl",
        "crystal": ".cr",
        "csharp": ".cs .csx",
        "css": ".css",
        "cuda-cpp": ".cu .cuh",
        "d": ".d",
        "dart": ".dart",
        "diff": ".diff .patch",
        "elixir": ".ex .exs",
        "elm": ".elm",
        "emacs-lisp": ".el",
        "erlang": ".erl .hrl",
        "fortran": ".f .f90 .f95 .f03 .for",
        "fsharp": ".fs .fsi .fsx",
        "gdscript": ".gd",
        "glsl": ".glsl .vert .frag .comp",
        "go": ".go",
        "graphql": ".graphql .gql",
        "groovy": ".groovy .gradle",
        "haskell": ".hs",
        "html": ".html .htm .xhtml",
        "ini": ".ini .cfg",
        "java": ".java",
        "javascript": ".js .mjs .cjs",
        "javascriptreact": ".jsx",
        "json": ".json",
        "jsonc": ".jsonc .code-workspace",
        "julia": ".jl",
        "kotlin": ".kt .kts",
        "latex": ".tex .sty .cls",
        "less": ".less",
        "lisp": ".lisp .lsp .cl",
        "lua": ".lua",
        "makefile": ".mk .mak",
        "markdown": ".md .markdown",
        "nim": ".nim",
        "nix": ".nix",
        "objective-c": ".m",
        "objective-cpp": ".mm",
        "ocaml": ".ml .mli",
        "odin": ".odin",
        "pascal": ".pas .pp",
        "perl": ".pl .pm",
        "php": ".php",
        "plaintext": ".txt",
        "powershell": ".ps1 .psm1 .psd1",
        "proto3": ".proto",
        "python": ".py .pyi .pyw",
        "r": ".r",
        "racket": ".rkt",
        "restructuredtext": ".rst",
        "ruby": ".rb .rake .gemspec",
        "rust": ".rs",
        "sass": ".sass",
        "scala": ".scala .sc .sbt",
        "scheme": ".scm .ss",
        "scss": ".scss",
        "shellscript": ".sh .bash .zsh .ksh .fish",
        "solidity": ".sol",
        "sql": ".sql",
        "svelte": ".svelte",
        "swift": ".swift",
        "tcl": ".tcl",
        "terraform": ".tf",
        "toml": ".toml",
        "typescript": ".ts .mts .cts",
        "typescriptreact": ".tsx",
        "v": ".v",
        "vb": ".vb",
        "verilog": ".sv .svh",
        "vhdl": ".vhd .vhdl",
        "viml": ".vim",
        "vue": ".vue",
        "wgsl": ".wgsl",
        "xml": ".xml .xsd .xsl .xslt .svg",
        "yaml": ".yaml .yml",
        "zig": ".zig",
    }.items()
    for suffix in suffixes.split()
}
_BY_NAME: Final[Mapping[str, str]] = {
    "cmakelists.txt": "cmake",
    "containerfile": "dockerfile",
    "dockerfile": "dockerfile",
    "gemfile": "ruby",
    "gnumakefile": "makefile",
    "jenkinsfile": "groovy",
    "justfile": "just",
    "makefile": "makefile",
    "rakefile": "ruby",
}


def language_of(path: PurePath) -> str:
    """The language id of a file; "plaintext" for an unknown name."""
    return _BY_NAME.get(path.name.lower()) or _BY_SUFFIX.get(path.suffix.lower(), "plaintext")


def is_known(path: PurePath) -> bool:
    """Whether the file's name has a known language."""
    return path.name.lower() in _BY_NAME or path.suffix.lower() in _BY_SUFFIX
