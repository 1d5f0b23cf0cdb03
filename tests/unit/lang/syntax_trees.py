"""What the tests of the syntax share: trees without their spans, random trees, and the samples of the language."""

from dataclasses import fields, is_dataclass

from hypothesis import strategies as st

from bittern.lang import syntax
from bittern.lang.parser import KINDS, parse
from bittern.lang.source import Source, Span

NOWHERE = Span(Source("", ""), 0, 0)


def shape(node):
    """Return a tree as nested tuples without its spans."""
    if is_dataclass(node):
        kept = [each.name for each in fields(node) if each.name not in ("span", "operator_span")]
        return (type(node).__name__, *(shape(getattr(node, name)) for name in kept))
    return tuple(shape(each) for each in node) if isinstance(node, tuple) else node


def parsed(text):
    """Return the tree of a text that has no errors."""
    tree, errors = parse(Source("case.btn", text))
    assert not errors, [(error.code, error.message, text[error.span.start :][:20]) for error in errors]
    return tree


def expression(text):
    """Return the tree of one expression."""
    return parsed(f"const x: f32 = {text}\n").declarations[0].value


def sketch(expr):
    """Return the structure of an expression of names, numbers and operators: `(+ a (* b c))`."""
    match expr:
        case syntax.Name():
            return expr.name
        case syntax.Number():
            return expr.text + expr.suffix
        case syntax.Binary():
            return f"({expr.operator} {sketch(expr.left)} {sketch(expr.right)})"
        case syntax.Unary():
            return f"({expr.operator} {sketch(expr.operand)})"
    raise AssertionError(expr)


# --- random trees: each function draws one piece; depth says how many levels may still follow

_WORDS = ["a", "b", "x9", "_", "_y", "Model", "a_name_of_some_length", "another_name_that_is_even_longer_than_that"]
_NUMBERS = ["0", "7", "1000", "1.5", "1e-6", "1.0E+9", "0x1p-100", "0x1.8p0"]
_BINARIES = ["or", "and", "==", "<", ">=", "|", "^", "&", "<<", ">>", "+", "-", "*", "/", "%"]


def _name(draw):
    return syntax.Name(NOWHERE, draw(st.sampled_from(_WORDS)))


def _number(draw):
    if draw(st.booleans()):
        return syntax.Number(NOWHERE, draw(st.sampled_from(["0x1f", "0xFF"])), draw(st.sampled_from(["", "u8", "i64"])))
    suffix = draw(st.sampled_from(["", "", "f32", "u8", "bf16", "b1"]))
    return syntax.Number(NOWHERE, draw(st.sampled_from(_NUMBERS)), suffix)


def _several(draw, piece, *more, least=0, most=3):
    return tuple(piece(draw, *more) for _ in range(draw(st.integers(least, most))))


def _maybe(draw, piece, *more):
    return piece(draw, *more) if draw(st.booleans()) else None


def _not_one(items):
    return items if len(items) != 1 else ()


def _expr(draw, depth):
    kind = draw(st.sampled_from(_PIECES)) if depth else draw(st.sampled_from([_name, _number]))
    return kind(draw) if kind in (_name, _number) else kind(draw, depth - 1)


def _binary(draw, depth):
    return syntax.Binary(NOWHERE, draw(st.sampled_from(_BINARIES)), _expr(draw, depth), _expr(draw, depth), NOWHERE)


def _unary(draw, depth):
    return syntax.Unary(NOWHERE, draw(st.sampled_from(["-", "~", "not", "&"])), _expr(draw, depth))


def _argument(draw, depth):
    return syntax.Argument(NOWHERE, _maybe(draw, _name), _expr(draw, depth))


def _call(draw, depth):
    return syntax.Call(NOWHERE, _expr(draw, depth), _several(draw, _argument, depth, most=5))


def _range(draw, depth):
    return syntax.Range(NOWHERE, _expr(draw, depth), _maybe(draw, _expr, depth))


def _index(draw, depth):
    return syntax.Index(NOWHERE, _expr(draw, depth), _several(draw, _range, depth))


def _field(draw, depth):
    return syntax.Field(NOWHERE, _expr(draw, depth), _name(draw))


def _tuple(draw, depth):
    return syntax.TupleLiteral(NOWHERE, _not_one(_several(draw, _expr, depth)))


def _array(draw, depth):
    return syntax.ArrayLiteral(NOWHERE, _several(draw, _expr, depth, most=5))


def _map(draw, depth):
    body, names = _expr(draw, depth), _several(draw, _name, least=1)
    return syntax.Map(NOWHERE, body, names, _several(draw, _range, depth, least=1))


def _if(draw, depth):
    otherwise = draw(st.sampled_from([_block, _block, _if, _for, _while])) if depth else _block
    after = otherwise(draw, max(depth - 1, 0))
    return syntax.If(NOWHERE, _expr(draw, depth), _block(draw, depth), after)


def _carry(draw, depth):
    return syntax.Carry(NOWHERE, _name(draw), _maybe(draw, _expr, depth))


def _for(draw, depth):
    names, ranges = _several(draw, _name, least=1), _several(draw, _range, depth, least=1)
    carries = _several(draw, _carry, depth, least=1)
    return syntax.For(NOWHERE, names, ranges, carries, _block(draw, depth), draw(st.booleans()))


def _while(draw, depth):
    condition, limit, carries = _expr(draw, depth), _expr(draw, depth), _several(draw, _carry, depth, least=1)
    return syntax.While(NOWHERE, condition, limit, carries, _block(draw, depth))


_PIECES = [_name, _number, _binary, _binary, _unary, _call, _index, _field, _tuple, _array, _map, _if, _for, _while]


def _pattern(draw, depth=2):
    kind = draw(st.integers(0, 4)) if depth else 0
    if kind == 1:
        return syntax.TuplePattern(NOWHERE, _not_one(_several(draw, _pattern, depth - 1)))
    if kind == 2:
        return syntax.ArrayPattern(NOWHERE, _several(draw, _pattern, depth - 1))
    return syntax.NamePattern(NOWHERE, _name(draw))


def _type(draw, depth):
    mode = draw(st.sampled_from(["", "", "own", "&"]))
    if depth and not draw(st.integers(0, 3)):
        return syntax.TupleType(NOWHERE, mode, _not_one(_several(draw, _type, depth - 1)))
    return syntax.NamedType(NOWHERE, mode, _name(draw), _several(draw, _expr, depth), _maybe(draw, _name))


def _let(draw, depth):
    return syntax.Let(NOWHERE, _pattern(draw), _maybe(draw, _type, depth), _expr(draw, depth))


def _assign(draw, depth):
    place = _name(draw)
    for _ in range(draw(st.integers(0, 2))):
        place = syntax.Field(NOWHERE, place, _name(draw))
    if draw(st.booleans()):
        place = syntax.Index(NOWHERE, place, _several(draw, _range, depth))
    return syntax.Assign(NOWHERE, place, _expr(draw, depth))


def _statement(draw, depth):
    return draw(st.sampled_from([_let, _assign]))(draw, depth)


def _block(draw, depth):
    return syntax.Block(NOWHERE, _several(draw, _statement, depth, most=2), _expr(draw, depth))


def _generic(draw):
    return syntax.Generic(NOWHERE, _name(draw), draw(st.sampled_from(["", "", *KINDS])))


def _parameter(draw):
    return syntax.FieldDecl(NOWHERE, _name(draw), _type(draw, 1))


def _declaration(draw):
    kind = draw(st.sampled_from(["use", "const", "struct", "fn", "fn"]))
    if kind == "use":
        return syntax.Use(NOWHERE, _several(draw, _name, least=1))
    doc = "\n".join(draw(st.lists(st.text("ab /.é", max_size=9).map(str.rstrip), max_size=3)))
    name = _name(draw)
    if kind == "const":
        return syntax.ConstDecl(NOWHERE, name, _type(draw, 2), _expr(draw, 3), doc)
    generics, fields_ = _several(draw, _generic), _several(draw, _parameter, most=6)
    if kind == "struct":
        return syntax.StructDecl(NOWHERE, name, generics, fields_, doc)
    result, effects, where = _type(draw, 2), _several(draw, _name, most=2), _several(draw, _expr, 2, most=2)
    body, ideal = _block(draw, 3), _maybe(draw, _block, 1)
    inline = draw(st.booleans())
    return syntax.FunctionDecl(NOWHERE, name, inline, generics, fields_, result, effects, where, body, ideal, doc)


@st.composite
def files(draw):
    """Draw a file of at most two declarations."""
    return syntax.File(NOWHERE, _several(draw, _declaration, most=2))


@st.composite
def expressions(draw, depth=4):
    """Draw one expression."""
    return _expr(draw, depth)


# --- the samples of the language

SAMPLES = {
    "rms_norm": """
/// Root-mean-square normalisation (Zhang & Sennrich 2019). x, gain: [n] f32 -> [n] f32.
fn rms_norm[n](x: f32[n], gain: f32[n], eps: f32) -> f32[n] {
  let scale = 1.0 / sqrt(sum(x * x) / f32(n) + eps)
  x * scale * gain
}
""",
    "quantise": """
/// Activations in blocks of 32: codes, scale, and scale times the sum of the codes.
struct Act[n] { q: i8[n / 32, 32], d: f32[n / 32], ds: f32[n / 32] }

fn quantise[n](x: f32[n]) -> Act[n] where n % 32 == 0 {
  let rows = reshape(x, [n / 32, 32])
  let a = [from_bits[f32](max_of(bits(abs(row)))) for row in rows]   // integer maximum: free of order, keeps NaN
  let tiny = a < 0x1p-100                                            // 127 / a would overflow
  let d = select(tiny, 0.0, a / 127.0)
  let inverse = select(tiny, 0.0, 127.0 / a)
  let q = [round[i8](row * i) for row, i in rows, inverse]
  Act(q: q, d: d, ds: d * [f32(sum(i32(row))) for row in q])
} ideal {
  let q = reshape(x, [n / 32, 32])
  Act(q: q, d: fill(1.0, [n / 32]), ds: [sum(row) for row in q])
}

/// One row of q4_1 (20 bytes a block: scale, minimum, 16 nibble pairs) times activations.
fn dot_q4_1[n](row: &u8[n / 32, 20], x: &Act[n]) -> f32 where n % 32 == 0 {
  for b in 0..n / 32 with acc = 0.0 {
    let block = row[b]
    let d = f32(from_bits[f16](block[0..2]))
    let low = f32(from_bits[f16](block[2..4]))
    let code = concat(block[4..20] & 15, block[4..20] >> 4)
    acc + (f32(dot(code, x.q[b])) * (d * x.d[b]) + low * x.ds[b])
  }
}

fn matvec_q4_1[m, n](w: &q4_1[m, n], x: &Act[n]) -> f32[m] where n % 32 == 0 {
  [dot_q4_1(row, x) for row in blocks(w)]
}
""",
    "block": """
struct Layer[d, g, r, h, ff] {
  attn_norm: f32[d], q: weight[g * r * h, d], k: weight[g * h, d], v: weight[g * h, d], o: weight[d, g * r * h],
  ffn_norm: f32[d], gate: weight[ff, d], up: weight[ff, d], down: weight[d, ff],
}

fn block[t, s, c, layers, d, g, r, h, ff](w: &Layer[d, g, r, h, ff], l: u32, m: &Facts[c, h], x: f32[t, d],
    at: &Place[t], cache: own Cache[layers, s, c, g, h]) -> (f32[t, d], own Cache[layers, s, c, g, h]) {
  let a = [rms_norm(row, w.attn_norm, m.eps) for row in x]
  let q = rotary(reshape(linear(w.q, a), [t, g * r, h]), at.pos, m.rope)
  let k = rotary(reshape(linear(w.k, a), [t, g, h]), at.pos, m.rope)
  cache.k[l, at.seq, at.pos] = round[f16](k)              // t rows; all are written before any is read
  cache.v[l, at.seq, at.pos] = round[f16](reshape(linear(w.v, a), [t, g, h]))
  let y = attention(q, &cache.k[l], &cache.v[l], at)
  let x = x + linear(w.o, reshape(y, [t, g * r * h]))
  let b = [rms_norm(row, w.ffn_norm, m.eps) for row in x]
  (x + linear(w.down, silu(linear(w.gate, b)) * linear(w.up, b)), cache)
}

/// t tokens, each with its own sequence and position.
fn forward[t, s, c, layers, vocab, d, g, r, h, ff](m: &Llama[layers, vocab, d, g, r, h, ff], token: u32[t],
    at: &Place[t], cache: own Cache[layers, s, c, g, h]) -> (f32[t, d], own Cache[layers, s, c, g, h]) {
  let x = embed(m.embed, token)
  let (x, cache) = each w, l in m.layer with x, cache { block(w, l, m.facts, x, at, cache) }
  ([rms_norm(row, m.norm, m.facts.eps) for row in x], cache)
}
""",
    "sha256": """
/// SHA-256 compression of one block (FIPS 180-4, 6.2). Message words are big-endian. K: const u32[64].
fn sha256_block(state: u32[8], message: u32[16]) -> u32[8] {
  let w = for t in 16..64 with w = concat(message, fill(0, [48])) {
    let a = rotr(w[t - 15], 7) ^ rotr(w[t - 15], 18) ^ w[t - 15] >> 3
    let b = rotr(w[t - 2], 17) ^ rotr(w[t - 2], 19) ^ w[t - 2] >> 10
    w[t] = w[t - 16] + a + w[t - 7] + b
    w
  }
  state + for t in 0..64 with v = state {
    let [a, b, c, d, e, f, g, h] = v
    let t1 = h + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) + (e & f ^ ~e & g) + K[t] + w[t]
    let t2 = (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) + (a & b ^ a & c ^ b & c)
    [t1 + t2, a, b, c, d + t1, e, f, g]
  }
}
""",
    "dense_sign": """
/// Binary dense layer; batch norm and sign are folded into the threshold. Counts, no floats.
fn dense_sign[m, n](w: &b1[m, n], x: b1[n], threshold: i32[m]) -> b1[m] {
  [b1(dot(row, x) >= least) for row, least in w, threshold]
}
""",
    "everything": """
use norms
use products.linear

const NAMES: u32[3] = [1, 2_000, 0x1f]

/// First line.
///
///   indented line
inline fn store[e: float, k: int, t: type, f: format, n](x: &e[n] @device, y: (own e[n], u8)) -> e[n]
    ! fs, net
    where n % 32 == 0, n > 4
{
  let (a, _, [b, c]): (f32, u8, u8[2]) = make(x, axis: 0)
  a.b = 1.0f64
  let d = if not a == b { -a } else if c < ~d and b { & b } else {
    let q = 0x1p-100
    q
  }
  while d < 3 limit 10 with d, e = (1, 2) { d +
    1 }
}
""",
}
