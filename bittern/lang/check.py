"""Checking whole files: every declaration is elaborated once for all arguments; all errors come at once."""

from pathlib import Path

from bittern.base.errors import BitternError, code
from bittern.graph.node import Function
from bittern.lang import syntax
from bittern.lang.context import Context, Generics, Reject
from bittern.lang.elaborate import OVERLOAD_SHAPE, constant_value, instance_for
from bittern.lang.frame import Frame, Scope
from bittern.lang.generics import open_generics, resolve
from bittern.lang.library import Library, Module, mark
from bittern.lang.source import Diagnostic, Source
from bittern.types.dims import symbol

NO_SOURCE = code("U101", "a source file cannot be read")


def check_text(text: str, name: str, library: Library | None = None) -> list[Diagnostic]:
    """Return all errors of one source text. name: shown as the file's name."""
    library = library or Library.standard()
    module = library.add(Path(name).stem, [Source(name, text)])
    check_module(module)
    return _ordered(library)


def check_paths(paths: list[str]) -> list[Diagnostic]:
    """Return all errors of `.btn` files and folders of them. Raises U101 where there is nothing to read."""
    library = Library.standard()
    for given in paths:
        path = Path(given)
        files = sorted(path.rglob("*.btn")) if path.is_dir() else [path]
        if not files:
            raise BitternError(NO_SOURCE, f"The folder {path} holds no `.btn` file.", "Name a file or another folder.")
        for file in files:
            try:
                text = file.read_bytes().decode("utf-8", errors="replace")
            except OSError as error:
                raise BitternError(
                    NO_SOURCE, f"The file {file} cannot be read: {error.strerror}.", "Name a file that exists."
                ) from error
            check_module(library.add(file.stem, [Source(str(file), text)], file.parent))
    return _ordered(library)


def check_module(module: Module) -> None:
    """Elaborate every declaration of a module; errors go to its library."""
    for const in module.consts.values():
        _guard(module, lambda ctx, const=const: constant_value(ctx, module, const))  # type: ignore[misc]
    for struct in module.structs.values():
        _guard(module, lambda ctx, struct=struct: _check_struct(ctx, struct))  # type: ignore[misc]
    for members in module.functions.values():
        for declaration in members:
            _quietly(module, declaration)
        _check_overloads(module, members)


def functions(module: Module) -> dict[str, Function]:
    """Return the elaborated functions of a module without element parameters, by name; overloads carry their mark."""
    found = {}
    for name, members in module.functions.items():
        for declaration in members:
            if not open_generics(declaration.generics):
                key = name if len(members) == 1 else f"{name}.{mark(declaration)}"
                found[key] = instance_for(module, declaration, {})
    return found


def _quietly(module: Module, declaration: syntax.FunctionDecl) -> None:
    try:
        instance_for(module, declaration, {})
    except BitternError:
        assert module.library.errors.found


def _guard(module: Module, action: object) -> None:
    frame = Frame("function", None, ())
    ctx = Context(module.library, module, Generics(), frame, Scope(frame), module.library.errors)
    try:
        action(ctx)  # type: ignore[operator]
    except Reject as reject:
        ctx.caught(reject)


def _check_struct(ctx: Context, struct: syntax.StructDecl) -> None:
    dims = [g.name.name for g in struct.generics if not g.kind]
    ctx.generics = Generics({n: symbol(i) for i, n in enumerate(dims)}, open_generics(struct.generics))
    ctx.names = tuple(dims)
    for field in struct.fields:
        resolve(ctx, field.type)


def _check_overloads(module: Module, members: list[syntax.FunctionDecl]) -> None:
    first = members[0]
    for other in members[1:]:
        same = len(first.parameters) == len(other.parameters) and [p.name.name for p in first.parameters] == [
            p.name.name for p in other.parameters
        ]
        if not same:
            module.library.errors.add(
                Diagnostic(
                    OVERLOAD_SHAPE,
                    other.name.span,
                    f"`{other.name.name}` is declared with other parameters elsewhere",
                    hint="overloads differ in the element of the first parameter only",
                    notes=((first.name.span, "declared here first"),),
                )
            )


def _ordered(library: Library) -> list[Diagnostic]:
    return sorted(library.errors.found, key=lambda d: (d.span.source.name, d.span.start))
