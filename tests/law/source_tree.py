"""The source tree as the law tests see it: files, their text, their syntax, and what they import."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "bittern"

LAYERS = (
    "base", "types", "bitops", "ops", "graph", "lang", "std", "models", "front", "passes",
    "kernels", "plan", "chips", "runtime", "train", "cli",
)  # fmt: skip

_OURS = ("bittern", "tests", "scripts", "bench", "docs", ".ci")
_TEXT = (".py", ".md", ".btn", ".toml", ".json", ".txt", ".yml", "")


@cache
def modules() -> tuple[Path, ...]:
    """Return the files of the package."""
    return tuple(sorted(PACKAGE.rglob("*.py")))


@cache
def python_files() -> tuple[Path, ...]:
    """Return all Python files of the repository."""
    found = [path for name in _OURS for path in (ROOT / name).rglob("*.py")]
    return tuple(sorted(path for path in found if "__pycache__" not in path.parts))


@cache
def text_files() -> tuple[Path, ...]:
    """Return all text files that belong to the repository."""
    found = [path for name in _OURS for path in (ROOT / name).rglob("*")]
    found += [path for path in ROOT.iterdir() if path.name != ".git"]
    kept = (path for path in found if path.is_file() and path.suffix in _TEXT and "__pycache__" not in path.parts)
    return tuple(sorted(set(kept)))


def shown(path: Path) -> str:
    """Return the path from the root of the repository."""
    return path.relative_to(ROOT).as_posix()


@cache
def tree(path: Path) -> ast.Module:
    """Return the syntax of a file."""
    return ast.parse(path.read_text("utf-8"), str(path))


def module_name(path: Path) -> str:
    """Return the dotted name of a file of the package."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def layer(module: str) -> str:
    """Return the layer of a module, or "" for the package itself."""
    parts = module.split(".")
    return parts[1] if parts[0] == "bittern" and len(parts) > 1 and parts[1] in LAYERS else ""


def imports(syntax: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and full name of every import, also of those inside functions and of typing only.

    The name of a relative import starts with its dots.
    """
    for found in ast.walk(syntax):
        if isinstance(found, ast.Import):
            for alias in found.names:
                yield found.lineno, alias.name
        elif isinstance(found, ast.ImportFrom):
            base = "." * found.level + (found.module or "")
            for alias in found.names:
                yield found.lineno, f"{base}.{alias.name}"
        elif isinstance(found, ast.Call) and ast.unparse(found.func).endswith(("import_module", "__import__")):
            name = _constant(found.args[0]) if found.args else ""
            if name:
                yield found.lineno, name


def _constant(value: ast.expr) -> str:
    """Return the constant start of a string expression."""
    if isinstance(value, ast.JoinedStr) and value.values:
        value = value.values[0]
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""
