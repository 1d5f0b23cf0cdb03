"""Modules and the library: finding declarations by name, and elaborated functions by the same names.

A module is a file `NAME.btn`, or a folder `NAME/` whose files share one module. `use NAME` looks beside the using file
first, then in the other folders of the library in order. A user's text cannot change what a library module says, but a
folder given earlier hides a module of a later folder whole.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bittern.base.errors import BitternError, code, nearest
from bittern.graph.node import Function
from bittern.lang import syntax
from bittern.lang.context import Errors
from bittern.lang.parser import parse
from bittern.lang.source import Diagnostic, Source, Span
from bittern.types.elements import ELEMENTS

UNKNOWN_MODULE = code("E202", "unknown module or declaration in `use`")
TWICE = code("E203", "a name is declared twice")
RESERVED = code("E204", "a declaration takes the name of an operation or type")
NO_SUCH_FUNCTION = code("E211", "the library has no function of this name")
BROKEN = code("E212", "a program has errors")


@dataclass(frozen=True, slots=True, eq=False)
class Overloads:
    """The functions of one name: usually one; several differ in the element of their first parameter."""

    module: "Module"
    members: tuple[syntax.FunctionDecl, ...]


@dataclass(slots=True, eq=False)
class Module:
    """One module: its declarations, and the modules that it uses. name: as `use` writes it."""

    name: str
    library: "Library"
    folder: Path | None = None
    files: list[syntax.File] = field(default_factory=list)
    structs: dict[str, syntax.StructDecl] = field(default_factory=dict)
    consts: dict[str, syntax.ConstDecl] = field(default_factory=dict)
    functions: dict[str, list[syntax.FunctionDecl]] = field(default_factory=dict)
    used: list[tuple["Module", str | None]] = field(default_factory=list)

    def find_struct(self, name: str) -> "tuple[Module, syntax.StructDecl] | None":
        """Return a struct that this module sees, and where it is declared."""
        for module in self._sees(name):
            if name in module.structs:
                return module, module.structs[name]
        return None

    def find_const(self, name: str) -> "tuple[Module, syntax.ConstDecl] | None":
        """Return a constant that this module sees, and where it is declared."""
        for module in self._sees(name):
            if name in module.consts:
                return module, module.consts[name]
        return None

    def find_functions(self, name: str) -> list[Overloads]:
        """Return all functions of a name that this module sees, by module."""
        return [Overloads(m, tuple(m.functions[name])) for m in self._sees(name) if name in m.functions]

    def struct_names(self) -> list[str]:
        """Return the names of all structs in sight."""
        return [name for module in self._sees(None) for name in module.structs]

    def function_names(self) -> list[str]:
        """Return the names of all functions, structs and constants in sight."""
        return [n for m in self._sees(None) for table in (m.functions, m.structs, m.consts) for n in table]

    def _sees(self, name: str | None) -> "list[Module]":
        seen = [self]
        seen += [m for m, only in self.used if (only is None or name is None or only == name) and m not in seen]
        return seen


@dataclass(slots=True, eq=False)
class Library:
    """Folders of modules, loaded when they are first named.

    folders: searched in order. errors: what was wrong in the modules loaded so far.
    """

    folders: tuple[Path, ...]
    errors: Errors = field(default_factory=Errors)
    modules: dict[str, Module] = field(default_factory=dict)
    instances: dict[object, object] = field(default_factory=dict)

    @staticmethod
    def standard(*overlays: Path) -> "Library":
        """Return the library that ships with Bittern. overlays: folders that come before it."""
        root = Path(__file__).resolve().parent.parent
        return Library((*overlays, root / "models", root / "std"))

    def module(self, name: str, near: Path | None = None) -> Module | None:
        """Return a module by name, or None. near: the folder of the using file, searched first."""
        for folder in ([near] if near is not None else []) + list(self.folders):
            paths = _files(folder, name)
            if paths:
                key = str(paths[0].parent / name)
                if key not in self.modules:
                    sources = [Source(_shown(path, self.folders), _read(path)) for path in paths]
                    self._load(key, name, sources, folder)
                return self.modules[key]
        return None

    def add(self, name: str, sources: Sequence[Source], folder: Path | None = None) -> Module:
        """Load a module from source texts. folder: where its `use` looks first."""
        return self._load(name, name, sources, folder)

    def function(
        self,
        name: str,
        *,
        elements: Mapping[str, str] | None = None,
        overload: str | None = None,
    ) -> Function:
        """Return an elaborated function; its dimensions stay symbolic.

        name: `module.function`. elements: element arguments by parameter name. overload: the element of the first
        parameter where several functions share the name. Raises BitternError E211, E212.
        """
        from bittern.lang.elaborate import instance_for

        module_name, _, function_name = name.rpartition(".")
        module = self.module(module_name)
        members = module.functions.get(function_name, []) if module else []
        if module is None or not members:
            known = module.function_names() if module else []
            raise BitternError(NO_SUCH_FUNCTION, f"There is no function `{name}`.", nearest(function_name, known))
        if overload is not None:
            members = [m for m in members if mark(m) == overload]
            if not members:
                raise BitternError(NO_SUCH_FUNCTION, f"`{name}` has no form for {overload}.", "")
        result = instance_for(module, members[0], {k: ELEMENTS[v] for k, v in (elements or {}).items()})
        self.raise_errors()
        return result

    def raise_errors(self) -> None:
        """Raise E212 with all diagnostics as text if any module loaded so far has errors."""
        if self.errors.found:
            from bittern.lang.render import as_text

            text = "\n\n".join(as_text(d) for d in self.errors.found[:20])
            raise BitternError(BROKEN, f"The program has {len(self.errors.found)} errors.\n{text}\n", "")

    def _load(self, key: str, name: str, sources: Sequence[Source], folder: Path | None) -> Module:
        module = Module(name, self, folder)
        self.modules[key] = module
        for source in sources:
            file, problems = parse(source)
            for problem in problems:
                self.errors.add(problem)
            module.files.append(file)
            for declaration in file.declarations:
                self._declare(module, declaration)
        for file in module.files:
            for declaration in file.declarations:
                if isinstance(declaration, syntax.Use):
                    self._use(module, declaration)
        return module

    def _declare(self, module: Module, declaration: syntax.Declaration) -> None:
        if isinstance(declaration, syntax.Use):
            return
        name = declaration.name.name
        span = declaration.name.span
        if name in reserved():
            self.errors.add(Diagnostic(RESERVED, span, f"`{name}` is the name of an operation or type of the language"))
        others: list[Span] = [d.name.span for d in module.functions.get(name, [])]
        others += [t[name].name.span for t in (module.structs, module.consts) if name in t]  # type: ignore[index]
        if others and not (isinstance(declaration, syntax.FunctionDecl) and name in module.functions):
            self.errors.add(
                Diagnostic(TWICE, span, f"`{name}` is declared twice", notes=((others[0], "declared here first"),))
            )
        elif isinstance(declaration, syntax.StructDecl):
            module.structs[name] = declaration
        elif isinstance(declaration, syntax.ConstDecl):
            module.consts[name] = declaration
        else:
            known = module.functions.setdefault(name, [])
            same = [d for d in known if mark(d) == mark(declaration)]
            if same:
                note = ((same[0].name.span, "declared here first"),)
                message = f"`{name}` is declared twice for the same first parameter"
                self.errors.add(Diagnostic(TWICE, span, message, notes=note))
            else:
                known.append(declaration)

    def _use(self, module: Module, use: syntax.Use) -> None:
        first = use.path[0].name
        found = self.module(first, module.folder)
        only = use.path[1].name if len(use.path) > 1 else None
        if found is None:
            known = [p.stem for folder in self.folders if folder.is_dir() for p in folder.iterdir()]
            self.errors.add(
                Diagnostic(UNKNOWN_MODULE, use.path[0].span, f"unknown module `{first}`", hint=nearest(first, known))
            )
        elif only is not None and only not in found.function_names():
            self.errors.add(
                Diagnostic(
                    UNKNOWN_MODULE,
                    use.path[1].span,
                    f"module `{first}` declares no `{only}`",
                    hint=nearest(only, found.function_names()),
                )
            )
        elif found is not module:
            module.used.append((found, only))


def mark(declaration: syntax.FunctionDecl) -> str:
    """Return what tells overloads apart: the element found first in the first parameter's type, or ''."""
    generics = {g.name.name for g in declaration.generics}
    if not declaration.parameters:
        return ""
    return _mark(declaration.parameters[0].type, generics)


def _mark(t: syntax.TypeExpr | syntax.Expr, generics: set[str]) -> str:
    if isinstance(t, syntax.NamedType):
        if t.name.name in ELEMENTS:
            return t.name.name
        return next((m for m in (_mark(a, generics) for a in t.arguments) if m), "")
    if isinstance(t, syntax.Name):
        return t.name if t.name in ELEMENTS and t.name not in generics else ""
    if isinstance(t, syntax.Index):
        inner = [_mark(t.base, generics), *(_mark(i.low, generics) for i in t.items)]
        return next((m for m in inner if m), "")
    return ""


def reserved() -> frozenset[str]:
    """Return the names that declarations cannot take: ops that are called by name, elements and type words."""
    from bittern.lang.builtins import NAMES

    return frozenset({*NAMES, *ELEMENTS, "weight", "list", "many"})


def _files(folder: Path, name: str) -> list[Path]:
    single = folder / f"{name}.btn"
    if single.is_file():
        return [single]
    inner = folder / name
    return sorted(inner.glob("*.btn")) if inner.is_dir() else []


def _shown(path: Path, folders: tuple[Path, ...]) -> str:
    for folder in folders:
        if path.is_relative_to(folder):
            return f"{folder.name}/{path.relative_to(folder)}"
    return str(path)


def _read(path: Path) -> str:
    return path.read_bytes().decode("utf-8", errors="replace")
