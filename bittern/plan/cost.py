"""What a plan's launches cost, by a model: bytes over bandwidth, multiply-accumulates over peak, calls and barriers.

Nothing in here is measured when a plan is made, so that a plan is the same on every machine; `bittern bench` measures.
The rates are nominal: what one core of a server of 2024 does, of which the ratios count. A launch takes the longer of
what its bytes and what its arithmetic take; threads share what is split. Weights and caches of positions come from
memory if all of them together are larger than the last cache, values between launches from the second one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bittern.plan.caches import NOMINAL, CpuCache
from bittern.plan.counts import Counting, Run, Work, touched
from bittern.plan.plan import Launch, Packed, Plan, Region, value_of

LAUNCH = 10e-9  # s: a call with its arguments
BARRIER = 55e-9  # s: until all threads have met
GENERIC = 1e9  # bytes a second, and multiply-accumulates a second, of a kernel by the generic lowering
MOST = 60e9  # bytes a second that all threads together get from memory
BANDWIDTH: Mapping[str, float] = {"L1": 260e9, "L2": 260e9, "L3": 110e9, "memory": 40e9}  # of one thread

# multiply-accumulates a second of one thread: of codes of 8 bits, of floats
PEAKS: Mapping[str, tuple[float, float]] = {
    "sse2": (35e9, 16e9),
    "avx2": (100e9, 32e9),
    "avx2-vnni": (260e9, 32e9),
    "avx512": (200e9, 64e9),
    "avx512-vnni": (525e9, 64e9),
}
# of one thread: steps of counting bits, one plane with one other; multiply-accumulates of bytes in the same layers
COUNTING: Mapping[str, tuple[float, float]] = {
    "sse2": (50e9, 32e9),
    "avx2": (250e9, 64e9),
    "avx2-vnni": (250e9, 200e9),
    "avx512": (820e9, 130e9),
    "avx512-vnni": (2700e9, 525e9),
}
_BEST = "avx512-vnni"
_COUNTED, _BYTES = ("sign_product",), ("conv_bytes", "depthwise", "code_product")
_FLOATS = ("f32", "f16", "bf16")  # tiles whose products are of floats


@dataclass(slots=True)
class Model:
    """The cost of a plan's launches. tier: a row of `PEAKS`. caches: of the machine that is planned for."""

    counting: Counting
    run: Run
    tier: str
    caches: tuple[CpuCache, ...] = NOMINAL
    weights: int = 0
    _seconds: dict[Region, float] = field(default_factory=dict)

    def seconds(self, region: Region) -> float:
        """Return the seconds that a region's launches take, with the barriers after them."""
        if region not in self._seconds:
            works = self.counting.region(region, self.run)
            pairs = zip(region.launches, works, strict=True)
            self._seconds[region] = sum(self.launch(launch, work) for launch, work in pairs)
        return self._seconds[region]

    def launch(self, launch: Launch, work: Work) -> float:
        """Return the seconds of one launch; a barrier counts to the launch before it."""
        threads = self.run.threads if launch.mode == "split" else 1
        each = self.run.threads if launch.mode == "each" else 1
        far = self._far(launch)
        near = (work.read + work.written) // each - far
        if launch.recipe.name == "generic":
            moved, peak = (near + far) / GENERIC, GENERIC
        else:
            rate = min(BANDWIDTH[self._home()] * threads, MOST if self._home() == "memory" else 1e12)
            moved, peak = far / rate + near / (BANDWIDTH["L2"] * threads), self._peak(launch) * threads
        return LAUNCH + max(moved, work.macs / peak) + BARRIER * (launch.barrier and self.run.threads > 1)

    def _far(self, launch: Launch) -> int:
        """Return the bytes of weights that a launch reads."""
        plan, total = self.counting.plan, 0
        for name, operand in launch.reads.items():
            if isinstance(operand, Packed) or value_of(operand).source == "const":
                total += touched(launch, name, plan, self.run, False)
        return total

    def _home(self) -> str:
        last = self.caches[-1]
        return "memory" if self.weights > last.bytes else last.name

    def _peak(self, launch: Launch) -> float:
        if launch.recipe.name in _COUNTED:
            return COUNTING[self.tier][0] / counted(launch.recipe.arguments)
        if launch.recipe.name in _BYTES:
            return COUNTING[self.tier][1]
        codes, floats = PEAKS[self.tier]
        tile = launch.recipe.arguments[0] if launch.recipe.arguments else ""
        is_codes = launch.recipe.name in ("matvec", "matmul") and tile not in _FLOATS
        return codes if is_codes else floats


def counted(arguments: Sequence[object]) -> float:
    """Return the steps of a multiply-accumulate, from the arguments of a `sign_product`: of planes, words filled up."""
    _, channels, _, weights, coding, *_ = arguments
    assert isinstance(channels, int) and isinstance(weights, str) and isinstance(coding, tuple), arguments
    pairs = len(coding[0]) * (1 if weights in ("signs", "ternary") else int(weights[1:]))
    return pairs * -(-channels // 64) * 64 / channels


def counts_bits(pairs: int, fill: float, tier: str) -> bool:
    """Whether counting bits is cheaper than multiplying bytes. pairs: of planes. fill: bits of words for a channel."""
    planes, bytes_ = COUNTING[tier or _BEST]
    return pairs * fill / planes <= 1 / bytes_


def weight_bytes(plan: Plan, run: Run) -> int:
    """Return the bytes of weights that one run reads, each launch's once."""
    total = 0
    for launch in plan.launches:
        for name, operand in launch.reads.items():
            if isinstance(operand, Packed) or value_of(operand).source == "const":
                total += touched(launch, name, plan, run, False)
    return total
