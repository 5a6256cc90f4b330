"""Which nodes of each grammar are scopes, and what the way from a word up to the root says about the word.

A rule names an edge: `parent.field`, `parent/kind` for a child without a field, or `parent` for all other children.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final

from tree_sitter import Node

from fastcoder_lsp.edits.syntax_tree import TreeStep


class ScopeOwner(Enum):
    """The owner of a scope's names."""

    FUNCTION = "function"
    CLOSED = "function that sees no variables of the code around it"
    CLASS = "class"
    BLOCK = "block or comprehension"
    TEMPLATE = "parameters of types around a definition"
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
    EXPORTED = "a use that gives a variable its name in other files, too"
    OUTER = "a scope around binds it, as a statement says"
    DECLARED = "the name of a method or function, which calls find without a scope"
    TYPE = "a class or function where those are no variables"
    MEMBER = "a member of a value"
    FREE = "another name, which no scope binds"

    @property
    def binds(self) -> bool:
        """Whether the word is bound here."""
        return self in _BINDING

    @property
    def free(self) -> bool:
        """Whether no scope binds the word."""
        return self in _FREE

    @property
    def hoists(self) -> bool:
        """Whether no block keeps the word to itself."""
        return self in (NameRole.HOISTED, NameRole.CHANGED, NameRole.IMPORTED)


_BINDING: Final = frozenset(
    NameRole[word] for word in ("PARAMETER", "PROPERTY", "LOCAL", "HOISTED", "CHANGED", "ABOVE", "IMPORTED", "UNCLEAR")
)
_FREE: Final = frozenset({NameRole.DECLARED, NameRole.TYPE, NameRole.MEMBER, NameRole.FREE})
_Refine = Callable[[NameRole, Sequence[TreeStep]], NameRole]


@dataclass(frozen=True)
class ScopeRules:
    """The rules of a language."""

    names: frozenset[str]  # kinds of words that may be variables
    texts: frozenset[str]  # kinds of words that are no code
    scopes: Mapping[str, ScopeOwner]  # by kind of node or edge
    outside: frozenset[str]  # edges to parts of a scope that belong to the scope around it
    outside_if: Mapping[str, Callable[[Node], bool]]  # the same, if this holds; an edge, or the kind of its parent
    roles: Mapping[str, NameRole]
    refined: Mapping[str, _Refine]
    since: Mapping[str, Callable[[Node], int]]  # edge → where a declaration begins to hold
    embedded: tuple[re.Pattern[str], re.Pattern[str], NameRole] | None
    shorthands: frozenset[str]  # kinds of words, and edges
    continued: frozenset[str]  # kinds of nodes that belong to the scope that ends before them
    in_order: bool = False  # whether a declaration holds from its end on
    after: bool = False  # whether its end is that of its statement
    again: bool = False  # whether a second declaration in a block is another variable
    class_hides: bool = False  # whether no method sees the names of its class
    implicit: bool = False  # whether a function's variables need no binding
    adopts: bool = False  # whether an assignment in a block is to a variable around it, if there is one
    calls: bool = False  # whether a call of a name may call a variable, or a method

    def role(self, edge: str, parent: str) -> NameRole:
        """The role of a name at an edge of the tree."""
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
exported: export_specifier.name
free: export_specifier.alias jsx_attribute
shorthands: shorthand_property_identifier shorthand_property_identifier_pattern
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


_GO = """
names: identifier type_identifier package_identifier
function: function_declaration method_declaration func_literal function_type method_elem
class: type_spec type_alias
block: block if_statement for_statement expression_switch_statement type_switch_statement communication_case
  expression_case default_case type_case
none: function_declaration.body method_declaration.body func_literal.body
parameter: parameter_declaration.name variadic_parameter_declaration.name
through: expression_list literal_element
local: short_var_declaration.left var_spec.name const_spec.name range_clause.left receive_statement.left
  type_switch_statement.alias import_spec.name type_parameter_declaration.name
above: function_declaration.name type_spec.name type_alias.name
member: selector_expression.field
free: package_clause keyed_element.key
flags: in_order after
"""
_RUST = """
names: identifier type_identifier shorthand_field_identifier
function: function_item closure_expression function_signature_item
class: struct_item enum_item union_item trait_item impl_item type_item mod_item
block: block match_arm if_expression while_expression for_expression
outside: if_expression.alternative for_expression.value
parameter: parameter.pattern closure_parameters
through: tuple_pattern struct_pattern field_pattern reference_pattern mut_pattern ref_pattern captured_pattern
  or_pattern slice_pattern tuple_struct_pattern match_pattern
use: struct_pattern.type tuple_struct_pattern.type match_pattern.condition
local: let_declaration.pattern let_condition.pattern match_arm.pattern for_expression.pattern static_item.name
  const_item.name use_as_clause.alias type_parameter.name const_parameter.name
above: function_item.name function_signature_item.name struct_item.name enum_item.name union_item.name trait_item.name
  type_item.name mod_item.name
imported: use_declaration.argument use_list
member: field_expression.field
free: lifetime label attribute macro_invocation.macro scoped_identifier.name scoped_type_identifier.name
  use_as_clause.path enum_variant.name macro_definition.name extern_crate_declaration.name use_wildcard
shorthands: shorthand_field_identifier shorthand_field_initializer/identifier
flags: in_order after again
"""
_JAVA = """
names: identifier type_identifier
function: method_declaration constructor_declaration lambda_expression compact_constructor_declaration
class: class_declaration interface_declaration enum_declaration record_declaration annotation_type_declaration
  object_creation_expression/class_body enum_constant.body
block: block constructor_body for_statement enhanced_for_statement try_with_resources_statement catch_clause
  switch_block switch_block_statement_group switch_rule
outside: enhanced_for_statement.value
parameter: formal_parameter.name spread_parameter catch_formal_parameter.name lambda_expression.parameters
  inferred_parameters
through: variable_declarator.name
use: spread_parameter/type_identifier
local: local_variable_declaration.declarator field_declaration.declarator enhanced_for_statement.name resource.name
  instanceof_expression.name type_parameter/type_identifier type_parameter/identifier type_pattern/identifier
  record_pattern_component/identifier
above: class_declaration.name interface_declaration.name enum_declaration.name record_declaration.name
  annotation_type_declaration.name
declared: method_declaration.name method_invocation.name enum_constant.name
member: field_access.field
free: element_value_pair.key labeled_statement/identifier break_statement continue_statement package_declaration
flags: in_order
"""
_C = """
names: identifier type_identifier
function: function_definition preproc_function_def
block: compound_statement for_statement if_statement while_statement switch_statement declaration.declarator
  field_declaration.declarator parameter_declaration.declarator type_definition.declarator
parameter: parameter_declaration.declarator optional_parameter_declaration.declarator
  variadic_parameter_declaration.declarator preproc_params
through: init_declarator.declarator pointer_declarator.declarator reference_declarator array_declarator.declarator
  function_declarator.declarator parenthesized_declarator variadic_declarator structured_binding_declarator
  attributed_declarator/identifier
local: declaration.declarator type_definition.declarator preproc_def.name enumerator.name
above: function_definition.declarator preproc_function_def.name
member: field_expression.field
free: struct_specifier.name union_specifier.name enum_specifier.name
flags: in_order
"""
_CPP = f"""{_C}
names: namespace_identifier
function: lambda_expression
class: class_specifier struct_specifier union_specifier namespace_definition
template: template_declaration
block: for_range_loop catch_clause field_declaration_list/declaration.declarator
outside: for_range_loop.right
local: for_range_loop.declarator namespace_definition.name alias_declaration.name type_parameter_declaration
  lambda_capture_initializer.left
above: class_specifier.name
free: qualified_identifier.name destructor_name
type: qualified_identifier.scope
flags: calls
"""
_CSHARP = """
names: identifier implicit_parameter
function: method_declaration constructor_declaration local_function_statement lambda_expression
  anonymous_method_expression operator_declaration delegate_declaration indexer_declaration accessor_declaration
  conversion_operator_declaration
class: class_declaration struct_declaration record_declaration interface_declaration enum_declaration
  namespace_declaration
block: block for_statement foreach_statement using_statement catch_clause switch_section switch_expression_arm
  query_expression fixed_statement
outside: foreach_statement.right
parameter: parameter.name parameter_list.name lambda_expression.parameters
through: tuple_pattern.name generic_name/identifier
local: variable_declarator.name variable_declarator/tuple_pattern declaration_expression.name declaration_pattern.name
  recursive_pattern.name var_pattern.name catch_declaration.name foreach_statement.left from_clause.name
  type_parameter.name using_directive.name
above: class_declaration.name struct_declaration.name record_declaration.name interface_declaration.name
  enum_declaration.name delegate_declaration.name local_function_statement.name
declared: method_declaration.name property_declaration.name enum_member_declaration.name
member: member_access_expression.name member_binding_expression.name
free: attribute_argument.name argument.name subpattern/identifier labeled_statement/identifier goto_statement
  qualified_name.name
unclear: let_clause/identifier join_clause/identifier query_expression/identifier
flags: in_order calls
"""
_PHP = """
names: name
closed: function_definition method_declaration anonymous_function
function: arrow_function
parameter: simple_parameter.name variadic_parameter.name
property: property_promotion_parameter.name
through: variable_name by_ref list_literal pair
hoisted: assignment_expression.left reference_assignment_expression.left static_variable_declaration.name
  catch_clause.name foreach_statement/pair foreach_statement/list_literal
changed: augmented_assignment_expression.left update_expression.argument
outer: anonymous_function_use_clause global_declaration
member: member_access_expression.name nullsafe_member_access_expression.name member_call_expression.name
  nullsafe_member_call_expression.name scoped_property_access_expression.name scoped_call_expression.name
  property_element.name
flags: implicit
"""
_RUBY = """
names: identifier hash_key_symbol
closed: method singleton_method class module singleton_class
block: block do_block lambda
none: lambda.body
parameter: method_parameters block_parameters lambda_parameters
property: keyword_parameter.name
through: optional_parameter.name splat_parameter.name hash_splat_parameter.name block_parameter.name
  destructured_parameter left_assignment_list destructured_left_assignment rest_assignment array_pattern hash_pattern
  find_pattern as_pattern alternative_pattern keyword_pattern.value
hoisted: assignment.left for.pattern exception_variable in_clause.pattern match_pattern.pattern test_pattern.pattern
changed: operator_assignment.left
member: call.method
free: method.name singleton_method.name setter alias undef pair.key keyword_pattern.key
flags: implicit adopts
"""
_KOTLIN = """
names: identifier
function: function_declaration anonymous_function lambda_literal secondary_constructor setter getter
class: class_declaration object_declaration companion_object object_literal
block: block for_statement when_expression catch_block
parameter: parameter/identifier setter/identifier lambda_parameters class_parameter/identifier
through: variable_declaration/identifier multi_variable_declaration
local: property_declaration/variable_declaration property_declaration/multi_variable_declaration
  for_statement/variable_declaration for_statement/multi_variable_declaration when_subject/variable_declaration
  catch_block/identifier type_parameter/identifier type_alias.type import/identifier
above: class_declaration.name object_declaration.name
declared: function_declaration.name enum_entry/identifier
free: package_header qualified_identifier return_expression.label this_expression
flags: in_order after calls
"""
_LUA = """
names: identifier
function: function_declaration function_definition
block: block for_statement repeat_statement
none: repeat_statement.body
parameter: parameters
through: variable_list.name assignment_statement/variable_list
local: for_generic_clause/variable_list for_numeric_clause.name variable_declaration
above: function_declaration.name
member: dot_index_expression.field method_index_expression.method
free: attribute field.name goto_statement label_statement
flags: in_order after again
"""
_SWIFT = """
names: simple_identifier type_identifier
function: function_declaration init_declaration lambda_literal protocol_function_declaration
class: class_declaration protocol_declaration
block: statements for_statement while_statement switch_entry catch_block if_statement
outside: for_statement.collection
parameter: parameter.name lambda_parameter.name
through: pattern identifier
local: property_declaration.name for_statement.item catch_block.error if_statement.bound_identifier
  guard_statement.bound_identifier while_statement.bound_identifier type_parameter/type_identifier
  typealias_declaration.name if_statement.condition guard_statement.condition while_statement.condition switch_pattern
use: user_type pattern.name
above: class_declaration.name protocol_declaration.name
declared: function_declaration.name enum_entry.name protocol_function_declaration.name
member: navigation_suffix.suffix
free: parameter.external_name value_argument_label tuple_expression.name selector_expression import_declaration
flags: in_order after
"""
_SCALA = """
names: identifier type_identifier
function: function_definition function_declaration lambda_expression extension_definition
class: class_definition object_definition trait_definition enum_definition
block: block indented_block case_clause for_expression
parameter: parameter.name binding.name lambda_expression.parameters class_parameter.name
through: tuple_pattern case_class_pattern.pattern infix_pattern capture_pattern typed_pattern.pattern
  alternative_pattern
local: val_definition.pattern var_definition.pattern case_clause.pattern enumerator given_definition.name
  type_definition.name type_parameters.name arrow_renamed_identifier.alias
above: function_definition.name function_declaration.name class_definition.name object_definition.name
  trait_definition.name enum_definition.name
imported: namespace_selectors
member: field_expression.field
free: import_declaration.path arrow_renamed_identifier.name interpolated_string_expression.interpolator
  infix_expression.operator infix_pattern.operator package_identifier
flags: in_order after
"""
_DART = """
names: identifier identifier_dollar_escaped type_identifier
function: method_signature function_signature lambda_expression function_expression function_type type_alias
  formal_parameter/formal_parameter_list declaration
none: method_signature/function_signature lambda_expression.parameters
class: class_definition mixin_declaration extension_declaration enum_declaration
block: block for_statement for_element switch_statement_case try_statement if_statement
parameter: formal_parameter.name formal_parameter/identifier typed_identifier/identifier
property: constructor_param super_formal_parameter
through: initialized_identifier static_final_declaration initialized_identifier_list static_final_declaration_list
  record_pattern constant_pattern
local: initialized_variable_definition.name initialized_variable_definition/initialized_identifier
  program/initialized_identifier_list program/static_final_declaration_list for_loop_parts.name catch_parameters
  variable_pattern/identifier type_parameter
above: class_definition.name enum_declaration.name function_signature.name declaration/initialized_identifier_list
  declaration/static_final_declaration_list mixin_declaration/identifier extension_declaration.name
unclear: pattern_variable_declaration
declared: getter_signature.name setter_signature.name enum_constant.name
member: unconditional_assignable_selector conditional_assignable_selector cascade_selector
free: label labeled_statement/identifier break_statement continue_statement field_initializer/identifier
continued: function_body
flags: in_order calls
"""
_SHELL = """
names: variable_name word
function: function_definition
through: variable_assignment.name
local: declaration_command
flags:
"""
_PERL = """
names: varname
function: subroutine_declaration_statement anonymous_subroutine_expression method_declaration_statement
block: block block_statement for_statement loop_statement conditional_statement
outside: for_statement.list
parameter: mandatory_parameter optional_parameter/scalar
through: scalar
local: variable_declaration.variable variable_declaration.variables for_statement.variable
free: array hash container_variable arraylen glob
flags: in_order again
"""


def _before(node: Node) -> str:
    return node.prev_sibling.type if node.prev_sibling is not None else ""


def _after(node: Node) -> str:
    return node.next_sibling.type if node.next_sibling is not None else ""


def _is_first(node: Node) -> bool:
    return node.prev_named_sibling is None


def _text(node: Node) -> str:
    return (node.text or b"").decode()


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


def _entry_key(role: NameRole, path: Sequence[TreeStep]) -> NameRole:
    """A key of a composite literal in Go: a field's name, but in a map."""
    literal = next((one.node for one in reversed(path) if one.kind == "composite_literal"), None)
    kind = literal.child_by_field_name("type") if literal is not None else None
    nested = sum(one.kind == "literal_value" for one in path) > 1
    return NameRole.USE if kind is not None and kind.type == "map_type" and not nested else role


def _declared(role: NameRole, path: Sequence[TreeStep]) -> NameRole:
    """Go's statements that declare a variable or assign to it."""
    return role if any(child.type == ":=" for child in path[-2].node.children) else NameRole.USE


def _item(role: NameRole, path: Sequence[TreeStep]) -> NameRole:
    """Rust's functions in an `impl` or a trait are no variables."""
    return NameRole.DECLARED if len(path) > 3 and path[-4].kind in ("impl_item", "trait_item") else role


def _used(role: NameRole, path: Sequence[TreeStep]) -> NameRole:
    return NameRole.IMPORTED if any(one.kind == "use_declaration" for one in path) else role


def _path(role: NameRole, path: Sequence[TreeStep]) -> NameRole:
    return NameRole.FREE if any(one.kind == "use_declaration" for one in path) else role


def _of_macro(_: NameRole, path: Sequence[TreeStep]) -> NameRole:
    """A word among a macro's arguments in Rust, which are no tree."""
    before, after = _before(path[-1].node), _after(path[-1].node)
    if before == "::" or any(one.kind in ("attribute", "attribute_item") for one in path):
        return NameRole.FREE
    if before == ".":
        return NameRole.MEMBER
    if after == ":" and before in ("{", ","):
        return NameRole.FREE
    field = before in ("{", ",") and after in (",", "}") and path[-2].node.children[0].type == "{"
    named = after == "=" and before in ("(", ",")
    return NameRole.UNCLEAR if field or named or before in ("let", "mut") or before == after == "|" else NameRole.USE


def _no_constant(role: NameRole, path: Sequence[TreeStep]) -> NameRole:
    """A word in a pattern that begins with a capital is a constant, or a variant."""
    capital = role is NameRole.LOCAL and _text(path[-1].node)[:1].isupper()
    return NameRole.USE if capital and "pattern" in path[-1].edge + path[-2].edge else role


def _in_import(_: NameRole, path: Sequence[TreeStep]) -> NameRole:
    """Java's dotted names: the last part of an import."""
    if not any(one.kind in ("import_declaration", "package_declaration") for one in path):
        return NameRole.FREE if path[-1].edge.endswith(".name") else NameRole.USE
    return (
        NameRole.IMPORTED
        if path[-3].kind == "import_declaration" and path[-1].edge.endswith(".name")
        else NameRole.FREE
    )


def _unless_first(role: NameRole, path: Sequence[TreeStep]) -> NameRole:
    return role if _is_first(path[-1].node) else NameRole.MEMBER


def _if_first(role: NameRole, path: Sequence[TreeStep]) -> NameRole:
    return role if _is_first(path[-1].node) else NameRole.USE


def _of_record(role: NameRole, path: Sequence[TreeStep]) -> NameRole:
    """Parameters of a record or class are properties."""
    return NameRole.PROPERTY if len(path) > 3 and path[-4].kind == "record_declaration" else role


def _class_parameter(role: NameRole, path: Sequence[TreeStep]) -> NameRole:
    words = {child.type for child in path[-2].node.children} | {_text(child) for child in path[-2].node.children}
    case = len(path) > 3 and _before(path[-4].node) == "case"
    return NameRole.PROPERTY if words & {"val", "var"} or case else role


def _tagged(role: NameRole, path: Sequence[TreeStep]) -> NameRole:
    """The name after `struct` in C++ is declared where a body follows."""
    return NameRole.UNCLEAR if path[-2].node.child_by_field_name("body") is not None else role


def _key_before_equals(role: NameRole, path: Sequence[TreeStep]) -> NameRole:
    return NameRole.FREE if _after(path[-1].node) == "=" else role


def _of_new_object(role: NameRole, path: Sequence[TreeStep]) -> NameRole:
    inside = len(path) > 2 and path[-3].kind in ("initializer_expression", "with_initializer", "arguments")
    return NameRole.FREE if inside else role


def _of_anonymous(_: NameRole, path: Sequence[TreeStep]) -> NameRole:
    """A property of C#'s anonymous objects, which may take its name from a variable."""
    node = path[-1].node
    if _after(node) == "=":
        return NameRole.FREE
    return NameRole.UNCLEAR if _before(node) in ("{", ",") and _after(node) in ("}", ",") else NameRole.USE


def _php_name(role: NameRole, path: Sequence[TreeStep]) -> NameRole:
    """Only names with a dollar sign are variables."""
    if path[-2].kind in ("variable_name", "dynamic_variable_name"):
        template = any(_before(one.node) == "text_interpolation" for one in path)
        return NameRole.UNCLEAR if template else NameRole.FREE if _text(path[-1].node) == "this" else role
    return role if role.free else NameRole.TYPE


def _foreach(_: NameRole, path: Sequence[TreeStep]) -> NameRole:
    return NameRole.HOISTED if _before(path[-1].node) in ("as", "&") else NameRole.USE


def _ruby_key(role: NameRole, path: Sequence[TreeStep]) -> NameRole:
    """A key without a value is a variable's name, too."""
    alone = path[-2].node.child_by_field_name("value") is None
    return (
        NameRole.UNCLEAR
        if alone and path[-1].kind == "hash_key_symbol"
        else NameRole.USE
        if path[-1].kind == "identifier"
        else role
    )


def _infix(role: NameRole, path: Sequence[TreeStep]) -> NameRole:
    node = path[-1].node
    return NameRole.FREE if node.prev_named_sibling is not None and node.next_named_sibling is not None else role


def _dotted_type(role: NameRole, path: Sequence[TreeStep]) -> NameRole:
    return NameRole.FREE if _before(path[-1].node) == "." else role


def _kotlin_import(_: NameRole, path: Sequence[TreeStep]) -> NameRole:
    node, alias = path[-1].node, path[-2].node.next_named_sibling
    last = path[-3].kind == "import" and node.next_named_sibling is None and alias is None
    return NameRole.IMPORTED if last and _after(path[-2].node) != "." else NameRole.FREE


def _scala_import(role: NameRole, path: Sequence[TreeStep]) -> NameRole:
    return NameRole.IMPORTED if path[-1].node.next_sibling is None else role


def _lua_function(role: NameRole, path: Sequence[TreeStep]) -> NameRole:
    return role if path[-2].edge.endswith("local_declaration") else NameRole.USE


def _lua_key(role: NameRole, path: Sequence[TreeStep]) -> NameRole:
    return NameRole.USE if _before(path[-1].node) == "[" else role


def _swift_pattern(role: NameRole, path: Sequence[TreeStep]) -> NameRole:
    return NameRole.FREE if _before(path[-1].node) == "." else role


def _swift_condition(role: NameRole, path: Sequence[TreeStep]) -> NameRole:
    return role if path[-1].kind == "pattern" else NameRole.USE


def _swift_bound(role: NameRole, path: Sequence[TreeStep]) -> NameRole:
    return role if _after(path[-1].node) in ("=", ":", "type_annotation") else NameRole.UNCLEAR


def _swift_case(role: NameRole, path: Sequence[TreeStep]) -> NameRole:
    return role if {"let", "var"} & set(_text(path[-2].node).replace("(", " ").split()) else NameRole.USE


def _method(role: NameRole, path: Sequence[TreeStep]) -> NameRole:
    return NameRole.DECLARED if path[-3].kind in ("template_body", "method_signature") else role


def _dart_loop(role: NameRole, path: Sequence[TreeStep]) -> NameRole:
    return role if _before(path[-1].node) else NameRole.USE


def _shell_word(role: NameRole, path: Sequence[TreeStep]) -> NameRole:
    """A word of a command is a variable's name after some commands."""
    if path[-1].kind != "word" or path[-1].edge == "subscript.index":
        return role
    if path[-1].edge != "command.argument":
        return (
            NameRole.USE
            if path[-2].kind == "unary_expression" and _before(path[-1].node) == "test_operator"
            else NameRole.FREE
        )
    named = {"read", "mapfile", "readarray", "getopts", "let", "unset", "printf"}
    name = path[-2].node.child_by_field_name("name")
    return NameRole.UNCLEAR if name is not None and _text(name) in named else NameRole.FREE


def _shell_local(role: NameRole, path: Sequence[TreeStep]) -> NameRole:
    word = next(iter(path[-2].node.children), None)
    return role if word is not None and word.type in ("local", "declare", "typeset", "readonly") else NameRole.USE


def _assignment_end(node: Node) -> int:
    """In Perl, a variable is declared after the statement."""
    while node.parent is not None and node.parent.type in ("variable_declaration", "assignment_expression", "scalar"):
        node = node.parent
    return node.end_byte


def _value_end(node: Node) -> int:
    """In Swift, a variable of a condition holds after its value."""
    after = node.next_sibling
    while after is not None and after.type not in ("=", ",", "{"):
        after = after.next_sibling
    value = after.next_sibling if after is not None and after.type == "=" else None
    return value.end_byte if value is not None else node.end_byte


def _is_first_iterable(node: Node) -> bool:
    clause = node.parent.prev_named_sibling if node.parent is not None else None
    return clause is not None and clause.prev_named_sibling is None


def _is_iterated(node: Node) -> bool:
    return _before(node) == "in"


def _is_otherwise(node: Node) -> bool:
    before = node.prev_sibling
    while before is not None and before.type != "else":
        before = before.prev_sibling
    return before is not None


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
    "go": (_GO, {"keyed_element.key": _entry_key, "range_clause.left": _declared, "receive_statement.left": _declared}),
    "rust": (
        _RUST,
        {
            **dict.fromkeys(("function_item.name", "function_signature_item.name", "const_item.name"), _item),
            "type_item.name": _item,
            "scoped_identifier.name": _used,
            "scoped_identifier.path": _path,
            "scoped_use_list.path": _path,
            "token_tree": _of_macro,
            "*": _no_constant,
        },
    ),
    "java": (
        _JAVA,
        {
            "scoped_identifier": _in_import,
            "scoped_type_identifier": _unless_first,
            "method_reference": _unless_first,
            "record_pattern": _if_first,
            "formal_parameter.name": _of_record,
        },
    ),
    "c": (_C, {}),
    **dict.fromkeys(
        ("cpp", "cuda-cpp"),
        (_CPP, {"struct_specifier.name": _tagged, "union_specifier.name": _tagged, "enum_specifier.name": _tagged}),
    ),
    "csharp": (
        _CSHARP,
        {
            "parameter.name": _of_record,
            "assignment_expression.left": _of_new_object,
            "with_initializer": _key_before_equals,
            "anonymous_object_creation_expression": _of_anonymous,
        },
    ),
    "php": (_PHP, {"foreach_statement/variable_name": _foreach, "foreach_statement/by_ref": _foreach, "*": _php_name}),
    "ruby": (_RUBY, {"pair.key": _ruby_key, "keyword_pattern.key": _ruby_key}),
    "kotlin": (
        _KOTLIN,
        {
            "class_parameter/identifier": _class_parameter,
            "value_argument/identifier": _key_before_equals,
            "navigation_expression": _unless_first,
            "user_type": _dotted_type,
            "qualified_identifier": _kotlin_import,
            "infix_expression": _infix,
        },
    ),
    "lua": (_LUA, {"function_declaration.name": _lua_function, "field.name": _lua_key}),
    "swift": (
        _SWIFT,
        {
            "pattern/simple_identifier": _swift_pattern,
            "if_statement.condition": _swift_condition,
            "guard_statement.condition": _swift_condition,
            "while_statement.condition": _swift_condition,
            "if_statement.bound_identifier": _swift_bound,
            "guard_statement.bound_identifier": _swift_bound,
            "while_statement.bound_identifier": _swift_bound,
            "switch_pattern": _swift_case,
        },
    ),
    "scala": (
        _SCALA,
        {
            "enumerator": _if_first,
            "class_parameter.name": _class_parameter,
            "assignment_expression.left": _of_new_object,
            "import_declaration.path": _scala_import,
            "function_definition.name": _method,
            "function_declaration.name": _method,
            "*": _no_constant,
        },
    ),
    "dart": (
        _DART,
        {
            "initialized_identifier": _if_first,
            "static_final_declaration": _if_first,
            "field_initializer/identifier": _if_first,
            "function_signature.name": _method,
            "for_loop_parts.name": _dart_loop,
        },
    ),
    "shellscript": (_SHELL, {"declaration_command": _shell_local, "*": _shell_word}),
    "perl": (_PERL, {}),
}
"""Language id → its rules, and functions for edges that do not tell all; `*` for every word."""
_OUTSIDE_IF: Final = {
    "python": {"for_in_clause.right": _is_first_iterable},
    "kotlin": {"for_statement": _is_iterated},
    "swift": {"if_statement": _is_otherwise},
}
_EMBEDDED: Final = {
    "kotlin": (re.compile(r"(?<!\\)\$$"), re.compile(""), NameRole.USE),
    "php": (re.compile(r"\bcompact\([^()]*['\"]$"), re.compile(""), NameRole.UNCLEAR),
    "rust": (re.compile(r"\w!\s*[(\[][^;]*(?<!\{)\{$"), re.compile(r"[:}]"), NameRole.USE),
}
"""The text before and after a name in a string, where no tree shows it, and its role."""
_SINCE: Final = {
    "lua": {"function_declaration.name": lambda node: node.start_byte},
    "perl": {"variable_declaration.variable": _assignment_end, "variable_declaration.variables": _assignment_end},
    "swift": {
        "if_statement.bound_identifier": _value_end,
        "while_statement.bound_identifier": _value_end,
    },
}
_TEXTS: Final = frozenset({
    "string_content", "string_fragment", "jsx_text", "comment", "line_comment", "block_comment", "regex_pattern",
    "interpreted_string_literal_content", "raw_string_literal_content", "heredoc_body", "text", "preproc_arg",
})  # fmt: skip


@lru_cache
def rules_of(language: str) -> ScopeRules:
    """The rules of a language that has a grammar."""
    table, refined = _TABLES.get(language, ("", {}))
    lists = defaultdict[str, list[str]](list)
    key = ""
    for word in table.split():
        if word.endswith(":"):
            key = word[:-1]
        else:
            lists[key].append(word)
    return ScopeRules(
        names=frozenset(lists["names"]),
        texts=_TEXTS,
        scopes={word: kind for kind in ScopeOwner for word in lists[kind.name.lower()]},
        outside=frozenset(lists["outside"]),
        outside_if=_OUTSIDE_IF.get(language, {}),
        roles={word: role for role in NameRole for word in lists[role.name.lower()]},
        refined=refined,
        since=_SINCE.get(language, {}),
        embedded=_EMBEDDED.get(language),
        shorthands=frozenset(lists["shorthands"]),
        continued=frozenset(lists["continued"]),
        **dict.fromkeys(lists["flags"], True),
    )
