"""An oracle for renames in Python: the parser's tree, in which a parameter has another name wherever it is meant."""

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """All functions that are no lambdas."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def parameters(function: Function) -> list[ast.arg]:
    """All parameters of a function."""
    given = function.args
    others = [one for one in (given.vararg, given.kwarg) if one is not None]
    return [*given.posonlyargs, *given.args, *given.kwonlyargs, *others]


def renamed_tree(tree: ast.Module, function: Function, parameter: ast.arg, new: str) -> ast.Module:
    """A copy of `tree` in which a function's parameter has the name `new`."""
    memo: dict[int, object] = {}
    copied = copy.deepcopy(tree, memo)
    target, given = memo[id(function)], memo[id(parameter)]
    assert isinstance(target, Function)
    assert isinstance(given, ast.arg)
    old, given.arg = given.arg, new
    body = target.body if isinstance(target.body, list) else [target.body]
    for node in body:
        _Renaming(old, new).visit(node)
    if target in copied.body and given not in (target.args.vararg, target.args.kwarg):
        _rename_in_own_calls(target, old, new)
    return copied


def _rename_in_own_calls(function: Function, old: str, new: str) -> None:
    """Rename a parameter where the function of a module calls itself and names it."""
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name == getattr(function, "name", None):
                for one in node.keywords:
                    one.arg = new if one.arg == old else one.arg


def _own(nodes: list[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of a scope without those of the scopes in it."""
    for node in nodes:
        yield node
        if isinstance(node, Function | ast.ClassDef):
            continue
        inner = list(ast.iter_child_nodes(node))
        if isinstance(node, COMPREHENSIONS):  # it binds nothing here but by `:=`
            yield from (one for one in ast.walk(node) if isinstance(one, ast.NamedExpr))
            continue
        yield from _own(inner)


def _binds(nodes: list[ast.AST], name: str) -> bool:
    found = False
    for node in _own(nodes):
        match node:
            case ast.Nonlocal(names=names) if name in names:
                return False
            case ast.Global(names=names) if name in names:
                return True  # another variable, at least
            case ast.Name(id=own, ctx=ast.Store() | ast.Del()) if own == name:
                found = True
            case ast.NamedExpr(target=ast.Name(id=own)) if own == name:
                found = True
            case ast.FunctionDef(name=own) | ast.AsyncFunctionDef(name=own) | ast.ClassDef(name=own) if own == name:
                found = True
            case ast.ExceptHandler(name=own) | ast.MatchAs(name=own) | ast.MatchStar(name=own) if own == name:
                found = True
            case ast.MatchMapping(rest=own) if own == name:
                found = True
            case ast.alias(name=module, asname=alias) if (alias or module.partition(".")[0]) == name:
                found = True
            case _:
                pass
    return found


@dataclass
class _Renaming(ast.NodeVisitor):
    old: str
    new: str

    def visit_Name(self, node: ast.Name) -> None:
        node.id = self._of(node.id)

    def _of(self, name: str | None) -> str:
        return self.new if name == self.old else name  # type: ignore[return-value]

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        if not isinstance(node, ast.Lambda):
            node.name = self._of(node.name)
            for one in (*node.decorator_list, *([node.returns] if node.returns else [])):
                self.visit(one)
        for given in parameters(node):
            if given.annotation is not None:
                self.visit(given.annotation)
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)
        body: list[ast.AST] = [*node.body] if isinstance(node.body, list) else [node.body]
        if not any(given.arg == self.old for given in parameters(node)) and not _binds([*body], self.old):
            for statement in body:
                self.visit(statement)

    visit_AsyncFunctionDef = visit_Lambda = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        node.name = self._of(node.name)
        for one in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(one)
        bound = _binds([*node.body], self.old)
        for one in node.body:
            if not bound or isinstance(one, Function):
                self.visit(one)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> None:
        first, *others = node.generators
        self.visit(first.iter)
        targets = (one for clause in node.generators for one in ast.walk(clause.target))
        if any(isinstance(one, ast.Name) and one.id == self.old for one in targets):
            return
        results = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
        for one in (first.target, *first.ifs, *others, *results):
            self.visit(one)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        node.name = self._of(node.name) if node.name else None
        self.generic_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        node.name = self._of(node.name) if node.name else None
        self.generic_visit(node)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        node.names = [self._of(name) for name in node.names]

    def visit_alias(self, node: ast.alias) -> None:
        if node.asname:
            node.asname = self._of(node.asname)
        else:
            node.name = self._of(node.name)
