"""Imports that name a file, and none of the names in it: C, C++ and Ruby.

A name tells its file where exactly one file defines it, or where it is a well-known one of a standard library; the
repository's files must import it directly where they use it. A file that others bring along counts as imported.
"""

import posixpath
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from typing_extensions import override

from fastcoder_lsp.edits.imports.facts import MOST_FACTS, FileImports, ImportTarget, NamedTarget
from fastcoder_lsp.edits.imports.values import (
    BoundName,
    ImportLine,
    ImportStyle,
    ImportSyntax,
    NameSought,
    SourceTable,
    above_comment,
    below_head,
    line_end,
)

_MOST_REACHED: Final = 400  # files that a file's imports bring along
_SHARE: Final = 0.5  # of the files using a name, those that import its file themselves
_STANDARD_SHARE: Final = 0.3  # the same for a standard library's file
_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


class WholeFileImports(ImportSyntax):
    """The common part. `standard`: name → the sources that give it."""

    names_files = True
    standard: Mapping[str, tuple[str, ...]]

    @abstractmethod
    def file_of(self, source: str, path: str, table: SourceTable) -> str | None:
        """The repository's file that a source means in the file at `path`; None where it is another's."""

    @override
    def knows(self, name: str) -> bool:
        return name in self.standard

    @override
    def imported(self, text: str, path: str) -> tuple[NamedTarget, ...]:
        sources = dict.fromkeys(line.source for line in self.statements(text))
        return tuple(NamedTarget("", ImportTarget(one), one) for one in sources)[:MOST_FACTS]

    @override
    def target(self, line: ImportLine, name: BoundName, path: str) -> ImportTarget:
        return ImportTarget(line.source)

    @override
    def chosen(self, asked: NameSought) -> ImportTarget | None:
        files, sources = self._reached(asked)
        if wanted := self.standard.get(asked.name):
            return None if sources.intersection(wanted) or asked.defined else self._of_standard(asked, wanted)
        homes = {one.path for one in asked.defined}
        if len(homes) != 1 or not homes.isdisjoint(files):
            return None
        [home] = homes
        return ImportTarget("/" + home) if self.is_said(asked, home) else None

    @override
    def spelled(self, target: ImportTarget, asked: NameSought) -> str | None:
        if not target.source.startswith("/"):
            return target.source
        home, folder = target.source[1:], posixpath.dirname(asked.path)
        near, far = Counter[str](), Counter[str]()
        for path, source in self.importing(home, asked.table):
            (near if posixpath.dirname(path) == folder else far)[source] += 1
        votes = near or Counter({one: count for one, count in far.items() if not self.is_near(one)})
        return votes.most_common(1)[0][0] if votes else self.beside(home, asked.path)

    @override
    def is_elsewhere(self, asked: NameSought) -> bool:
        homes = {one.path for one in asked.defined}
        return len(homes) > 1 and homes.isdisjoint(self._reached(asked)[0])

    @override
    def fewest(self, targets: Sequence[ImportTarget], table: SourceTable) -> list[ImportTarget]:
        homes = [one.source[1:] for one in targets if one.source.startswith("/")]
        shared = [{path for path, _ in self.importing(home, table) if path.endswith(_HEADERS)} for home in homes]
        if len(shared) > 1 and set.intersection(*shared):
            return []  # a header brings them all
        return [
            one
            for one in targets
            if not any(self._brings(other, one, table) and not self._brings(one, other, table) for other in targets)
        ]

    def importing(self, home: str, table: SourceTable) -> list[tuple[str, str]]:
        """(file, source) of the imports of a file."""
        return [
            (path, source)
            for path in table.paths()
            for source in self._sources(path, table)
            if posixpath.basename(home).startswith(posixpath.basename(source.strip('<>"')).partition(".")[0])
            and self.file_of(source, path, table) == home
        ]

    @abstractmethod
    def is_near(self, source: str) -> bool:
        """Whether a source means another file in another folder."""

    @abstractmethod
    def beside(self, home: str, path: str) -> str | None:
        """The source of a file that nobody imports; None where it could be several."""

    @abstractmethod
    def is_said(self, asked: NameSought, home: str) -> bool:
        """Whether the files that use the name import its file themselves."""

    def _brings(self, one: ImportTarget, other: ImportTarget, table: SourceTable) -> bool:
        """Whether the import of one target brings another along."""
        files, sources = self.reached([(one.source[1:], each) for each in self._sources(one.source[1:], table)], table)
        return other.source[1:] in files or other.source in sources

    def _of_standard(self, asked: NameSought, wanted: Iterable[str]) -> ImportTarget | None:
        users = [one for one in asked.table.using(asked.name) if one != asked.path]
        own = [line.source for line in asked.lines if line.source[0] == "<"]
        if any(one.endswith(".h>") for one in own) and not any(re.match("<c[a-z]+>", one) for one in own):
            wanted = [one for one in wanted if one.endswith(".h>")] or wanted
        votes = Counter(source for user in users for source in self._sources(user, asked.table) if source in wanted)
        if not votes or sum(votes.values()) < _STANDARD_SHARE * len(users):
            return None
        return ImportTarget(votes.most_common(1)[0][0])

    def _sources(self, path: str, table: SourceTable) -> list[str]:
        facts = table.facts(path)
        return [one.spelled for one in facts.imported] if facts is not None else []

    def _reached(self, asked: NameSought) -> tuple[set[str], set[str]]:
        """The files that the file's imports bring along, and all sources that these name."""
        files, sources = self.reached([(asked.path, line.source) for line in asked.lines], asked.table)
        return files | {asked.path}, sources

    def reached(self, rest: list[tuple[str, str]], table: SourceTable) -> tuple[set[str], set[str]]:
        """The files that (file, source) bring along, and all sources that these name."""
        files, sources = set[str](), set[str]()
        while rest and len(files) < _MOST_REACHED:
            path, source = rest.pop()
            sources.add(source)
            found = self.file_of(source, path, table)
            if found is not None and found not in files:
                files.add(found)
                rest += [(found, one) for one in self._sources(found, table)]
        return files, sources


_INCLUDE: Final = re.compile(r"^[ \t]*#[ \t]*include[ \t]*([<\"][^>\"\n]+[>\"])", re.MULTILINE)
_DIRECTIVE: Final = re.compile(r"^[ \t]*#[ \t]*(if\w*|endif|include)\b([^\n]*)", re.MULTILINE)
_GUARD: Final = re.compile(
    r"\s*#[ \t]*(?:ifndef[ \t]+(\w+)[^\n]*\n\s*#[ \t]*define[ \t]+\1[^\n]*\n|pragma[ \t]+once[^\n]*\n)"
)
_HEAD: Final = re.compile(r"(?:\s*(?://[^\n]*|/\*.*?\*/)[ \t]*\n)*", re.DOTALL)
_HEADERS: Final = (".h", ".hpp", ".hh", ".hxx", ".h++")
_DEFINED: Final = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)"
    r"|^[ \t]*(?:typedef[ \t]+)?(?:class|struct|union|enum(?:[ \t]+(?:class|struct))?)[ \t]+(?:[A-Z_]+[ \t]+)?"
    r"(\w+)[^;()\n]*(?:\{|$)"
    r"|^[ \t]*(?:typedef\b[^;{}\n]*?|\}[ \t]*)\b(\w+)[ \t]*;"
    r"|^[ \t]*using[ \t]+(\w+)[ \t]*="
    r"|^(?!return|else|using|typedef|#)[A-Za-z_][\w:<>,*& \t]*?[ \t*&](\w+)[ \t]*\([^;{}]*\)[^;{}()\n]*[;{]",
    re.MULTILINE,
)
_STD: Final = re.compile(r"\bstd::(\w+)|\b([a-z]\w+)(?=\()|\b(u?int\d+_t)\b")
_C: Final = {
    "stdio": "printf fprintf snprintf sprintf vsnprintf fopen fclose fread fwrite fgets fputs fflush fseek perror",
    "stdlib": "malloc calloc realloc free exit abort atoi atof getenv strtol strtoul strtod qsort bsearch",
    "string": "memcpy memset memmove memcmp strlen strcmp strncmp strcpy strncpy strcat strchr strrchr strstr strerror",
    "assert": "assert",
    "ctype": "isdigit isalpha isalnum isspace isupper islower toupper tolower isprint ispunct",
    "math": "sqrt pow fabs floor ceil log2 log10 sin cos tan atan2 fmod",
    "stdint": "uint8_t uint16_t uint32_t uint64_t int8_t int16_t int32_t int64_t",
    "time": "gettimeofday clock_gettime localtime gmtime strftime mktime",
}
_CPP: Final = {
    "vector": "vector",
    "string": "string to_string getline stoi stoul",
    "map": "map multimap",
    "set": "set multiset",
    "unordered_map": "unordered_map",
    "unordered_set": "unordered_set",
    "memory": "unique_ptr shared_ptr weak_ptr make_unique make_shared enable_shared_from_this",
    "functional": "function bind ref cref",
    "algorithm": "sort find find_if count_if transform copy min max clamp reverse any_of all_of none_of lower_bound",
    "numeric": "accumulate iota",
    "iostream": "cout cerr cin",
    "sstream": "stringstream ostringstream istringstream",
    "fstream": "ifstream ofstream fstream",
    "optional": "optional nullopt",
    "variant": "variant visit holds_alternative monostate",
    "any": "any any_cast",
    "tuple": "tuple make_tuple tie",
    "array": "array",
    "deque": "deque",
    "list": "list",
    "queue": "queue priority_queue",
    "stack": "stack",
    "thread": "thread",
    "mutex": "mutex lock_guard unique_lock scoped_lock",
    "atomic": "atomic",
    "condition_variable": "condition_variable",
    "chrono": "chrono",
    "filesystem": "filesystem",
    "regex": "regex regex_match regex_search",
    "random": "mt19937 random_device uniform_int_distribution",
    "stdexcept": "runtime_error logic_error invalid_argument out_of_range",
    "string_view": "string_view",
    "span": "span",
    "limits": "numeric_limits",
    "iomanip": "setw setprecision setfill",
    "bitset": "bitset",
    "future": "future async promise",
}


def _standard() -> dict[str, tuple[str, ...]]:
    found = dict[str, tuple[str, ...]]()
    for header, names in _C.items():
        found.update((name, (f"<{header}.h>", f"<c{header}>")) for name in names.split())
    for header, names in _CPP.items():
        for name in names.split():
            found[name] = (*found.get(name, ()), f"<{header}>")
    return found


class IncludeImports(WholeFileImports):
    """C's and C++'s `#include`."""

    name = "c"
    languages = frozenset({"c", "cpp", "cuda-cpp"})
    endings = (".c", ".cc", ".cpp", ".cxx", ".inl", ".cu", *_HEADERS)
    separates = True
    standard = _standard()
    keys = (
        lambda line: (line.source.strip('<>"'),),
        lambda line: (line.source.strip('<>"').lower(),),
        lambda line: (line.source[0] == '"', line.source.lower()),
    )

    @override
    def statements(self, text: str) -> list[ImportLine]:
        guard = _GUARD.search(text)
        depth = -1 if guard is not None and guard[1] and text[: guard.start()].count("#if") == 0 else 0
        found = list[ImportLine]()
        for one in _DIRECTIVE.finditer(text):
            if one[1] == "endif":
                depth -= 1
            elif one[1] != "include":
                depth += 1
            elif (include := _INCLUDE.match(text, one.start())) is not None:
                end = line_end(text, include.end())
                found.append(ImportLine(one.start(), end, include[1], (), "include", guarded=depth > 0))
        return found

    @override
    def facts_of(self, text: str, path: str) -> FileImports:
        own = list[str]()
        if path.endswith(_HEADERS):
            clean = _COMMENT.sub("", text)
            own = [
                name for found in _DEFINED.finditer(clean) if (name := found[found.lastindex or 0]) and len(name) > 2
            ]
        used = {one[1] or one[2] or one[3] for one in _STD.finditer(text)}
        used = {one for one in used if one in self.standard}
        named = tuple((name, name) for name in dict.fromkeys(own))[:MOST_FACTS]
        return FileImports(self.imported(text, path), named, "/" + path, frozenset(used))

    @override
    def file_of(self, source: str, path: str, table: SourceTable) -> str | None:
        inside = source.strip('<>"')
        near = posixpath.normpath(posixpath.join(posixpath.dirname(path), inside))
        if source[0] == '"' and table.facts(near) is not None:
            return near
        found = [one for one in table.named(posixpath.basename(inside)) if f"/{one}".endswith(f"/{inside}")]
        return found[0] if len(found) == 1 else None

    @override
    def is_near(self, source: str) -> bool:
        return source.startswith('"../')

    @override
    def is_said(self, asked: NameSought, home: str) -> bool:
        importing = [path for path, _ in self.importing(home, asked.table) if path != asked.path]
        if asked.path.endswith(_HEADERS):
            return True
        return not importing or not all(path.endswith(_HEADERS) for path in importing)  # else another header brings it

    @override
    def beside(self, home: str, path: str) -> str | None:
        same = posixpath.dirname(home) == posixpath.dirname(path)
        return f'"{posixpath.basename(home)}"' if same else None

    @override
    def category(self, line: ImportLine, path: str, is_own: Callable[[str], bool]) -> int:
        inside = line.source.strip('<>"')
        if line.source[0] == '"':
            own = posixpath.basename(inside).partition(".")[0] == posixpath.basename(path).partition(".")[0]
            return 0 if own else 3
        return 1 if inside.endswith(".h") else 2

    @override
    def rendered(self, name: str, target: ImportTarget, source: str, style: ImportStyle) -> str:
        return f"#include {source}"

    @override
    def form(self, target: ImportTarget) -> str:
        return "include"

    @override
    def is_use(self, before: str, name: str, after: str) -> bool:
        before = before.rstrip()
        if name in self.standard:
            plain = name not in " ".join(_CPP.values()).split()
            called = after.lstrip().startswith("(") or name.endswith("_t")
            return before.endswith("std::") or (plain and called and not before.endswith((".", "->", "::")))
        return not before.endswith((".", "->", "::", "#define", "#ifdef", "#ifndef", "class", "struct", "defined("))

    @override
    def first_place(self, text: str) -> tuple[int, str, str]:
        head = _HEAD.match(text)
        at = head.end() if head is not None else 0
        if (guard := _GUARD.match(text, at)) is not None:
            return guard.end(), "\n", "\n"
        return below_head(text, at)


_REQUIRE: Final = re.compile(r"^([ \t]*)(require(?:_relative)?)[ \t(]+(['\"])([^'\"\n]+)\3\)?", re.MULTILINE)
_MODULE: Final = re.compile(r"^[ \t]*(?:class|module)[ \t]+((?:[A-Z]\w*::)*)([A-Z]\w*)", re.MULTILINE)
_CONSTANT: Final = re.compile(r"(?<![\w:.])[A-Z]\w*")
_RUBY_HEAD: Final = re.compile(r"(?:[ \t]*#[^\n]*\n|\n)*")
_RUBY: Final = {
    "json": "JSON",
    "yaml": "YAML",
    "set": "Set SortedSet",
    "csv": "CSV",
    "fileutils": "FileUtils",
    "pathname": "Pathname",
    "tempfile": "Tempfile",
    "tmpdir": "Dir",
    "stringio": "StringIO",
    "ostruct": "OpenStruct",
    "securerandom": "SecureRandom",
    "digest": "Digest",
    "erb": "ERB",
    "logger": "Logger",
    "uri": "URI",
    "net/http": "Net",
    "open3": "Open3",
    "benchmark": "Benchmark",
    "bigdecimal": "BigDecimal",
    "date": "Date DateTime",
    "forwardable": "Forwardable",
    "singleton": "Singleton",
    "timeout": "Timeout",
    "shellwords": "Shellwords",
    "zlib": "Zlib",
    "base64": "Base64",
    "socket": "TCPServer TCPSocket UNIXSocket",
    "optparse": "OptionParser",
    "openssl": "OpenSSL",
    "etc": "Etc",
    "English": "ENGLISH",
    "strscan": "StringScanner",
    "monitor": "MonitorMixin Monitor",
    "delegate": "SimpleDelegator DelegateClass",
    "rbconfig": "RbConfig",
}


class RequireImports(WholeFileImports):
    """Ruby's `require` and `require_relative`."""

    name = "ruby"
    languages = frozenset({"ruby"})
    endings = (".rb",)
    standard: Mapping[str, tuple[str, ...]] = {
        name: (source,) for source, names in _RUBY.items() for name in names.split() if name not in ("Dir", "ENGLISH")
    }
    keys = (lambda line: (line.form, line.source), lambda line: (line.source,))

    @override
    def statements(self, text: str) -> list[ImportLine]:
        return [
            ImportLine(
                one.end(1),
                line_end(text, one.end()),
                self._source(one),
                (),
                one[2],
                guarded=bool(one[1]),
                spelling=one[0],
            )
            for one in _REQUIRE.finditer(text)
        ]

    @staticmethod
    def _source(found: "re.Match[str]") -> str:
        return f"./{found[4]}" if found[2] == "require_relative" else found[4]

    @override
    def facts_of(self, text: str, path: str) -> FileImports:
        own = dict.fromkeys(found[2] for found in _MODULE.finditer(text))
        used = frozenset(list(dict.fromkeys(_CONSTANT.findall(text)))[:MOST_FACTS])
        return FileImports(
            self.imported(text, path), tuple((name, name) for name in own)[:MOST_FACTS], "/" + path, used
        )

    @override
    def file_of(self, source: str, path: str, table: SourceTable) -> str | None:
        if source.startswith("./"):
            near = posixpath.normpath(posixpath.join(posixpath.dirname(path), source))
            return f"{near.removesuffix('.rb')}.rb"
        tail = f"/{source.removesuffix('.rb')}.rb"
        found = [one for one in table.named(posixpath.basename(tail)) if f"/{one}".endswith(tail)]
        return found[0] if len(found) == 1 else None

    @override
    def is_near(self, source: str) -> bool:
        return source.startswith("./")

    @override
    def is_said(self, asked: NameSought, home: str) -> bool:
        table = asked.table
        users = [one for one in table.using(asked.name) if one not in (asked.path, home)]
        direct = [one for one in users if any(self.file_of(s, one, table) == home for s in self._sources(one, table))]
        return bool(direct) and len(direct) >= _SHARE * len(users)

    @override
    def beside(self, home: str, path: str) -> str | None:
        return f"./{posixpath.relpath(home.removesuffix('.rb'), posixpath.dirname(path) or '.')}"

    @override
    def category(self, line: ImportLine, path: str, is_own: Callable[[str], bool]) -> int:
        return int(line.source.startswith("./"))

    @override
    def rendered(self, name: str, target: ImportTarget, source: str, style: ImportStyle) -> str:
        word, inside = ("require_relative", source[2:]) if source.startswith("./") else ("require", source)
        return f"{word} {style.quote}{inside}{style.quote}"

    @override
    def is_use(self, before: str, name: str, after: str) -> bool:
        before = before.rstrip()
        return name[0].isupper() and not before.endswith(("::", ".", "class", "module", ":"))

    @override
    def first_place(self, text: str) -> tuple[int, str, str]:
        head = _RUBY_HEAD.match(text)
        return (above_comment(text, head.end()) if head is not None else 0), "", "\n\n"
