"""From a checked file to a network: constants are folded, every other operation is written by its row of the table.

In: a `FileGraph`. Out: a `Network` whose inputs and outputs are in the file's order of axes, the batch first. A file
that fixes the batch (usually at 1) is read as the program of one sample, so the network takes any batch; what mixes
samples is refused. All refusals are reported together, each with the node, its operation and version, and the nearest
form that is read.
"""

from collections.abc import Mapping, Sequence
from math import prod

from bittern.base.errors import BitternError, code, nearest
from bittern.front.checkpoint import shown
from bittern.front.network.assembly import Assembly
from bittern.front.network.network import Network
from bittern.front.onnx.emitter import Emitter
from bittern.front.onnx.folding import fold
from bittern.front.onnx.table import DOMAINS, Row, Site, row_for, rows
from bittern.front.onnx.values import Failed, FileGraph, FileInput, FileNode, Known, Refusal, Value, Wire
from bittern.lang.library import Library
from bittern.types.faults import TypeFault

UNSUPPORTED = code("N220", "operations of the ONNX file are not supported")
BAD_INPUT = code("N221", "an input of the ONNX file has no fixed shape or an unread type")
BAD_OUTPUT = code("N222", "an output of the ONNX file is a constant or does not exist")
NO_DOMAIN = code("N223", "the ONNX file uses a version of the operations that Bittern does not read")

OLDEST, NEWEST = 7, 28  # versions of the standard's operations; before 7 broadcasting was another
_SHOWN = 20
_MOST_VALUES, _MOST_AXES = 1 << 31, 12  # of one sample of a tensor
_INPUT_ELEMENTS = ("f32", "u8", "i8", "i32", "i64", "bit")
_ANNOTATED = {"UINT8": "u8", "INT8": "i8"}  # inputs declared as float that hold whole numbers only


def import_graph(graph: FileGraph, library: Library, shapes: Mapping[str, Sequence[int]] | None = None) -> Network:
    """Return the network of a checked file. shapes: of inputs that the file leaves open, by name, with the batch.

    Errors: N220 to N223.
    """
    return import_with_wires(graph, library, shapes)[0]


def import_with_wires(
    graph: FileGraph, library: Library, shapes: Mapping[str, Sequence[int]] | None = None
) -> tuple[Network, dict[str, Wire]]:
    """Return the network of a checked file, and what each computed tensor of it became. Errors: N220 to N223."""
    _check_version(graph)
    made = _Import(graph, library, shapes or {})
    network = made.network()
    return network, {name: value for name, value in made.values.items() if isinstance(value, Wire)}


def _check_version(graph: FileGraph) -> None:
    version = next((found for name, found in graph.versions.items() if DOMAINS.get(name) == "ai.onnx"), None)
    if version is None or not OLDEST <= version <= NEWEST:
        raise BitternError(
            NO_DOMAIN,
            f"The file uses version {version} of the standard operations.",
            f"Convert it to a version from {OLDEST} to {NEWEST}.",
        )


class _Import:
    """One import under way. values: what each tensor of the file is, once it is known."""

    def __init__(self, graph: FileGraph, library: Library, shapes: Mapping[str, Sequence[int]]) -> None:
        self.graph = graph
        self.assembly = Assembly(library)
        self.emitter = Emitter(self.assembly)
        self.shapes = shapes
        self.values: dict[str, Value] = {name: Known(array) for name, array in graph.constants.items()}
        self.refused: list[str] = []
        self.labelled: set[bytes] = set()
        self.batch = 1

    def network(self) -> Network:
        """Return the network, or raise all refusals together."""
        self._check_rows()
        self._declare_inputs()
        for node in self.graph.nodes:
            self._run(node)
        if self.refused:
            raise self._error()
        outputs = {each.name: self._output(each) for each in self.graph.outputs}
        return self.assembly.network(
            self.graph.name,
            {name: wire.node for name, wire in outputs.items()},
            source="onnx",
            facts=self.graph.facts,
        )

    # --- inputs and outputs

    def _declare_inputs(self) -> None:
        inputs = [each for each in self.graph.inputs if each.name not in self.graph.constants]
        found = [self._shape(each) for each in inputs]
        batches = {shape[0] for shape in found if shape}
        if len(batches) > 1:
            _bad_input(inputs[0], f"and the others have several batch sizes, {sorted(batches)}", "one batch size")
        self.batch = batches.pop() if batches else 1
        for each, shape in zip(inputs, found, strict=True):
            element = _ANNOTATED.get(self.graph.annotations.get(each.name, ""), each.element)
            if each.element not in _INPUT_ELEMENTS:
                _bad_input(each, f"holds {each.element}", f"one of {', '.join(_INPUT_ELEMENTS)}")
            node = self.assembly.input(each.name, element, shape[1:])
            wire = Wire(node, shape[1:], tuple(range(len(shape) - 1)), element)
            self.values[each.name] = self.emitter.converted(wire, each.element) if element != each.element else wire

    def _shape(self, given: FileInput) -> tuple[int, ...]:
        """Return the shape of an input; an open batch counts as 1."""
        shape = tuple(self.shapes.get(given.name, given.shape or ()))
        if not shape:
            _bad_input(given, "has no shape or no batch axis", "a shape whose first axis is the batch")
        sizes = tuple(1 if size is None and place == 0 else size for place, size in enumerate(shape))
        open_ = [place for place, size in enumerate(sizes) if size is None]
        if open_:
            _bad_input(given, f"leaves the size of axis {open_[0]} open", "a fixed size; only the batch may be open")
        fixed = tuple(size for size in sizes if size is not None)
        if any(size < 1 for size in fixed) or prod(fixed) > _MOST_VALUES or len(fixed) > _MOST_AXES:
            _bad_input(given, f"has the shape {list(fixed)}", f"sizes from 1, at most {_MOST_VALUES} values")
        return fixed

    def _output(self, declared: FileInput) -> Wire:
        found = self.values.get(declared.name)
        if not isinstance(found, Wire):
            raise BitternError(
                BAD_OUTPUT,
                f"The output {shown(declared.name)} is a constant, or a result that is not read.",
                "Outputs are computed from the network's inputs.",
            )
        return self.emitter.arranged(self.emitter.values(found))

    # --- operations

    def _check_rows(self) -> None:
        """Note every operation that has no row, before anything is written."""
        for node in self.graph.nodes:
            if self._row(node) is None:
                self._refuse(node, "Bittern does not read it", _hint(node))

    def _row(self, node: FileNode) -> Row | None:
        domain = DOMAINS.get(node.domain)
        return row_for(domain, node.op, self._version(node)) if domain else None

    def _version(self, node: FileNode) -> int:
        same = [name for name, meaning in DOMAINS.items() if meaning == DOMAINS.get(node.domain)]
        return next((self.graph.versions[name] for name in (node.domain, *same) if name in self.graph.versions), 1)

    def _run(self, node: FileNode) -> None:
        """Write one operation, or note why not; what depends on a refused one is passed over."""
        given = [self.values[name] if name else None for name in node.inputs]
        form = self._row(node)
        if form is None or any(isinstance(each, Failed) for each in given):
            made: Sequence[Value] = [Failed()] * len(node.outputs)
        else:
            usable = tuple(each for each in given if not isinstance(each, Failed))
            annotation = self.graph.annotations.get(node.outputs[0], "") if node.outputs else ""
            site = Site(node, usable, self._version(node), self.emitter, annotation, self.batch)
            made = self._written(site, form)
        for name, value in zip(node.outputs, made, strict=False):
            if name:
                self.values[name] = value
                if isinstance(value, Wire) and value.node.id not in self.labelled:
                    self.labelled.add(value.node.id)
                    self.assembly.label(value.node, _printable(node.name)[:200])
        for name in node.outputs[len(made) :]:
            self.values[name] = Failed()

    def _written(self, site: Site, form: Row) -> Sequence[Value]:
        try:
            _check_form(site, form)
            if not any(isinstance(each, Wire) for each in site.inputs):
                constants = [each for each in site.inputs if not isinstance(each, Wire)]
                folded = fold(site, constants)
                if folded is not None:
                    return [folded]
                if not form.constants:
                    site.refuse("all of its operands are constants", "a constant with the result")
            made = form.rule(site)
            result = [made] if isinstance(made, (Known, Wire)) else made
            _check_sizes(site, result)
        except Refusal as why:
            self._refuse(site.node, why.what, why.instead)
            return [Failed()] * len(site.node.outputs)
        except TypeFault as fault:
            self._refuse(site.node, f"its operands do not fit: {fault.found}", f"{fault.expected}")
            return [Failed()] * len(site.node.outputs)
        return result

    def _refuse(self, node: FileNode, what: str, instead: str) -> None:
        name = f"{node.domain}.{node.op}" if node.domain else node.op
        line = f"{_printable(node.name)}: {_printable(name)}, version {self._version(node)}: {_printable(what)}"
        self.refused.append(f"  {line}; supported: {_printable(instead)}")

    def _error(self) -> BitternError:
        listed = self.refused[:_SHOWN]
        more = len(self.refused) - len(listed)
        lines = "\n".join([*listed, *([f"  and {more} more"] if more else [])])
        count = len(self.refused)
        return BitternError(
            UNSUPPORTED,
            f"{count} operation{'s' if count > 1 else ''} of {shown(self.graph.name)} cannot be imported:\n{lines}\n",
            "Export the model again without them, or write them in the supported form.",
        )


def _printable(text: str) -> str:
    """Return text that a file may have made up as it can be shown: control characters escaped, at most 300 long."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[:300])


def _check_sizes(site: Site, made: Sequence[Known | Wire]) -> None:
    """Refuse results that are larger than any network needs, before another one is made of them."""
    for value in made:
        shape = value.shape if isinstance(value, Wire) else value.array.shape
        if prod(max(size, 1) for size in shape) > _MOST_VALUES or len(shape) > _MOST_AXES:
            site.refuse(f"it makes {list(shape)} values for each sample", f"at most {_MOST_VALUES} values")


def _check_form(site: Site, form: Row) -> None:
    """Refuse what the row does not understand: attributes, the number of inputs and outputs."""
    node = site.node
    unknown = sorted(set(node.attributes) - form.attributes)
    if unknown:
        site.refuse(f"it has the unknown attribute `{unknown[0]}`", nearest(unknown[0], sorted(form.attributes)))
    count = len(site.inputs)
    if not form.least <= count <= form.most or None in site.inputs[: form.least]:
        site.refuse(f"it has {count} inputs", f"{form.least} to {form.most} inputs")
    wrong = [each.element for each in site.inputs if isinstance(each, Wire) and each.element not in form.elements]
    if wrong:
        site.refuse(f"it is given {wrong[0]}", " or ".join(sorted(form.elements)))
    if len([name for name in node.outputs if name]) > form.outputs:
        site.refuse(f"it has {len(node.outputs)} outputs", f"the first {form.outputs} of them")


def _hint(node: FileNode) -> str:
    """Return the nearest supported form of an operation that has no row."""
    if node.domain not in DOMAINS:
        return f"operations of the domains {', '.join(f'`{name}`' for name in DOMAINS if name)} and of the standard"
    found = _NEAREST.get(node.op)
    if found:
        return found
    domain = DOMAINS[node.domain]
    return nearest(node.op, [name for own, name in rows() if own == domain]) or "see the list of operations"


_NEAREST: dict[str, str] = {
    "LSTM": "steps written with MatMul, Sigmoid, Tanh, Mul and Add",
    "GRU": "steps written with MatMul, Sigmoid, Tanh, Mul and Add",
    "RNN": "steps written with MatMul, Tanh and Add",
    "Loop": "the unrolled body",
    "Scan": "the unrolled body",
    "If": "the branch that is taken, exported alone",
    "Einsum": "MatMul and Transpose",
    "FloatQuant": "Quant of at most 8 bits",
    "QuantizeLinearBlock": "QuantizeLinear for a tensor or an axis",
    "InstanceNormalization": "BatchNormalization",
    "GroupNormalization": "BatchNormalization",
    "NonZero": "operations whose shapes are fixed",
    "NonMaxSuppression": "the network up to its boxes and scores",
    "StringNormalizer": "numbers; text is prepared outside",
    "RoiAlign": "the network up to its features",
    "GridSample": "Resize with mode `nearest`",
    "Upsample": "Resize with mode `nearest`",
    "XnorPopcountMatMul": "MatMul of BipolarQuant values",
    "Im2Col": "Conv",
}


def _bad_input(given: FileInput, what: str, allowed: str) -> None:
    raise BitternError(BAD_INPUT, f"The input {shown(given.name)} {what}.", f"Give it {allowed} (`shapes`).")
