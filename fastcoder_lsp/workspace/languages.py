"""Languages of files, by their names, and of a notebook's cells, as LSP's language ids."""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
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
_OTHERS: Final = frozenset(
    (
        *(
            "bibtex",
            "coffeescript",
            "cuda",
            "dockercompose",
            "dotenv",
            "fish",
            "git-commit",
            "git-rebase",
            "haml",
            "haxe",
        ),
        *(
            "jade",
            "jinja",
            "jinja-html",
            "jsonl",
            "jsonnet",
            "just",
            "mdx",
            "mysql",
            "plsql",
            "postgres",
            "pug",
            "purescript",
        ),
        *(
            "json5",
            "gotmpl",
            "gomod",
            "gowork",
            "gohtml",
            "hlsl",
            "javascript.jsx",
            "typescript.tsx",
            "ssh_config",
            "tex",
        ),
        *(
            "properties",
            "proto",
            "cython",
            "csv",
            "conf",
            "nginx",
            "zsh",
            "bash",
            "sh",
            "vim",
            "vimdoc",
            "terraform-vars",
        ),
        *("astro", "awk", "dot", "elvish", "erb", "eruby", "fennel", "gleam", "heex", "eex", "html-eex", "htmldjango"),
        *(
            "django-html",
            "handlebars",
            "razor",
            "shaderlab",
            "slim",
            "snippets",
            "stylus",
            "systemverilog",
            "typst",
            "xsl",
        ),
        *("c3", "cs", "clojurescript", "delphi", "fsx", "idris", "lean", "matlab", "objc", "objcpp", "octave", "raku"),
        *(
            "reason",
            "rescript",
            "roc",
            "rmd",
            "quarto",
            "sparql",
            "starlark",
            "twig",
            "turtle",
            "unison",
            "vala",
            "zsh",
        ),
    )
)
"""Ids of editors, without names of files here, that are near others or may be."""
_FAMILIES: Final[Mapping[str, str]] = {
    member: family
    for family, members in {
        "cpp": "c cuda-cpp objective-c objective-cpp",
        "javascript": "javascriptreact typescript typescriptreact vue svelte",
    }.items()
    for member in members.split()
}
_ALIKE: Final = 0.8  # as `pyton` and `python`; `rust` and `ruby` are less alike
_LONGEST: Final = 40
_MAGIC: Final = re.compile(r"(%%?)(!|\w+)[ \t]*(.*)")
_BY_MAGIC: Final[Mapping[str, str]] = {
    magic: language
    for language, magics in {
        "html": "html HTML",
        "javascript": "javascript js node",
        "julia": "julia",
        "latex": "latex",
        "markdown": "markdown md",
        "perl": "perl",
        "python": (
            "python python2 python3 pypy cython time timeit capture prun debug memit mprun lprun heat snakeviz px"
        ),
        "r": "R r",
        "ruby": "ruby",
        "rust": "rust",
        "scala": "scala",
        "shellscript": "bash sh zsh ! sx system cmd shell",
        "sql": "sql bigquery sparksql read_sql",
        "xml": "svg SVG",
    }.items()
    for magic in magics.split()
}


def language_of(path: PurePath) -> str:
    """The language id of a file; "plaintext" for an unknown name."""
    return _BY_NAME.get(path.name.lower()) or _BY_SUFFIX.get(path.suffix.lower(), "plaintext")


def family_of(language: str) -> str:
    """The family of a language id: code of one member is useful beside code of another."""
    return _FAMILIES.get(language, language)


def misspelt(language: str) -> str:
    """The known language that an unknown id probably means; empty if none is near: there are more languages."""
    known = {*_BY_SUFFIX.values(), *_BY_NAME.values(), *_OTHERS}
    if language in known:
        return ""
    near = get_close_matches(language.lower()[:_LONGEST], sorted(known), n=1, cutoff=_ALIKE)
    return near[0] if near and near[0] not in _OTHERS else ""


def is_known(path: PurePath) -> bool:
    """Whether the file's name has a known language."""
    return path.name.lower() in _BY_NAME or path.suffix.lower() in _BY_SUFFIX


def language_of_cell(language: str, lines: Iterable[str]) -> str:
    """The language of a notebook's cell: that of the magic in its first line, else its id `language`."""
    if language != "python":
        return language
    first = next((line for line in lines if line.strip()), "")
    magic = _MAGIC.match(first)
    if magic is None:
        return language
    sign, name, arguments = magic.groups()
    last = arguments.split()[-1:]
    if sign == "%":  # a cell of another language only where the line says no more, as on Databricks
        return language if last else _BY_MAGIC.get(name, language)
    if name in {"writefile", "file"} and last:
        return language_of(PurePath(last[0]))
    return _BY_MAGIC.get(last[0] if name == "script" and last else name, "plaintext")
