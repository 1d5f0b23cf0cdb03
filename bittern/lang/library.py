"""Modules and the library: finding declarations by name, and elaborated functions by the same names.

A module is a file `NAME.btn`, or a folder `NAME/` whose files share one module. `use NAME` looks beside the using file
first, then in the other folders of the library in order. A user's text cannot change what a library module says, but a
folder given earlier hides a module of a later folder whole.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bittern.base.errors import BitternError, code, nearest
from bittern.graph.node import Blob, Function
from bittern.lang import builtins, effects, stored, syntax  # noqa: F401  (they fill the table of names)
from bittern.lang.builtin_table import BUILTINS
from bittern.lang.context import Errors
from bittern.lang.lexer import decode
from bittern.lang.ownership import TWICE
from bittern.lang.parser import parse
from bittern.lang.render import as_text
from bittern.lang.source import Diagnostic, Source, Span
from bittern.types.elements import ELEMENTS

UNKNOWN_MODULE = code("E202", "unknown module or declaration in `use`")
RESERVED = code("E204", "a declaration takes the name of an operation or type")
NO_SUCH_FUNCTION = code("E211", "the library has no function of this name")
BROKEN = code("E212", "a program has errors")

_SHOWN_ERRORS = 20
_DECLARATION = re.compile(r"^(?:inline )?(?:fn|struct|const) (\w+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, eq=False)
class Overloads:
    """The functions of one name: usually one; several differ in the element of their first parameter."""

    module: "Module"
    members: tuple[syntax.FunctionDecl, ...]


@dataclass(slots=True, eq=False)
class Module:
    """One module: its declarations, and the modules that it uses. name: as `use` writes it.

    hides: whether a syntax error, or a `use` that failed, keeps declarations out of it. sources: names of its texts.
    """

    name: str
    library: "Library"
    folder: Path | None = None
    files: list[syntax.File] = field(default_factory=list)
    structs: dict[str, syntax.StructDecl] = field(default_factory=dict)
    consts: dict[str, syntax.ConstDecl] = field(default_factory=dict)
    functions: dict[str, list[syntax.FunctionDecl]] = field(default_factory=dict)
    used: list[tuple["Module", str | None]] = field(default_factory=list)
    hides: bool = False
    sources: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"<module {self.name}>"

    def reaches(self) -> "list[Module]":
        """Return this module and all that it uses, directly or not."""
        found = [self]
        for module in found:
            found += dict.fromkeys(used for used, _ in module.used if used not in found)
        return found

    def is_hiding(self) -> bool:
        """Whether a name that is not found may be one that an error hides, here or in a module that this one uses."""
        return self.hides or any(module.hides for module, _ in self.used)

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

    def const_names(self) -> list[str]:
        """Return the names of all constants in sight."""
        return [name for module in self._sees(None) for name in module.consts]

    def names(self) -> list[str]:
        """Return the names of all functions, structs and constants in sight."""
        used = [name for module, only in self.used for name in module.own_names() if only in (None, name)]
        return [*self.own_names(), *used]

    def own_names(self) -> list[str]:
        """Return the names of all functions, structs and constants that this module declares."""
        return [*self.functions, *self.structs, *self.consts]

    def _sees(self, name: str | None) -> "list[Module]":
        """Return the modules in which a name (None: any) may be declared, this one first."""
        seen = [self]
        for module, only in self.used:
            if module not in seen and (only is None or name is None or only == name):
                seen.append(module)
        return seen


@dataclass(slots=True, eq=False)
class Library:
    """Folders of modules, loaded when they are first named.

    folders: searched in order. errors: what was wrong in the modules loaded so far. instances: what is elaborated, made
    once. blobs: bytes that a program may name by their SHA-256. indices: names that a folder declares, for hints.
    """

    folders: tuple[Path, ...]
    errors: Errors = field(default_factory=Errors)
    modules: dict[str, Module] = field(default_factory=dict)
    instances: dict[object, object] = field(default_factory=dict)
    blobs: Mapping[bytes, Blob] = field(default_factory=dict)
    indices: dict[Path, Mapping[str, str]] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<library of {len(self.modules)} modules>"

    @staticmethod
    def standard(*overlays: Path) -> "Library":
        """Return the library that ships with Bittern. overlays: folders that come before it."""
        root = Path(__file__).resolve().parent.parent
        return Library((*overlays, root / "models", root / "std"))

    def module(self, name: str, near: Path | None = None) -> Module | None:
        """Return a module by name, or None. near: the folder of the using file, searched first; added ones are last."""
        for folder in ([near] if near is not None else []) + list(self.folders):
            paths = _files(folder, name)
            if paths:
                return self.load(name, paths, folder)
        return self.modules.get(name)

    def load(self, name: str, paths: Sequence[Path], folder: Path) -> Module:
        """Return the module of these files, read once. folder: where its `use` looks first. Raises OSError."""
        key = "\n".join(str(path.resolve()) for path in paths)
        if key not in self.modules:
            decoded = [decode(_shown(path, self.folders), path.read_bytes()) for path in paths]
            self._load(key, name, decoded, folder)
        return self.modules[key]

    def declaring(self, word: str, near: Path | None) -> str:
        """Return the hint to use a module that declares a name and is not used, or ''."""
        for folder in ([near] if near is not None else []) + list(self.folders):
            if folder not in self.indices:
                self.indices[folder] = _declared(folder)
            name = self.indices[folder].get(word)
            if name is not None:
                return f"`{word}` is declared in `{name}`: write `use {name}`"
        return ""

    def add(self, name: str, sources: Sequence[Source], folder: Path | None = None) -> Module:
        """Load a module from source texts. folder: where its `use` looks first."""
        return self._load(name, name, [(source, []) for source in sources], folder)

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
        from bittern.lang.elaborate import instance_for  # elaboration is above the library that it reads

        module_name, _, function_name = name.rpartition(".")
        module = self.module(module_name)
        members = module.functions.get(function_name, []) if module else []
        if module is None or not members:
            known = module.own_names() if module else []
            raise BitternError(NO_SUCH_FUNCTION, f"There is no function `{name}`.", nearest(function_name, known))
        if overload is not None:
            members = [m for m in members if mark(m) == overload]
            if not members:
                raise BitternError(NO_SUCH_FUNCTION, f"`{name}` has no form for {overload}.", "")
        return instance_for(module, members[0], {k: ELEMENTS[v] for k, v in (elements or {}).items()})

    def raise_errors(self, of: Module | None = None) -> None:
        """Raise E212 with all diagnostics as text if a module has errors.

        of: this module and those that it uses, and so on; None: all that are loaded.
        """
        found = self.errors.found
        if found and of is not None:
            names = {name for module in of.reaches() for name in module.sources}
            found = [diagnostic for diagnostic in found if diagnostic.span.source.name in names]
        if found:
            raise broken(found)

    def _load(
        self, key: str, name: str, sources: Sequence[tuple[Source, list[Diagnostic]]], folder: Path | None
    ) -> Module:
        module = Module(name, self, folder)
        self.modules[key] = module
        for source, problems in sources:
            file, faults = (None, problems) if problems else parse(source)
            for fault in faults:
                self.errors.add(fault)
            module.hides = module.hides or bool(faults)
            module.sources.append(source.name)
            if file is not None:
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
        name, span = declaration.name.name, declaration.name.span
        if name in reserved():
            message = f"`{name}` is the name of an operation or type of the language"
            self.errors.add(Diagnostic(RESERVED, span, message, hint="choose another name"))
        self._need_once(declaration)
        members = module.functions.get(name, [])
        others = [table[name].name.span for table in (module.structs, module.consts) if name in table]
        if isinstance(declaration, syntax.FunctionDecl):
            others += [d.name.span for d in members if mark(d) == mark(declaration)]
        else:
            others += [d.name.span for d in members]
        if others:
            hint = "overloads differ in the element of their first parameter" if members else ""
            notes = ((others[0], "declared here first"),)
            self.errors.add(Diagnostic(TWICE, span, f"`{name}` is declared twice", hint=hint, notes=notes))
        elif isinstance(declaration, syntax.StructDecl):
            module.structs[name] = declaration
        elif isinstance(declaration, syntax.ConstDecl):
            module.consts[name] = declaration
        else:
            module.functions.setdefault(name, []).append(declaration)

    def _need_once(self, declaration: syntax.Declaration) -> None:
        """Report names that one declaration gives twice: parameters, fields, generic parameters."""
        names: list[syntax.Name] = []
        if isinstance(declaration, (syntax.StructDecl, syntax.FunctionDecl)):
            names += [generic.name for generic in declaration.generics]
        if isinstance(declaration, syntax.FunctionDecl):
            names += [parameter.name for parameter in declaration.parameters]
        self._report_twice(names)
        if isinstance(declaration, syntax.StructDecl):
            self._report_twice([field.name for field in declaration.fields])

    def _report_twice(self, names: Sequence[syntax.Name]) -> None:
        seen: dict[str, Span] = {}
        for name in names:
            if name.name in seen:
                notes = ((seen[name.name], "declared here first"),)
                self.errors.add(Diagnostic(TWICE, name.span, f"`{name.name}` is declared twice", notes=notes))
            seen.setdefault(name.name, name.span)

    def _use(self, module: Module, use: syntax.Use) -> None:
        first = use.path[0].name
        found = self.module(first, module.folder)
        only = use.path[1].name if len(use.path) > 1 else None
        if found is None or len(use.path) > 2:
            span = use.path[0].span if found is None else use.path[2].span
            message = (
                f"unknown module `{first}`" if found is None else "a `use` names a module and one declaration of it"
            )
            hint = nearest(first, self._known(module)) if found is None else ""
            self.errors.add(Diagnostic(UNKNOWN_MODULE, span, message, hint=hint))
            module.hides = True
        elif only is not None and only not in found.own_names():
            module.hides = True
            if found.hides:
                module.used.append((found, only))
            else:
                hint = nearest(only, found.own_names())
                message = f"the module `{first}` declares no `{only}`"
                self.errors.add(Diagnostic(UNKNOWN_MODULE, use.path[1].span, message, hint=hint))
        elif found is not module:
            module.used.append((found, only))

    def _known(self, module: Module) -> list[str]:
        folders = [folder for folder in (module.folder, *self.folders) if folder is not None]
        return sorted({name for folder in folders for name in _module_names(folder)})


def broken(found: Sequence[Diagnostic]) -> BitternError:
    """Return the error of a program that has these."""
    text = "\n\n".join(as_text(diagnostic) for diagnostic in found[:_SHOWN_ERRORS])
    what = f"The program has {len(found)} error{'s' * (len(found) > 1)}.\n{text}\n"
    return BitternError(BROKEN, what, "Mend the program.")


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
    return frozenset({*BUILTINS, *ELEMENTS, "weight", "list", "many"})


def _files(folder: Path, name: str) -> list[Path]:
    single = folder / f"{name}.btn"
    if single.is_file():
        return [single]
    inner = folder / name
    return sorted(inner.glob("*.btn")) if inner.is_dir() else []


def _module_names(folder: Path) -> list[str]:
    """Return the names of the modules in a folder."""
    return sorted({path.stem for path in folder.iterdir() if _files(folder, path.stem)}) if folder.is_dir() else []


def _declared(folder: Path) -> Mapping[str, str]:
    """Return the names that the modules of a folder declare, each with its module; the first module by name wins."""
    found: dict[str, str] = {}
    for name in _module_names(folder):
        for path in _files(folder, name):
            for word in _DECLARATION.findall(path.read_text("utf-8", errors="replace")):
                found.setdefault(word, name)
    return found


def _shown(path: Path, folders: tuple[Path, ...]) -> str:
    for folder in folders:
        if path.is_relative_to(folder):
            return f"{folder.name}/{path.relative_to(folder)}"
    return str(path)
