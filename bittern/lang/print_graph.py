"""The printer: functions of the graph as `.btn` text that elaborates to the same functions, id for id.

Every callee becomes a function, every body stands where its node is; a node that is used twice, or that has a label,
is a `let`. The body of a map is one expression: where it needs a `let`, it becomes an `inline` function. Constants that
no literal has are `stored` (their bytes) or `blob` (their SHA-256).

What the language cannot say is refused (E120): graphs that no program makes, such as a body with an input that it does
not use. What the elaborator made can always be said.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bittern.base.errors import BitternError, code
from bittern.graph.node import Blob, Function, Labels, Node, walk
from bittern.lang.format import format_file
from bittern.lang.frame import is_closed
from bittern.lang.lexer import KEYWORDS
from bittern.lang.library import reserved
from bittern.lang.obligations import Known, needed
from bittern.lang.parser import parse
from bittern.lang.print_terms import array_text, dim_text, multiplied, scalar_text, symbols_of, type_text
from bittern.lang.print_text import Texts
from bittern.lang.source import Source
from bittern.types.dims import Dim
from bittern.types.values import Tensor, Token, Tuple, Type

UNPRINTABLE = code("E120", "a graph has a form that no source text gives")

INLINE_BYTES = 256  # constants of more bytes are named by their SHA-256
LISTED_BYTES = 4096  # but whole numbers are listed up to here
_CONTROLS = ("for", "while", "if")
_SIZE_OF = "size_of"
_OWN_WORDS = (_SIZE_OF, "stored", "blob", "limit", "ideal", "exp", "log", "pow", "sin", "cos", "tanh", "erf")


def print_functions(roots: Mapping[str, Function]) -> str:
    """Return a program in which each root is a function of its label. Errors: E120."""
    program = _Program()
    names = {label: program.fresh(label) for label in sorted(roots)}
    for label, name in names.items():
        program.names.setdefault(roots[label].id, name)
    for label, name in names.items():
        program.declare(roots[label], name)
    if any(f"{_SIZE_OF}[" in part for part in program.parts):
        program.parts.insert(0, f"/// A dimension as a value.\ninline fn {_SIZE_OF}[n]() -> u32 {{ n }}")
    file, problems = parse(Source("printed.btn", "\n\n".join([*program.constant_parts, *program.parts]) + "\n"))
    assert not problems, (problems[0].code, problems[0].message, problems[0].span.start)
    return format_file(file)


def print_function(function: Function) -> str:
    """Return a function, with all that it calls, as a program. Errors: E120."""
    return print_functions({function.labels.name.rpartition(".")[2] or "main": function})


def _refuse(what: str) -> BitternError:
    return BitternError(UNPRINTABLE, f"The graph cannot be written as text: {what}.", "Keep it as a `.keg` file.")


@dataclass(slots=True)
class _Program:
    """Declarations so far. taken: their names. inside: names in them. names: of functions, by id; others likewise."""

    parts: list[str] = field(default_factory=list)
    constant_parts: list[str] = field(default_factory=list)
    inside: set[str] = field(default_factory=set)
    taken: set[str] = field(default_factory=lambda: {*KEYWORDS, *reserved(), *_OWN_WORDS, "_"})
    names: dict[bytes, str] = field(default_factory=dict)
    declared: set[str] = field(default_factory=set)
    constants: dict[bytes, str] = field(default_factory=dict)
    helpers: dict[object, str] = field(default_factory=dict)
    needed: Known = field(default_factory=dict)

    def fresh(self, wanted: str, local: set[str] | None = None) -> str:
        """Return a name that nothing else has. local: the names of one function; None: a name of the whole program."""
        base = re.sub(r"\W", "_", wanted, flags=re.ASCII)
        base = base if base.strip("_") and not base[0].isdigit() else f"v{base.strip('_')}"
        name, count = base, 1
        while name in self.taken or name in (self.inside if local is None else local):
            count += 1
            name = f"{base}_{count}" if base[-1].isdigit() else f"{base}{count}"
        self.inside.add(name)
        (self.taken if local is None else local).add(name)
        return name

    def callee(self, function: Function) -> str:
        """Return the name of a function, declared now if it is not yet."""
        if function.id not in self.names:
            name = re.sub(r"\[.*", "", function.labels.name).rpartition(".")[2]
            self.names[function.id] = self.fresh(name or f"f_{function.id.hex()[:8]}")
        name = self.names[function.id]
        self.declare(function, name)
        return name

    def declare(self, function: Function, name: str) -> None:
        """Add the declaration of a function after those of its callees."""
        if name not in self.declared:
            self.declared.add(name)
            writer = Writer(self, function.dims, function.labels.dims, function.facts)
            doc = "".join(f"/// {line}\n" for line in [function.labels.name] if line.isprintable() and line)
            self.parts.append(doc + writer.declaration(function, name))

    def constant(self, node: Node, label: str) -> str:
        """Return the name of a constant that is not written where it is used."""
        name = self.constants.get(node.id)
        if name is None:
            data = node["data"]
            assert isinstance(data, Blob)
            name = self.constants[node.id] = self.fresh(label or f"c_{data.digest.hex()[:8]}")
            self.constant_parts.append(f"const {name}: {type_text(node.type, ())} = {_constant_text(node, data)}")
        return name


def _constant_text(node: Node, data: Blob) -> str:
    assert isinstance(node.type, Tensor)
    shape = "[" + ", ".join(dim_text(size, ()) for size in node.type.shape) + "]"
    listed = array_text(node) if data.size <= LISTED_BYTES else None
    if listed is not None:
        return listed
    if data.size > INLINE_BYTES:
        return f"blob[{node.type.element}](0x{data.digest.hex()}, {shape})"
    digits = f"0x{bytes(data.read()).hex()}" if data.size else "0"
    return f"stored[{node.type.element}]({digits}, {shape})"


class NeedsLet(Exception):
    """An expression alone cannot say this; it needs a block."""


class Writer:
    """Writes one function. dims: names of its dimension parameters. local: all its names. used: dims it declares."""

    def __init__(
        self,
        program: _Program,
        dims: int,
        names: Sequence[str],
        facts: tuple[tuple[Dim, Dim], ...],
        used: set[int] | None = None,
    ) -> None:
        self.program, self.facts = program, facts
        self.used = set(range(dims)) if used is None else used
        self.local: set[str] = set()
        given = [names[i] if i < len(names) else f"n{i}" for i in range(dims)]
        self.dims = tuple(program.fresh(name, self.local) for name in given)

    def declaration(self, function: Function, name: str, *, is_inline: bool = False) -> str:
        """Return a function's declaration."""
        held = function.params[: len(function.params) - len(function.effects)]
        if any(not isinstance(p.type, Token) for p in function.params[len(held) :]):
            raise _refuse(f"`{function.name}` has an effect without a token")
        labels = function.labels.params
        names = [self.fresh(labels[i] if i < len(labels) else f"p{i}") for i in range(len(held))]
        parameters = [f"{n}: {_mode(p.mode)}{self.type(p.type)}" for n, p in zip(names, held, strict=True)]
        owned = [n for n, p in zip(names, held, strict=True) if p.mode == "own"]
        types = [t for t in _leaf_types(function.result.type) if not isinstance(t, Token)]
        result = self.type(types[0]) if len(types) == 1 else "(" + ", ".join(map(self.type, types)) + ")"
        declared = [dim for place, dim in enumerate(self.dims) if place in self.used]
        head = f"{'inline ' if is_inline else ''}fn {name}" + (f"[{', '.join(declared)}]" if declared else "")
        head += f"({', '.join(parameters)}) -> {result}"
        if function.effects:
            head += " ! " + ", ".join(function.effects)
        clauses = [f"({self.dim(a)}) % ({self.dim(b)}) == 0" for a, b in self.facts]
        bodies = [function] if function.ideal is None else [function, function.ideal]
        pairs = dict.fromkeys(pair for body in bodies for pair in needed(body, self.facts, self.program.needed))
        clauses += [f"{self.dim(less)} <= {self.dim(more)}" for less, more in pairs]
        if clauses:
            head += " where " + ", ".join(clauses)
        text = head + " " + self._body(function, names, owned)
        if function.ideal is not None:
            text += " ideal " + self._body(function.ideal, names, owned)
        return text

    def _body(self, function: Function, names: Sequence[str], owned: Sequence[str]) -> str:
        known = dict(enumerate(names))
        graph = Graph(self, known, function.labels)
        graph.lines += [f"let {name} = copy({name})" for name in owned]
        return graph.block(function.result)

    def fresh(self, wanted: str) -> str:
        """Return a new name in this function."""
        return self.program.fresh(wanted, self.local)

    def dim(self, value: Dim) -> str:
        """Return a dimension's text."""
        if any(s >= len(self.dims) for s in value.symbols()):
            raise _refuse("a dimension parameter does not exist")
        return dim_text(self.plain(value), self.dims)

    def plain(self, value: Dim) -> Dim:
        """Return a dimension with `c * (n / c)` as `n` again where a fact says so; reading it back undoes this."""
        for top, bottom in self.facts:
            if bottom.constant is not None and top.symbols() and len(top.terms) == 1:
                value = multiplied(value, top, bottom.constant)
        return value

    def type(self, type_: Type) -> str:
        """Return a tensor type's text."""
        if isinstance(type_, Tuple | Token):
            raise _refuse("a tuple or token stands where the language has a tensor")
        shape = tuple(self.plain(size) for size in type_.shape)
        if any(s >= len(self.dims) for size in shape for s in size.symbols()):
            raise _refuse("a dimension parameter does not exist")
        return type_text(Tensor(type_.element, shape, type_.space), self.dims)

    def helper(self, body: Function, wanted: str) -> str:
        """Return the start of a call of a body as an `inline` function: its name with the dimensions that it uses."""
        used = symbols_of(body)
        for top, bottom in self.facts:
            used |= bottom.symbols() if top.symbols() & used else set()
        facts = tuple(fact for fact in self.facts if (fact[0].symbols() | fact[1].symbols()) <= used)
        key = (body.id, self.dims, facts)
        if key not in self.program.helpers:
            name = self.program.helpers[key] = self.program.fresh(wanted)
            inner = Writer(self.program, len(self.dims), self.dims, facts, used)
            self.program.parts.append(inner.declaration(body, name, is_inline=True))
        given = [name for place, name in enumerate(self.dims) if place in used]
        return self.program.helpers[key] + (f"[{', '.join(given)}]" if given else "")


class Graph(Texts):
    """Writes one graph as a block: its `let` lines, then its result. names: of the parameters, by position."""

    def __init__(self, writer: Writer, names: Mapping[int, str], labels: Labels, *, may_let: bool = True) -> None:
        super().__init__(writer.dim)
        self.writer, self.names, self.labels, self.may_let = writer, names, labels, may_let
        self.lines: list[str] = []

    def block(self, result: Node) -> str:
        """Return the graph as `{ lines result }`."""
        last = self.expression_of(result)
        return "{\n" + "\n".join([*self.lines, last]) + "\n}"

    def expression_of(self, result: Node) -> str:
        """Return the text of the result, after the lines that it needs."""
        is_tuple = result.kind == "tuple"
        leaves = [x for x in (result.inputs if is_tuple else (result,)) if not isinstance(x.type, Token)]
        if not leaves or any(isinstance(x.type, Tuple) for x in leaves) or (is_tuple and len(result.inputs) == 1):
            raise _refuse("a result is no tensor and no flat tuple of tensors")
        nodes = [n for n in walk(result) if not (is_tuple and n is result)]
        self.count(nodes, result.inputs if is_tuple else [result])
        whole = self._all_items_of_one(result, leaves) if is_tuple else result if self.uses[result.id] == 1 else None
        for n in nodes:
            self._write(n, is_last=n is whole)
        if is_tuple and whole is not None and whole.id in self.texts:
            return self.text(whole)
        texts = [self.text(x) for x in leaves]
        return texts[0] if len(texts) == 1 else "(" + ", ".join(texts) + ")"

    def _all_items_of_one(self, result: Node, leaves: Sequence[Node]) -> Node | None:
        """Return the node whose items are the whole result, in order; its text can stand for the tuple."""
        owner = leaves[0].inputs[0] if leaves[0].kind == "item" else None
        if owner is None or any(x.kind != "item" or x.inputs[0] is not owner for x in result.inputs):
            return None
        assert isinstance(owner.type, Tuple)
        if any(self.uses[x.id] > 1 for x in result.inputs):
            return None
        return owner if [x["index"] for x in result.inputs] == [*range(len(owner.type.items))] else None

    def _write(self, n: Node, *, is_last: bool) -> None:
        """Give a node its text: a name with a line, or an expression for where it is used."""
        if isinstance(n.type, Token) or n.kind == "item":
            return  # tokens are not written; items are named with the node that they belong to
        if n.kind == "param":
            index = n["index"]
            assert isinstance(index, int)
            if index not in self.names:
                raise _refuse("a parameter does not exist")
            self.texts[n.id] = self.names[index], True
            return
        if n.kind == "tuple":
            raise _refuse("a tuple is made inside a body")
        label = self.labels.nodes.get(n.id, "") if self.may_let else ""
        if n.kind == "const":
            self._write_const(n, label)
            return
        text = self._control(n, label) if n.kind in (*_CONTROLS, "map", "call") else self.op(n)
        if is_last and n.id not in self.forced:
            self.texts[n.id] = text
        elif isinstance(n.type, Tuple):
            self._write_items(n, n.type, text[0])
        elif (
            self.wants_name(n, text[0])
            or (label and n.kind not in ("size", "broadcast") and not is_last)
            or (n.kind in _CONTROLS and not is_last)
        ):
            self._let(n, label, text[0])
        else:
            self.texts[n.id] = text

    def _write_const(self, n: Node, label: str) -> None:
        literal = scalar_text(n, suffix=True)
        if literal is None:
            self.texts[n.id] = self.writer.program.constant(n, label), True
        elif n.id in self.forced:
            self._let(n, label, literal)
        else:
            self.texts[n.id] = literal, not literal.startswith("-")

    def _let(self, n: Node, label: str, text: str) -> None:
        if not self.may_let:
            raise NeedsLet
        name = self.writer.fresh(label or "v")
        self.lines.append(f"let {name} = {text}")
        self.texts[n.id] = name, True

    def _write_items(self, n: Node, type_: Tuple, text: str) -> None:
        """Write a node of several results as a line that names those that are used."""
        if not self.may_let:
            raise NeedsLet
        names = []
        for index, part in enumerate(type_.items):
            if isinstance(part, Token):
                continue
            if isinstance(part, Tuple):
                raise _refuse("a tuple is held in a tuple")
            held = self.items.get((n.id, index))
            name = "_" if held is None else self.writer.fresh(self.labels.nodes.get(held.id, "v"))
            names.append(name)
            if held is not None:
                self.texts[held.id] = name, True
        pattern = names[0] if len(names) == 1 else "(" + ", ".join(names) + ")"
        self.lines.append(f"let {pattern} = {text}")

    def size_of(self, value: Dim) -> str:
        """Return a dimension as a value in a form that no operator joins with its neighbours."""
        return f"{_SIZE_OF}[{self.writer.dim(value)}]()"

    # --- nodes with functions

    def _control(self, n: Node, label: str) -> tuple[str, bool]:
        match n.kind:
            case "call":
                return self._call(n), True
            case "map":
                return self._map(n, label), True
            case "for":
                return self._for(n), False
            case "while":
                return self._while(n, label), False
        return self._if(n), False

    def _call(self, n: Node) -> str:
        function, dims = n["function"], n["dims"]
        assert isinstance(function, Function) and isinstance(dims, tuple)
        name = self.writer.program.callee(function)
        sizes = [self.writer.dim(size) for size in dims if isinstance(size, Dim)]
        arguments = [
            f"copy({self.text(x)})" if parameter.mode == "own" else self.text(x)
            for x, parameter in zip(n.inputs, function.params, strict=True)
            if not isinstance(x.type, Token)
        ]
        return name + (f"[{', '.join(sizes)}]" if sizes else "") + f"({', '.join(arguments)})"

    def _captured(self, bodies: Sequence[Function], first: int, captures: Sequence[Node]) -> dict[int, str]:
        """Return the names of what bodies capture, by parameter; the captures must be those that a program makes."""
        seen: dict[int, None] = {}
        for body in bodies:
            for n in walk(body.result):
                index = n["index"] if n.kind == "param" else -1
                if isinstance(index, int) and index >= first:
                    seen.setdefault(index)
        if [*seen] != [first + i for i in range(len(captures))]:
            raise _refuse("a body has inputs that it does not use, or in another order than it uses them")
        if len({x.id for x in captures}) != len(captures) or any(is_closed(x) for x in captures):
            raise _refuse("a body is given a constant, or the same value twice")
        return {first + i: self.text(x) for i, x in enumerate(captures) if not isinstance(x.type, Token)}

    def _map(self, n: Node, label: str) -> str:
        body, mapped = n["body"], n["mapped"]
        assert isinstance(body, Function) and isinstance(mapped, int)
        if not mapped:
            raise _refuse("a map walks nothing")
        outer = self._captured([body], mapped, n.inputs[mapped:])
        labels = body.labels.params
        names = [self.writer.fresh(labels[i] if i < len(labels) else "x") for i in range(mapped)]
        known = {**dict(enumerate(names)), **outer}
        inner = self._expression(body, known, f"{label or 'row'}_of")
        return f"[{inner} for {', '.join(names)} in {', '.join(self.text(x) for x in n.inputs[:mapped])}]"

    def _expression(self, body: Function, known: Mapping[int, str], wanted: str) -> str:
        """Return a body as one expression: written out if it is small, else as a call of an `inline` function."""
        before = set(self.writer.local)
        try:
            text = Graph(self.writer, known, body.labels, may_let=False).expression_of(body.result)
            if len(text) <= 100:
                return text
        except NeedsLet:
            pass
        self.writer.local = before
        start = self.writer.helper(body, wanted)
        return f"{start}({', '.join(known[i] for i in range(len(body.params)))})"

    def _carries(self, n: Node, body: Function, before: int, first: int) -> tuple[dict[int, str], str]:
        """Return names of the carried parameters, and `with` and what they start as. before: inputs before them."""
        count = n["carries"]
        assert isinstance(count, int)
        known: dict[int, str] = {}
        starts = []
        for i, x in enumerate(n.inputs[before : before + count]):
            if not isinstance(x.type, Token):
                labels = body.labels.params
                known[first + i] = self.writer.fresh(labels[first + i] if first + i < len(labels) else "a")
                starts.append(f"{known[first + i]} = {self.text(x)}")
        if not starts:
            raise _refuse("a loop carries nothing")
        return known, "with " + ", ".join(starts)

    def _for(self, n: Node) -> str:
        body = n["body"]
        assert isinstance(body, Function)
        known, carried = self._carries(n, body, 2, 1)
        low, high = n.inputs[:2]
        if low.kind == high.kind == "size":
            bounds = f"{self._size(low)}..{self._size(high)}"
        else:
            bounds = "..".join(self._bound(x) for x in (low, high))
        index = self.writer.fresh(body.labels.params[0] if body.labels.params else "i")
        first = 1 + len(n.inputs[2:]) - len(self._rest(n, 2))
        outer = self._captured([body], first, self._rest(n, 2))
        inner = Graph(self.writer, {0: index, **known, **outer}, body.labels).block(body.result)
        return f"for {index} in {bounds} {carried} {inner}"

    def _while(self, n: Node, label: str) -> str:
        test, body = n["test"], n["body"]
        assert isinstance(test, Function) and isinstance(body, Function)
        known, carried = self._carries(n, body, 1, 0)
        captures = self._rest(n, 1)
        first = len(n.inputs) - 1 - len(captures)
        known |= self._captured([test, body], first, captures)
        condition = self._expression(test, known, f"{label or 'loop'}_goes_on")
        inner = Graph(self.writer, known, body.labels).block(body.result)
        return f"while {condition} limit {self.text(n.inputs[0])} {carried} {inner}"

    def _if(self, n: Node) -> str:
        then, otherwise = n["then"], n["otherwise"]
        assert isinstance(then, Function) and isinstance(otherwise, Function)
        known = self._captured([then, otherwise], 0, n.inputs[1:])
        yes, no = (Graph(self.writer, known, f.labels).block(f.result) for f in (then, otherwise))
        return f"if {self.text(n.inputs[0])} {yes} else {no}"

    @staticmethod
    def _rest(n: Node, before: int) -> Sequence[Node]:
        count = n["carries"]
        assert isinstance(count, int)
        return n.inputs[before + count :]

    def _size(self, n: Node) -> str:
        value = n["value"]
        assert isinstance(value, Dim)
        return self.writer.dim(value)

    def _bound(self, n: Node) -> str:
        """Return a bound that is a value, not a dimension."""
        value = n["value"] if n.kind == "size" else None
        return self.size_of(value) if isinstance(value, Dim) else self.text(n)


def _mode(mode: str) -> str:
    return "own " if mode == "own" else mode


def _leaf_types(type_: Type) -> tuple[Type, ...]:
    return type_.items if isinstance(type_, Tuple) else (type_,)
