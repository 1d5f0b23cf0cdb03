"""Split vectors into pieces of a target's width: the second pass of legalising.

A value is held as pieces of equally many lanes, low lanes first. Lane-wise steps are made piece by piece, in as many
pieces as their widest operand or result needs; what is held in other pieces is cut or joined first. A target of width
0 has one lane a piece, so moving lanes is only naming them.
"""

from collections.abc import Callable, Sequence

from bittern.bitops.expand import Expander
from bittern.bitops.handle import Handle
from bittern.bitops.kernel import Block, Kernel, Step, Value
from bittern.bitops.kinds import KINDS
from bittern.bitops.lanes import Lanes
from bittern.bitops.rebuild import Rebuild


class Splitter(Rebuild):
    """See the module. kernel: holds only kinds that the target has. builder: legalises what splitting makes."""

    def __init__(self, kernel: Kernel, builder: Expander) -> None:
        super().__init__(kernel, builder)
        self.width = builder.target.width
        self._cut: dict[tuple[Value, int], tuple[Value, ...]] = {}
        self._rules: dict[str, Callable[[Step], Sequence[Value]]] = {
            "const": self._const,
            "broadcast": self._broadcast,
            "lane": self._lane,
            "collect": self._collect,
            "part": self._part,
            "join": self._join,
            "shuffle": self._shuffle,
            "lookup": self._lookup,
            "mask_word": self._mask_word,
            "word_mask": self._word_mask,
            "first": self._first,
        }

    def count(self, type_: Lanes) -> int:
        """Return in how many pieces a type is held."""
        if self.width == 0:
            return type_.count
        bits = 8 * type_.count if type_.is_mask else type_.bits
        return 1 if type_.is_scalar else max(1, bits // self.width)

    def split(self, type_: Lanes) -> list[Lanes]:
        """Return the types of the pieces of a value that crosses the edge of a block."""
        count = self.count(type_)
        return [type_.of(type_.count // count)] * count

    def at_edge(self, value: Value) -> tuple[Value, ...]:
        """Return a value in the pieces that `split` gives."""
        return self.get(value, self.count(value.type))

    def block(self, block: Block, kind: str) -> Block:
        """Make a block; what is cut inside is not in sight outside."""
        saved = dict(self._cut)
        made = super().block(block, kind)
        self._cut = saved
        return made

    def get(self, value: Value, count: int) -> tuple[Value, ...]:
        """Return a value in `count` pieces."""
        held = self.pieces[value]
        if len(held) == count:
            return held
        if (value, count) not in self._cut:
            handles = [Handle(self.builder, v) for v in held]
            lanes = value.type.count // count
            if count > len(held):
                firsts = range(0, handles[0].type.count, lanes)
                made = [h.part(first, lanes) for h in handles for first in firsts]
            else:
                each = len(held) // count
                made = [self._joined(handles[k : k + each]) for k in range(0, len(held), each)]
            self._cut[value, count] = tuple(h.value for h in made)
        return self._cut[value, count]

    def _joined(self, handles: list[Handle]) -> Handle:
        if len(handles) == 1:
            return handles[0]
        return self.builder.collect(*handles) if handles[0].type.is_scalar else self.builder.join(*handles)

    def plain(self, step: Step) -> None:
        """Make the pieces of a step without blocks."""
        rule = self._rules.get(step.kind)
        if rule is not None:
            self.pieces[step.results[0]] = tuple(rule(step))
        elif KINDS[step.kind].form == "memory":
            self._memory(step)
        elif KINDS[step.kind].form == "lane" and step.operands:
            self._lane_wise(step)
        else:
            super().plain(step)

    def _lane_wise(self, step: Step) -> None:
        values = (*step.operands, *step.results)
        counts = [self.count(v.type) for v in values if not v.type.is_mask or self.width == 0]
        count = max(counts, default=0) or max(len(self.pieces[v]) for v in step.operands)
        columns = [self.get(v, count) for v in step.operands]
        made = [self.builder.emit(step.kind, row, step.attributes)[0] for row in zip(*columns, strict=True)]
        self.pieces[step.result] = tuple(made)

    def _const(self, step: Step) -> Sequence[Value]:
        (of, *rest), bits = self.split(step.result.type), step.attributes["bits"]
        if len(bits) == 1:
            return self.builder.emit("const", [], {"type": of, "bits": bits}) * (1 + len(rest))
        pieces = [bits[k : k + of.count] for k in range(0, len(bits), of.count)]
        return [
            self.builder.emit("const", [], {"type": of, "bits": piece[:1] if len(set(piece)) == 1 else piece})[0]
            for piece in pieces
        ]

    def _broadcast(self, step: Step) -> Sequence[Value]:
        pieces = self.split(step.result.type)
        (scalar,) = self.pieces[step.operands[0]]
        return [Handle(self.builder, scalar).broadcast(pieces[0].count).value] * len(pieces)

    def _lane(self, step: Step) -> Sequence[Value]:
        held, k = self.pieces[step.operands[0]], step.attributes["lane"]
        each = step.operands[0].type.count // len(held)
        return [Handle(self.builder, held[k // each]).lane(k % each).value]

    def _collect(self, step: Step) -> Sequence[Value]:
        scalars = [Handle(self.builder, self.pieces[v][0]) for v in step.operands]
        each = len(scalars) // self.count(step.result.type)
        return [self._joined(scalars[k : k + each]).value for k in range(0, len(scalars), each)]

    def _part(self, step: Step) -> Sequence[Value]:
        held, first, of = self.pieces[step.operands[0]], step.attributes["first"], step.result.type
        each = step.operands[0].type.count // len(held)
        if of.count >= each:
            return held[first // each : (first + of.count) // each]
        return [Handle(self.builder, held[first // each]).part(first % each, of.count).value]

    def _join(self, step: Step) -> Sequence[Value]:
        count = max(len(self.pieces[v]) for v in step.operands)
        held = [Handle(self.builder, p) for v in step.operands for p in self.get(v, count)]
        each = max(1, len(held) // self.count(step.result.type))
        return [self._joined(held[k : k + each]).value for k in range(0, len(held), each)]

    def _shuffle(self, step: Step) -> Sequence[Value]:
        held = [p for v in step.operands for p in self.at_edge(v)]
        each = held[0].type.count
        of, picks = self.split(step.result.type), step.attributes["picks"]
        return [self._picked(held, each, picks[k : k + of[0].count]) for k in range(0, len(picks), of[0].count)]

    def _picked(self, held: list[Value], each: int, picks: Sequence[int]) -> Value:
        sources = sorted({p // each for p in picks})
        handles = [Handle(self.builder, held[s]) for s in sources]
        if len(picks) == 1:
            return handles[0].lane(picks[0] % each).value
        if len(sources) > 2 or each == 1:
            lanes = [Handle(self.builder, held[p // each]).lane(p % each) for p in picks]
            return self.builder.collect(*lanes).value
        local = [sources.index(p // each) * each + p % each for p in picks]
        if local == list(range(each)) and len(sources) == 1:
            return handles[0].value
        return handles[0].shuffle(local, handles[1] if len(handles) > 1 else None).value

    def _lookup(self, step: Step) -> Sequence[Value]:
        count = max(self.count(step.result.type), self.count(step.operands[0].type))
        tables = [t for v in step.operands[1:] for t in self.get(v, 1)]
        codes = self.get(step.operands[0], count)
        return [self.builder.emit("lookup", [piece, *tables])[0] for piece in codes]

    def _mask_word(self, step: Step) -> Sequence[Value]:
        held = [Handle(self.builder, p) for p in self.pieces[step.operands[0]]]
        word = held[0].mask_word()
        for k, piece in enumerate(held[1:], 1):
            word = word | (piece.mask_word() << (k * piece.type.count))
        return [word.value]

    def _word_mask(self, step: Step) -> Sequence[Value]:
        word, pieces = Handle(self.builder, self.pieces[step.operands[0]][0]), self.split(step.result.type)
        return [
            self.builder.make("word_mask", word >> (k * of.count) if k else word, lanes=of.count).value
            for k, of in enumerate(pieces)
        ]

    def _first(self, step: Step) -> Sequence[Value]:
        count, pieces = Handle(self.builder, self.pieces[step.operands[0]][0]), self.split(step.result.type)
        return [self.builder.first(count - k * of.count if k else count, of.count).value for k, of in enumerate(pieces)]

    def _memory(self, step: Step) -> None:
        place, *rest = step.operands
        (start,) = self.pieces[place]
        if step.kind == "prefetch":
            self.builder.emit(step.kind, [start], step.attributes)
            return
        data = (*step.results, *step.operands[-1:])[0].type
        count = max([self.count(data), *(self.count(v.type) for v in rest if not v.type.is_mask)])
        of = data.of(data.count // count)
        columns = [self.get(v, count) for v in rest]
        made: list[Value] = []
        for k in range(count):
            attributes, at = dict(step.attributes), start
            if "type" in attributes:
                attributes["type"] = of
            if "bits" in attributes and k:
                at = (Handle(self.builder, start) + k * of.count).value
            elif step.kind != "gather" and "offset" in attributes:
                attributes["offset"] = attributes["offset"] + k * of.bytes
            made += self.builder.emit(step.kind, [at, *(c[k] for c in columns)], attributes)
        if step.results:
            self.pieces[step.results[0]] = tuple(made)
