"""Checking whole files: every declaration is elaborated once for all arguments; all errors come at once."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from bittern.base.errors import BitternError, code
from bittern.lang import syntax
from bittern.lang.context import Context, Generics, Reject, expression
from bittern.lang.elaborate import elaborate
from bittern.lang.generics import need_modes, open_generics, resolve
from bittern.lang.lexer import TOO_DEEP
from bittern.lang.library import Library, Module
from bittern.lang.overloads import OVERLOAD_SHAPE, parameter_names
from bittern.lang.source import Diagnostic, Source
from bittern.types.dims import symbol

NO_SOURCE = code("U101", "a source file cannot be read")


def check_text(text: str, name: str, library: Library | None = None) -> list[Diagnostic]:
    """Return all errors of one source text. name: shown as the file's name."""
    library = library or Library.standard()
    check_module(library.add(Path(name).stem, [Source(name, text)]))
    return _ordered(library)


def check_paths(paths: Sequence[str]) -> list[Diagnostic]:
    """Return all errors of `.btn` files and folders of them. Raises U101 where there is nothing to read."""
    library = Library.standard()
    for given in paths:
        path = Path(given)
        try:
            modules = [library.load(name, files, folder) for name, files, folder in _modules(path)]
        except OSError as error:
            what = f"The file {error.filename or path} cannot be read: {error.strerror}."
            raise BitternError(NO_SOURCE, what, "Name a file or folder that exists.") from error
        if not modules:
            raise BitternError(NO_SOURCE, f"The folder {path} holds no `.btn` file.", "Name a file or another folder.")
        for module in modules:
            check_module(module)
    return _ordered(library)


def _modules(path: Path) -> Iterator[tuple[str, list[Path], Path]]:
    """Yield the modules of a path: name, files, and the folder where their `use` looks first."""
    folders = [path.parent]
    if path.is_dir():
        inner = [p.parent for p in path.rglob("*.btn") if not any(n.startswith(".") for n in p.relative_to(path).parts)]
        folders = sorted(set(inner))
    for folder in folders:
        files = sorted(folder.glob("*.btn"))
        if _is_module(folder):
            yield folder.resolve().name, files, folder.parent
        else:
            for file in files if path.is_dir() else [path]:
                yield file.stem, [file], folder


def _is_module(folder: Path) -> bool:
    """Whether the files of a folder are one module: some file beside the folder uses it by its name."""
    used = re.compile(rf"^\s*use\s+{re.escape(folder.resolve().name)}\b", re.MULTILINE)
    beside = folder.resolve().parent.glob("*.btn")
    return any(used.search(file.read_text("utf-8", errors="replace")) for file in beside)


def check_module(module: Module) -> None:
    """Elaborate every declaration of a module; errors go to its library."""
    for const in module.consts.values():
        _guarded(module, const, _check_const)
    for struct in module.structs.values():
        _guarded(module, struct, _check_struct)
    functions = [declaration for members in module.functions.values() for declaration in members]
    deep = [each for each in functions if not _guarded(module, each, _check_function, is_last=False)]
    for each in reversed(deep):  # what they call is elaborated by now
        _guarded(module, each, _check_function)
    for members in module.functions.values():
        _check_overloads(module, members)


Action: TypeAlias = Callable[[Context, syntax.Declared], object]


def _guarded(module: Module, declaration: syntax.Declared, action: Action, *, is_last: bool = True) -> bool:
    """Do something with a declaration; what it rejects becomes a diagnostic. Return whether that was possible.

    is_last: what is nested too deeply for us becomes a diagnostic too.
    """
    errors = module.library.errors
    try:
        action(Context.outside(module), declaration)
    except Reject as reject:
        if reject.diagnostic is not None:
            errors.add(reject.diagnostic)
    except RecursionError:
        if not is_last:
            return False
        name = declaration.name
        message = f"calls and expressions below `{name.name}` are nested too deeply"
        errors.add(
            Diagnostic(TOO_DEEP, name.span, message, hint="name parts of them with `let`, or call in a flatter way")
        )
    return True


def _check_const(ctx: Context, declaration: syntax.Declared) -> None:
    assert isinstance(declaration, syntax.ConstDecl)
    expression(ctx, declaration)


def _check_function(ctx: Context, declaration: syntax.Declared) -> None:
    assert isinstance(declaration, syntax.FunctionDecl)
    elaborate(ctx.module, declaration)


def _check_struct(ctx: Context, struct: syntax.Declared) -> None:
    assert isinstance(struct, syntax.StructDecl)
    dims = [g.name.name for g in struct.generics if not g.kind]
    ctx.generics = Generics({n: symbol(i) for i, n in enumerate(dims)}, open_generics(struct.generics))
    ctx.names = tuple(dims)
    ctx.callers = (struct,)
    for field in struct.fields:
        try:
            need_modes(ctx, field.type, (), "a field")
            resolve(ctx, field.type)
        except Reject as reject:
            ctx.caught(reject)


def _check_overloads(module: Module, members: Sequence[syntax.FunctionDecl]) -> None:
    first = members[0]
    for other in members[1:]:
        if parameter_names(other) != parameter_names(first):
            module.library.errors.add(
                Diagnostic(
                    OVERLOAD_SHAPE,
                    other.name.span,
                    f"the forms of `{other.name.name}` have different parameters",
                    found=", ".join(parameter_names(other)) or "none",
                    expected=", ".join(parameter_names(first)) or "none",
                    hint="overloads differ in the element of their first parameter only",
                    notes=((first.name.span, "declared here first"),),
                )
            )


def _ordered(library: Library) -> list[Diagnostic]:
    return sorted(library.errors.found, key=lambda each: (each.span.source.name, each.span.start))
