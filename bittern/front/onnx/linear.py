"""Matrix products: MatMul and Gemm, of codes (exact integers) or of f32 numbers (a fold in ascending order)."""

from dataclasses import replace

import numpy as np

from bittern.front.network.assembly import element_of
from bittern.front.onnx.codes import Weights, codes_of, product_scale, weights_of
from bittern.front.onnx.elementwise import beside_constant
from bittern.front.onnx.emitter import sizes_of
from bittern.front.onnx.table import Site, row
from bittern.front.onnx.values import Array, Coding, Known, Wire, coding_of
from bittern.graph.node import Node


@row("MatMul", "a matrix product with a constant, or of two computed tensors", inputs=(2, 2))
def _matmul(site: Site) -> Wire:
    x, y = site.given(0), site.given(1)
    if isinstance(x, Wire) and isinstance(y, Wire):
        return _of_wires(site, x, y)
    if isinstance(x, Wire) and isinstance(y, Known):
        site.data(1, "matrix")
        return by_constant(site, x, y)
    assert isinstance(x, Known) and isinstance(y, Wire), site
    return _constant_first(site, x, y)


def by_constant(site: Site, x: Wire, matrix: Known) -> Wire:
    """Return x @ matrix along the sample's last axis. matrix: [n, m] (or with leading axes of length 1)."""
    array = matrix.array
    if array.ndim > 2 and array.ndim <= x.rank and array.shape[:-2] == (1,) * (array.ndim - 2):
        matrix = _without_ones(matrix)
        array = matrix.array
    if array.ndim != 2:
        site.refuse(f"its matrix has {array.ndim} axes", "a matrix of 2 axes")
    if not x.shape:
        site.refuse("it sums over the batch axis", "a sample of at least one axis")
    if x.shape[-1] != array.shape[0]:
        site.refuse(f"it sums over {x.shape[-1]} values and {array.shape[0]} rows", "equal lengths")
    last = len(x.shape) - 1
    if x.order[-1] != last:
        x = site.emitter.arranged(x)
    x, matrix = _unflattened(site, x, matrix)
    array = matrix.array
    shape = (*x.shape[:-1], array.shape[1])
    weights, codes = weights_of(matrix), codes_of(x)
    if weights is not None and codes is not None and _fits(weights, array):
        coding, zero = codes
        made = Wire(integer_dense(site, x, weights, zero), shape, x.order, "i32", None, x.is_batched)
        total = product_scale(coding.scale, weights.scale.reshape(-1) if weights.scale.ndim else weights.scale)
        return site.emitter.coded(made, coding_of(_along_last(total, len(shape))))
    if x.element != "f32" or array.dtype != np.float32:
        site.refuse(f"it multiplies {x.element} by {array.dtype}", "f32, or MatMulInteger for whole numbers")
    values = site.emitter.values(x)
    given = site.emitter.constant(np.ascontiguousarray(array.T), "f32")
    node = site.emitter.assembly.call("onnx.dense_float", given, values.node, lead=len(shape), mapped=(False, True))
    return Wire(node, shape, x.order, "f32", None, x.is_batched)


def _unflattened(site: Site, x: Wire, matrix: Known) -> tuple[Wire, Known]:
    """Return a flattened image as it is stored, channels last, and the matrix with its rows in that order."""
    flat, moved = x.node, x.node.inputs[0] if x.node.inputs else x.node
    if flat.kind != "reshape" or moved.kind != "permute" or len(x.shape) != 1:
        return x, matrix
    axes, sizes = moved["axes"], [size.constant for size in sizes_of(moved)[1:]]
    if not isinstance(axes, tuple) or axes[0] != 0 or np.prod([size or 0 for size in sizes]) != x.shape[0]:
        return x, matrix
    places = np.arange(x.shape[0]).reshape([size or 0 for size in sizes])
    rows = places.transpose([int(k) for k in np.argsort([int(str(axis)) - 1 for axis in axes[1:]])]).reshape(-1)
    node = site.emitter.assembly.op("reshape", moved.inputs[0], shape=sizes_of(flat))
    turned = Known(matrix.array[rows])
    if matrix.codes is not None and matrix.coding is not None:
        parts = [
            each[rows] if each.ndim and len(each) > 1 else each for each in (matrix.coding.scale, matrix.coding.zero)
        ]
        turned = replace(matrix, array=matrix.array[rows], codes=matrix.codes[rows], coding=Coding(*parts))
    return replace(x, node=node), turned


def _fits(weights: Weights, array: Array) -> bool:
    """Whether the scale is one value or one for each column."""
    return weights.scale.ndim == 0 or (weights.scale.ndim == array.ndim and weights.scale.shape[:-1] == (1,))


def _along_last(scale: Array, rank: int) -> Array:
    return scale if scale.ndim == 0 else scale.reshape((1,) * (rank - 1) + (-1,))


def _without_ones(matrix: Known) -> Known:
    shape = matrix.array.shape[-2:]
    if matrix.codes is None or matrix.coding is None or not matrix.coding.is_plain():
        return Known(matrix.array.reshape(shape))
    return replace(matrix, array=matrix.array.reshape(shape), codes=matrix.codes.reshape(shape))


def integer_dense(site: Site, x: Wire, weights: Weights, zero: int) -> Node:
    """Return the sums of (x - zero) * w over the last stored axis as i32. weights: [n, m]."""
    assembly = site.emitter.assembly
    total: Node | None = None
    for codes, element in weights.parts:
        w = site.emitter.constant(codes.T, element)
        node = assembly.call("dense.dense", w, x.node, lead=len(x.shape), mapped=(False, True))
        total = node if total is None else assembly.op("add", total, node)
    assert total is not None, weights
    return shifted(site, total, -zero * weights.total.sum(0))


def shifted(site: Site, node: Node, shift: Array) -> Node:
    """Return accumulators plus a constant for each channel of the last axis. Raises where it exceeds 32 bits."""
    if not shift.any():
        return node
    if np.abs(shift).max() >= 1 << 31:
        site.refuse("its sums exceed 32 bits", "shorter sums or fewer bits")
    assembly = site.emitter.assembly
    return assembly.op("add", node, assembly.spread(site.emitter.constant(shift, "i32"), node))


def _of_wires(site: Site, x: Wire, y: Wire) -> Wire:
    """Return the product of two computed tensors, matrix by matrix."""
    emitter = site.emitter
    if not (x.is_batched and y.is_batched) or len(x.shape) < 2 or len(y.shape) < 2:
        site.refuse("it multiplies along the batch axis", "two tensors of 3 axes or more")
    if x.shape[-1] != y.shape[-2] or len(x.shape) != len(y.shape):
        site.refuse(f"its operands {list(x.shape)} and {list(y.shape)} do not fit", "[..., t, k] by [..., k, n]")
    if any(own != other and 1 not in (own, other) for own, other in zip(x.shape[:-2], y.shape[:-2], strict=True)):
        site.refuse(f"its operands {list(x.shape)} and {list(y.shape)} do not fit", "shapes that fit by broadcasting")
    front = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    last = len(x.shape) - 1
    columns = (*range(last - 1), last, last - 1)
    left, right = codes_of(x), codes_of(y)
    coding = None
    if left is not None and right is not None and not left[1] and not right[1]:
        coding = coding_of(product_scale(left[0].scale, right[0].scale))
        x, y, name = emitter.codes(x), emitter.codes(y), "matmul.matmul_transposed"
    else:
        x, y, name = emitter.values(x), emitter.values(y), "onnx.product_float"
        if (x.element, y.element) != ("f32", "f32"):
            site.refuse(f"it multiplies {x.element} by {y.element}", "f32 or codes of at most 8 bits")
    x = emitter.arranged(emitter.expanded(x, (*front, *x.shape[-2:])))
    y = emitter.arranged(emitter.expanded(y, (*front, *y.shape[-2:])), columns)
    node = emitter.assembly.call(name, x.node, y.node, lead=1 + len(front), mapped=(True, True))
    shape = (*front, x.shape[-2], y.shape[-1])
    made = Wire(node, shape, tuple(range(len(shape))), element_of(node).name)
    return made if coding is None else emitter.coded(made, coding)


def _constant_first(site: Site, matrix: Known, y: Wire) -> Wire:
    """Return matrix @ y as the transpose of y^T @ matrix^T; the order of the axes stays open."""
    site.data(0, "matrix")
    if matrix.array.ndim != 2 or len(y.shape) < 2:
        site.refuse("its first operand is a constant that meets the batch axis", "a matrix of 2 axes before [b, k, n]")
    last = len(y.shape) - 1
    turned = (*range(last - 1), last, last - 1)
    swapped = Wire(
        y.node,
        tuple(y.shape[axis] for axis in turned),
        tuple(turned.index(axis) for axis in y.order),
        y.element,
        _turned(y, turned),
        y.is_batched,
    )
    result = by_constant(site, swapped, _transposed(matrix))
    return Wire(
        result.node,
        tuple(result.shape[axis] for axis in turned),
        tuple(turned.index(axis) for axis in result.order),
        result.element,
        _turned(result, turned),
        y.is_batched,
    )


def _turned(x: Wire, axes: tuple[int, ...]) -> Coding | None:
    if x.coding is None:
        return None
    parts = [each if each.ndim == 0 else each.transpose(axes) for each in (x.coding.scale, x.coding.zero)]
    return coding_of(*parts)


def _transposed(matrix: Known) -> Known:
    if matrix.codes is None or matrix.coding is None:
        return Known(matrix.array.T)
    parts = [each if each.ndim == 0 else each.T for each in (matrix.coding.scale, matrix.coding.zero)]
    return Known(matrix.array.T, matrix.codes.T, matrix.element, coding_of(*parts))


@row(
    "Gemm",
    "alpha * x @ w + beta * bias; w and bias are constants",
    inputs=(2, 3),
    attributes="alpha beta transA transB broadcast",
)
def _gemm(site: Site) -> Wire:
    x = site.wire(0)
    if site.whole("transA"):
        site.refuse("it turns the batch axis", "transA = 0")
    if len(x.shape) != 1:
        site.refuse(f"its input has {x.rank} axes", "a tensor of 2 axes")
    matrix = site.given(1)
    if not isinstance(matrix, Known):
        site.refuse("its matrix is computed", "MatMul for two computed tensors")
    site.data(1, "matrix")
    result = by_constant(site, x, _transposed(matrix) if site.whole("transB") else matrix)
    emitter = site.emitter
    alpha, beta = site.number("alpha", 1.0), site.number("beta", 1.0)
    if alpha != 1:
        result = emitter.with_constant("mul", emitter.values(result), alpha)
    given = site.given(2)
    if given is None:
        return result
    if isinstance(given, Wire):
        site.refuse("its bias is computed", "a constant bias, or Add")
    return with_bias(site, result, given, 2, beta)


def with_bias(site: Site, x: Wire, bias: Known, place: int, beta: float = 1.0, axis: int = -1) -> Wire:
    """Return x plus a constant row along an axis of the sample: among the integers where it has their very scale."""
    array = site.data(place, "bias")
    row = _in_codes(site, x, bias) if beta == 1 else None
    shape = tuple(-1 if k == axis % len(x.shape) else 1 for k in range(len(x.shape)))
    emitter = site.emitter
    if row is not None and x.coding is not None:
        codes = emitter.with_constant("add", emitter.codes(x), row.reshape(shape if row.size > 1 else ()))
        return emitter.coded(codes, x.coding)
    given = array * np.float32(beta) if beta != 1 else array
    if given.ndim <= 1 and given.size > 1:
        given = given.reshape(shape)
    return beside_constant(site, "add", x, given)


def _in_codes(site: Site, x: Wire, bias: Known) -> Array | None:
    """Return a bias as integers of an accumulator: a quantised one whose scale is the accumulator's, with zero 0."""
    if x.coding is None or bias.codes is None or bias.coding is None or not bias.coding.is_symmetric():
        return None
    if element_of(x.node).name != "i32" or not x.coding.is_symmetric():
        return None
    scales = [each.scale.reshape(-1).astype(np.float64) for each in (x.coding, bias.coding)]
    if bias.codes.ndim > 1 or any(len(each) not in (1, bias.codes.size) for each in scales):
        return None
    return bias.codes if (np.abs(scales[0] - scales[1]) <= _ROUNDED * scales[0]).all() else None


_ROUNDED = 2.0**-22  # scales of a bias are products that another program rounded
