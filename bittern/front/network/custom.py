"""A layer of one's own: a function written in the language, with its weights. One declaration."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from bittern.base.errors import BitternError, code, nearest
from bittern.front.network.draft import Flow, Initial, flow
from bittern.front.network.layer import Layer
from bittern.front.network.widths import Width, element_of_width, is_code
from bittern.graph.node import Function, Node
from bittern.lang import syntax
from bittern.lang.library import Module
from bittern.lang.source import Source
from bittern.types.dims import Dim, dim, symbol
from bittern.types.elements import ELEMENTS, Element
from bittern.types.values import Tensor

if TYPE_CHECKING:
    from bittern.front.network.draft import Draft

UNFIT_FUNCTION = code("N119", "a function of one's own does not fit as a layer")


@dataclass(frozen=True, slots=True, eq=False)
class Custom(Layer):
    """A function of the language as a layer, applied to every sample; with `positions`, to the channels of every place.

    program: a `.btn` file (Path), or the text of one. function: its name; "" where the program has one only. weights:
    the parameters that are not values, with their widths or elements, such as `{"w": "b1", "shift": "i32"}`; those of
    at most 8 bits begin as random codes, others as 0. sizes: dimensions that neither values nor weights show. The other
    parameters are the layer's values, in order. The function returns one array.
    """

    KIND: ClassVar[str] = "custom"

    program: Path | str
    function: str = field(default="", kw_only=True)
    weights: Mapping[str, Width] = field(default_factory=dict, kw_only=True)
    sizes: Mapping[str, int] = field(default_factory=dict, kw_only=True)
    positions: bool = field(default=False, kw_only=True)

    def draw(self, draft: "Draft", *inputs: Flow) -> Flow:
        """Draw the call. Raises N119, E212 for a program with errors."""
        module = self._module(draft)
        declared = self._declared(module)
        names = [each.name.name for each in declared.parameters]
        self._check_names(names, len(inputs))
        lead = len(inputs[0].shape) if self.positions else 1
        held = {name: self._element(width) for name, width in self.weights.items()}
        values = dict(zip([name for name in names if name not in held], inputs, strict=True))
        bound = _bound(declared, held | {name: each.element for name, each in values.items()})
        made = draft.a.library.function(f"{module.name}.{declared.name.name}", elements=bound)
        draft.a.library.raise_errors(module)
        given = self._arguments(draft, made, names, values, held, lead)
        node = draft.a.apply(declared.name.name, made, given, lead, [name in values for name in names])
        if not isinstance(node.type, Tensor):
            raise _unfit(f"`{declared.name.name}` returns several values.", "Return one array.")
        return flow(node)

    def _module(self, draft: "Draft") -> Module:
        library = draft.a.library
        if isinstance(self.program, Path):
            try:
                module = library.load(self.program.stem, [self.program], self.program.parent)
            except OSError as fault:
                raise _unfit(f"`{self.program}` cannot be read: {fault}.", "Give the path of a .btn file.") from fault
            library.modules.setdefault(self.program.stem, module)
        else:
            name = f"layer_{draft.path.replace('.', '_')}"
            module = library.add(name, [Source(f"{name}.btn", self.program)])
        library.raise_errors(module)
        return module

    def _declared(self, module: Module) -> syntax.FunctionDecl:
        known = list(module.functions)
        name = self.function or (known[0] if len(known) == 1 else "")
        if name not in module.functions:
            what = f"The program has no function `{name}`." if name else f"The program has {len(known)} functions."
            raise _unfit(what, nearest(name, known) or "Name one of its functions.")
        return module.functions[name][0]

    def _check_names(self, names: list[str], count: int) -> None:
        strange = [name for name in self.weights if name not in names]
        if strange:
            raise _unfit(f"The function has no parameter `{strange[0]}`.", nearest(strange[0], names))
        if len(names) - len(self.weights) != count:
            wanted = [name for name in names if name not in self.weights]
            what = f"The function takes the values {', '.join(f'`{name}`' for name in wanted)}, and gets {count}."
            raise _unfit(what, "Name in `weights` the parameters that are not values.")

    def _element(self, width: Width) -> Element:
        return ELEMENTS[width] if isinstance(width, str) and width in ELEMENTS else element_of_width(width)

    def _arguments(
        self,
        draft: "Draft",
        made: Function,
        names: list[str],
        values: Mapping[str, Flow],
        held: Mapping[str, Element],
        lead: int,
    ) -> list[Node]:
        """Return values and weights in the order of the parameters."""
        if len(made.params) != len(names):
            raise _unfit("The function takes a struct.", "Take arrays: a layer's weights are arrays.")
        dims = self._dims(draft, made, names, values, lead)
        given = []
        for name, parameter in zip(names, made.params, strict=True):
            assert isinstance(parameter.type, Tensor), parameter
            if name in values:
                given.append(values[name].node)
                continue
            sizes = [size.substitute(dims).constant for size in parameter.type.shape]
            if None in sizes:
                raise _unfit(f"The size of `{name}` is not known.", "Say its dimensions in `sizes`.")
            shape, element = tuple(int(size or 0) for size in sizes), held[name]
            array = draft.parameter(name, element, shape, _initial(element, shape))
            given.append(draft.constant(name, array, element))
        return given

    def _dims(
        self, draft: "Draft", made: Function, names: list[str], values: Mapping[str, Flow], lead: int
    ) -> dict[int, Dim]:
        """Return what values and `sizes` say of the dimensions."""
        labels = list(made.labels.dims)
        for name in self.sizes:
            if name not in labels:
                raise _unfit(f"The function has no dimension `{name}`.", nearest(name, labels))
        dims = {labels.index(name): dim(size) for name, size in self.sizes.items()}
        for name, parameter in zip(names, made.params, strict=True):
            if name not in values or not isinstance(parameter.type, Tensor):
                continue
            shape = values[name].shape[lead - 1 :]
            if len(shape) != len(parameter.type.shape):
                what = f"`{name}` has {len(parameter.type.shape)} axes and gets {list(shape)}."
                raise _unfit(what, "Reshape before, or change `positions`.")
            for wanted, size in zip(parameter.type.shape, shape, strict=True):
                for k in range(made.dims):
                    if wanted == symbol(k) and dims.setdefault(k, dim(size)) != dim(size):
                        what = f"The dimension `{labels[k]}` is {dims[k].constant} and {size}."
                        raise _unfit(what, "Give values of the sizes that the function takes.")
        return dims


def _bound(declared: syntax.FunctionDecl, elements: Mapping[str, Element]) -> dict[str, str]:
    """Return the element arguments that the parameters' types show. Raises N119 for an element that a type has not."""
    open_ = {each.name.name for each in declared.generics if each.kind in ("type", "int", "float")}
    found: dict[str, str] = {}
    for each in declared.parameters:
        word = each.type.name.name if isinstance(each.type, syntax.NamedType) else ""
        element = elements[each.name.name].name
        if word in open_:
            found[word] = element
        elif word in ELEMENTS and word != element:
            raise _unfit(
                f"`{each.name.name}` is {word} and gets {element}.", "Change the width of what comes before it."
            )
    return found


def _initial(element: Element, shape: tuple[int, ...]) -> Initial:
    return (lambda numbers: numbers.codes(element, shape)) if is_code(element) else (lambda _: 0)


def _unfit(what: str, remedy: str) -> BitternError:
    return BitternError(UNFIT_FUNCTION, what, remedy)
