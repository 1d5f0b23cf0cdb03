"""Modules: where `use` looks, what it brings, overloads across modules, and what is refused."""

from pathlib import Path

import numpy as np
import pytest
from btn_programs import codes, module_of

from bittern.base.errors import BitternError
from bittern.graph.evaluate import evaluate
from bittern.lang.check import check_module
from bittern.lang.library import Library, Module, mark
from bittern.lang.source import Source


def written(folder: Path, **files: str) -> Path:
    """Write modules into a folder; two underscores in a name stand for a folder."""
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.btn"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def loaded(folder: Path, name: str) -> Module:
    """Return a module of a folder without errors."""
    module = Library((folder,)).module(name)
    assert module is not None
    check_module(module)
    module.library.raise_errors()
    return module


def test_use_brings_all_or_one(tmp_path: Path) -> None:
    written(tmp_path, base="fn one() -> u32 { 1 }\nfn two() -> u32 { 2 }\nconst C: u32 = 3\nstruct S { x: u32 }")
    written(tmp_path, all="use base\nfn f() -> u32 { one() + two() + C + S(x: 4).x }")
    assert evaluate(loaded(tmp_path, "all").library.function("all.f"), []) == 10
    written(tmp_path, single="use base.two\nuse base.C\nfn f() -> u32 { two() + C }")
    assert evaluate(loaded(tmp_path, "single").library.function("single.f"), []) == 5
    written(tmp_path, other="use base.two\nfn f() -> u32 { one() }")
    library = Library((tmp_path,))
    module = library.module("other")
    assert module is not None
    check_module(module)
    (error,) = library.errors.found
    assert error.code == "E208" and error.hint == "`one` is declared in `base`: write `use base`"


def test_a_folder_is_one_module(tmp_path: Path) -> None:
    written(tmp_path, shapes__a="fn one() -> u32 { two() }", shapes__b="fn two() -> u32 { 2 }")
    written(tmp_path, main="use shapes\nfn f() -> u32 { one() }")
    assert evaluate(loaded(tmp_path, "main").library.function("main.f"), []) == 2


def test_use_looks_beside_the_file_first(tmp_path: Path) -> None:
    near, far = (
        written(tmp_path / "near", norms="fn g() -> u32 { 1 }", main="use norms\nfn f() -> u32 { g() }"),
        tmp_path / "far",
    )
    written(far, norms="fn g() -> u32 { 2 }", inner="use norms\nfn h() -> u32 { g() }")
    library = Library((far,))
    main = library.load("main", [near / "main.btn"], near)
    check_module(main)
    assert evaluate(library.function("inner.h"), []) == 2, "a program cannot change what a library module says"
    from bittern.lang.elaborate import instance_for

    assert evaluate(instance_for(main, main.functions["f"][0], {}), []) == 1


def test_what_a_module_uses_is_not_passed_on(tmp_path: Path) -> None:
    written(
        tmp_path,
        a="fn one() -> u32 { 1 }",
        b="use a\nfn two() -> u32 { one() + 1 }",
        c="use b\nfn f() -> u32 { one() }",
    )
    library = Library((tmp_path,))
    module = library.module("c")
    assert module is not None
    check_module(module)
    assert [each.code for each in library.errors.found] == ["E208"]


def test_modules_may_use_each_other(tmp_path: Path) -> None:
    written(
        tmp_path, a="use b\nfn one() -> u32 { 1 }\nfn f() -> u32 { two() }", b="use a\nfn two() -> u32 { one() + 1 }"
    )
    assert evaluate(loaded(tmp_path, "a").library.function("a.f"), []) == 2


def test_overloads_come_from_several_modules(tmp_path: Path) -> None:
    written(tmp_path, a="fn size(x: u8) -> u32 { 8 }", b="fn size(x: u16) -> u32 { 16 }")
    written(tmp_path, main="use a\nuse b\nfn f(x: u8, y: u16) -> u32 { size(x) * 100 + size(y) }")
    made = loaded(tmp_path, "main").library.function("main.f")
    assert evaluate(made, [np.uint8(0), np.uint16(0)]) == 816
    assert mark(loaded(tmp_path, "a").functions["size"][0]) == "u8"


def test_functions_of_one_name_with_other_parameters(tmp_path: Path) -> None:
    written(tmp_path, a="fn size(x: u8) -> u32 { 8 }", b="fn size(x: u8, y: u8) -> u32 { 16 }")
    written(tmp_path, both="use a\nuse b\nfn f(x: u8) -> u32 { size(x) }")
    library = Library((tmp_path,))
    both = library.module("both")
    assert both is not None
    check_module(both)
    assert [each.code for each in library.errors.found] == ["E329"]
    written(tmp_path, own="use a\nfn size(x: u8, y: u8) -> u32 { 1 }\nfn f(x: u8) -> u32 { size(x, x) }")
    assert evaluate(loaded(tmp_path, "own").library.function("own.f"), [np.uint8(0)]) == 1


def test_a_module_used_twice_is_one() -> None:
    text = "use norms\nuse norms\nuse norms.rms_norm\nfn f(x: f32[4]) -> f32[4] { rms_norm(x, x, 1.0) }"
    assert codes(text, Library.standard()) == []


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "bad.btn").write_bytes(b"fn f() -> u32 { 1 }\n// \xff\n")
    written(tmp_path, main="use bad\nfn g() -> u32 { f() }")
    library = Library((tmp_path,))
    module = library.module("main")
    assert module is not None
    check_module(module)
    assert [each.code for each in library.errors.found] == ["E101"]


def test_an_unknown_function_of_the_library() -> None:
    with pytest.raises(BitternError, match="There is no function `norms.rms_nrom`") as caught:
        Library.standard().function("norms.rms_nrom")
    assert caught.value.code == "E211" and "rms_norm" in caught.value.remedy
    with pytest.raises(BitternError, match="There is no function `nowhere.f`") as caught:
        Library.standard().function("nowhere.f")
    assert caught.value.code == "E211"
    with pytest.raises(BitternError, match="has no form for i64") as caught:
        Library.standard().function("products.linear", overload="i64")
    assert caught.value.code == "E211"


def test_a_program_with_errors_is_not_elaborated() -> None:
    module = module_of("fn f(x: f32) -> f32 { y }")
    with pytest.raises(BitternError, match=r"(?s)1 error.*program.btn:1:23: error\[E205\]: unknown name `y`") as caught:
        module.library.function("program.f")
    assert caught.value.code == "E212"


def test_a_module_of_a_library_is_named_in_the_text(tmp_path: Path) -> None:
    library = Library((tmp_path,))
    library.add("m", [Source("m.btn", "fn f( -> f32 { 1.0 }")])
    with pytest.raises(BitternError) as caught:
        library.raise_errors()
    assert caught.value.code == "E212" and "m.btn:1" in caught.value.what


def test_an_instance_that_fails_spoils_no_other(tmp_path: Path) -> None:
    written(
        tmp_path,
        m="fn half[e: type](x: e) -> e { sqrt(x) }\nfn one() -> u32 { 1 }\nfn f[e: type](x: e) -> e { half(x) }",
    )
    library = Library((tmp_path,))
    assert evaluate(library.function("m.one"), []) == 1
    for _ in range(2):  # it is said again when it is asked for again
        with pytest.raises(BitternError, match="E302") as caught:
            library.function("m.f", elements={"e": "u32"})
        assert caught.value.code == "E212"
        assert library.errors.found == []
    assert evaluate(library.function("m.f", elements={"e": "f32"}), [np.float32(9)]) == 3
    assert evaluate(library.function("m.one"), []) == 1


def test_a_module_with_errors_spoils_those_that_use_it_only(tmp_path: Path) -> None:
    written(tmp_path, bad="fn f( -> u32 { 1 }", good="fn g() -> u32 { 2 }")
    written(tmp_path, user="use bad\nuse good\nfn h() -> u32 { g() }", picky="use bad.f\nfn i() -> u32 { 1 }")
    library = Library((tmp_path,))
    for name in ("bad.f", "user.h", "picky.i"):
        with pytest.raises(BitternError) as caught:
            library.function(name)
        assert caught.value.code in ("E211", "E212"), name
    assert evaluate(library.function("good.g"), []) == 2


def test_what_a_debugger_shows_is_short() -> None:
    """A module holds its library, which holds all modules and instances: shown in full it would not end."""
    library = Library.standard()
    library.function("bitwise.parity")
    module = library.module("bitwise")
    assert len(repr(library)) < 80 and len(repr(module)) < 80 and "bitwise" in repr(module)
