"""Which nodes of each grammar are scopes, and what the way from a word up to the root says about the word.

A rule names an edge: `parent.field`, `parent/kind` for a child without a field, or `parent` for all other children.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final

from fastcoder_lsp.edits.syntax_tree import TreeStep


class ScopeOwner(Enum):
    """The owner of a scope's names."""

    FUNCTION = "function"
    CLOSED = "function that sees no variables of the code around it"
    CLASS = "class"
    BLOCK = "block or comprehension"
    NONE = "no scope of its own"


class NameRole(Enum):
    """The meaning of a word in code."""

    THROUGH = "the next edge tells"
    USE = "a use of a variable or type"
    PARAMETER = "bound as a parameter of the scope"
    PROPERTY = "bound as a parameter that is a property, too"
    LOCAL = "bound in the innermost scope"
    HOISTED = "bound in the function or class around"
    CHANGED = "bound there to a value that is made of its own"
    ABOVE = "the name of the scope itself, bound around it"
    IMPORTED = "bound there by an import, under the name that the other file gives it"
    UNCLEAR = "bound here, and another thing's name, too"
    OUTER = "a scope around binds it, as a statement says"
    MEMBER = "a member of a value"
    FREE = "another name, which no scope binds"

    @property
    def binds(self) -> bool:
        """Whether the word is bound here."""
        return self in _BINDING

    @property
    def hoists(self) -> bool:
        """Whether no block keeps the word to itself."""
        return self in (NameRole.HOISTED, NameRole.CHANGED, NameRole.IMPORTED)


_BINDING: Final = frozenset(
    NameRole[word] for word in ("PARAMETER", "PROPERTY", "LOCAL", "HOISTED", "CHANGED", "ABOVE", "IMPORTED", "UNCLEAR")
)
_Refine = Callable[[NameRole, Sequence[TreeStep]], NameRole]


@dataclass(frozen=True)
class ScopeRules:
    """The rules of a language."""

    names: frozenset[str]  # kinds of words that may be variables
    texts: frozenset[str]  # kinds of words that are no code
    scopes: Mapping[str, ScopeOwner]  # by kind of node or edge
    outside: frozenset[str]  # edges to parts of a scope that belong to the scope around it
    first: frozenset[str]  # the same, if the parent is the first clause of its kind
    roles: Mapping[str, NameRole]
    refined: Mapping[str, _Refine]
    shorthands: frozenset[str]  # kinds of words, and edges
    calls: frozenset[str]
    in_order: bool = False  # whether a declaration holds from its end on
    after: bool = False  # whether its end is that of its statement
    again: bool = False  # whether a second declaration in a block is another variable
    class_hides: bool = False  # whether no method sees the names of its class
    implicit: bool = False  # whether a function's variables need no binding

    def role(self, edge: str, parent: str) -> NameRole:
        """What an edge says."""
        return self.roles.get(edge) or self.roles.get(parent) or NameRole.USE


_PYTHON = """
names: identifier
function: function_definition lambda
class: class_definition
block: list_comprehension set_comprehension dictionary_comprehension generator_expression
outside: function_definition.return_type typed_parameter.type default_parameter.value typed_default_parameter.type
  typed_default_parameter.value class_definition.superclasses
parameter: parameters lambda_parameters
through: default_parameter.name typed_default_parameter.name typed_parameter list_splat_pattern
  dictionary_splat_pattern pattern_list tuple_pattern list_pattern tuple list parenthesized_expression
  as_pattern_target as_pattern dotted_name keyword_pattern dict_pattern splat_pattern union_pattern class_pattern
  type_parameter type generic_type/identifier
use: typed_parameter.type class_pattern/dotted_name generic_type/type_parameter
local: for_in_clause.left
hoisted: assignment.left for_statement.left named_expression.name as_pattern.alias aliased_import.alias case_pattern
  delete_statement
changed: augmented_assignment.left
above: function_definition.name class_definition.name
imported: import_statement.name import_from_statement.name
outer: global_statement nonlocal_statement
member: attribute.attribute
free: keyword_argument.name aliased_import.name import_from_statement.module_name relative_import
  keyword_pattern/identifier future_import_statement
unclear: class_definition.type_parameters function_definition.type_parameters type_alias_statement.left
first: for_in_clause.right
flags: class_hides
"""
_SCRIPT = """
names: identifier shorthand_property_identifier shorthand_property_identifier_pattern type_identifier
function: function_declaration function_expression generator_function generator_function_declaration arrow_function
  method_definition class_static_block
class: class_declaration class
block: statement_block for_statement for_in_statement catch_clause switch_body
parameter: formal_parameters arrow_function.parameter catch_clause.parameter
through: array_pattern object_pattern pair_pattern.value rest_pattern assignment_pattern.left
  object_assignment_pattern.left variable_declarator.name
use: object_pattern.type
local: lexical_declaration for_in_statement.left function_expression.name generator_function.name class.name
  import_clause/identifier namespace_import import_specifier.alias
hoisted: variable_declaration
above: function_declaration.name generator_function_declaration.name class_declaration.name
imported: import_specifier.name
member: member_expression.property
unclear: export_specifier.name
free: export_specifier.alias jsx_attribute
shorthands: shorthand_property_identifier shorthand_property_identifier_pattern
calls: call_expression
"""
_TYPED_SCRIPT = f"""{_SCRIPT}
function: function_type method_signature abstract_method_signature function_signature call_signature construct_signature
  constructor_type
class: abstract_class_declaration interface_declaration type_alias_declaration enum_declaration
block: mapped_type_clause conditional_type index_signature
through: required_parameter.pattern optional_parameter.pattern
local: type_parameter.name import_require_clause index_signature.name internal_module.name module.name
above: abstract_class_declaration.name interface_declaration.name type_alias_declaration.name enum_declaration.name
  function_signature.name
unclear: infer_type mapped_type_clause.name
"""


def _dotted(role: NameRole, path: Sequence[TreeStep]) -> NameRole:
    """The first part of a dotted name in Python: an import binds it, a pattern only if it is alone."""
    name = path[-2].node
    if name.start_byte != path[-1].node.start_byte:
        return NameRole.FREE
    return role if "import" in path[-3].kind or name.named_child_count == 1 else NameRole.USE


def _as_in_case(role: NameRole, path: Sequence[TreeStep]) -> NameRole:
    """In Python, the name after `as` has a field but in a pattern."""
    return role if path[-1].edge.endswith(".alias") or path[-3].kind == "case_pattern" else NameRole.USE


def _loop(role: NameRole, path: Sequence[TreeStep]) -> NameRole:
    """A loop's variable is declared by its word, or is another one's."""
    word = path[-2].node.child_by_field_name("kind")
    return NameRole.USE if word is None else NameRole.HOISTED if word.type == "var" else role


def _imported(role: NameRole, path: Sequence[TreeStep]) -> NameRole:
    return NameRole.FREE if path[-2].node.child_by_field_name("alias") is not None else role


def _exported(role: NameRole, path: Sequence[TreeStep]) -> NameRole:
    """An export is of this file's names, or of another's; without an alias it gives them their names there."""
    if len(path) > 3 and path[-4].node.child_by_field_name("source") is not None:
        return NameRole.FREE
    return role if path[-2].node.child_by_field_name("alias") is None else NameRole.USE


def _property(role: NameRole, path: Sequence[TreeStep]) -> NameRole:
    """TypeScript's parameters that are properties."""
    words = ("accessibility_modifier", "override_modifier", "readonly")
    return NameRole.PROPERTY if any(child.type in words for child in path[-2].node.children) else role


def _tag(role: NameRole, path: Sequence[TreeStep]) -> NameRole:
    """A tag's name in lower case is no variable's."""
    name = path[-1].node
    return NameRole.FREE if path[-1].kind == "identifier" and (name.text or b"")[:1].islower() else role


_SCRIPT_REFINED: Final[Mapping[str, _Refine]] = {
    "for_in_statement.left": _loop,
    "import_specifier.name": _imported,
    "export_specifier.name": _exported,
    "required_parameter.pattern": _property,
    "optional_parameter.pattern": _property,
    "jsx_opening_element.name": _tag,
    "jsx_closing_element.name": _tag,
    "jsx_self_closing_element.name": _tag,
}
_TABLES: Final[Mapping[str, tuple[str, Mapping[str, _Refine]]]] = {
    "python": (_PYTHON, {"dotted_name": _dotted, "as_pattern": _as_in_case}),
    **dict.fromkeys(("javascript", "javascriptreact"), (_SCRIPT, _SCRIPT_REFINED)),
    **dict.fromkeys(("typescript", "typescriptreact"), (_TYPED_SCRIPT, _SCRIPT_REFINED)),
}
_TEXTS: Final = frozenset({"string_content", "string_fragment", "jsx_text", "comment", "regex_pattern"})


@lru_cache
def rules_of(language: str) -> ScopeRules:
    """The rules of a language that has a grammar."""
    table, refined = _TABLES.get(language, ("", {}))
    lists = dict[str, list[str]]()
    current = list[str]()
    for word in table.split():
        if word.endswith(":"):
            current = lists.setdefault(word[:-1], [])
        else:
            current.append(word)
    scopes = {word: kind for kind in ScopeOwner for word in lists.get(kind.name.lower(), ())}
    roles = {word: role for role in NameRole for word in lists.get(role.name.lower(), ())}
    names, shorthands, calls, outside, first = (
        frozenset(lists.get(key, ())) for key in ("names", "shorthands", "calls", "outside", "first")
    )
    flags = dict.fromkeys(lists.get("flags", ()), True)
    return ScopeRules(names, _TEXTS, scopes, outside, first, roles, refined, shorthands, calls, **flags)
