"""Bittern as a peer of `bench/networks.py`: a process that prepares a case once and times it on request.

    python peer_bittern_networks.py THREADS DATA

It prints one line about itself, then answers each line `CASE:bittern 0 0` with seconds a call. Inputs lie in the
network's memory; a call computes all outputs from them.
"""

import json
import sys
from functools import cache
from pathlib import Path

import network_cases as cases
import numpy as np
from per_call import seconds

from bittern import __version__
from bittern.chips.chip import BoundFunction
from bittern.front.network.assembly import Assembly
from bittern.front.network.network import Network
from bittern.lang.library import Library
from bittern.runtime.bench import use_threads
from bittern.runtime.network import NetworkModel
from bittern.runtime.networks import open_network


def gemm(n: int) -> Network:
    """A binary dense layer of n values and n rows; its batch is n too."""
    a = Assembly(Library.standard())
    x = a.input("x", "b1", (n,))
    return a.network("gemm", {"y": a.call("dense.dense", a.constant(cases.gemm_data(n)[1], "b1"), x)})


def conv(size: int, channels: int) -> Network:
    """`LAYERS` binary 3x3 convolutions with a padding of +1, each with the signs of what it sums."""
    a = Assembly(Library.standard())
    x, one = a.input("x", "b1", (size, size, channels)), a.constant(1, "b1")
    weights = a.constant(cases.conv_data(size, channels)[1], "b1")
    at, falling = a.constant(np.zeros(channels, np.int32), "i32"), a.constant(np.zeros(channels, bool), "bit")
    for _ in range(cases.LAYERS):
        for axis in (1, 2):
            x = a.op("pad", x, one, axis=axis, before=1, after=1)
        x = a.op("windows", x, axis=1, size=3, stride=1, dilation=1)
        x = a.op("windows", x, axis=3, size=3, stride=1, dilation=1)
        x = a.call("thresholds.sign_at", a.call("convolution.conv2d", weights, x), at, falling, lead=3)
    return a.network("conv", {"y": x})


@cache
def prepared(name: str, threads: int, data: str) -> BoundFunction:
    """Return a case with its inputs filled in."""
    case = cases.case_of(name)
    batch, values = 1, None
    if case.kind == "gemm":
        network, batch, values = gemm(*case.numbers), case.numbers[0], cases.gemm_data(*case.numbers)[0]
    elif case.kind == "conv":
        network, values = conv(*case.numbers), cases.conv_data(*case.numbers)[0]
    elif case.kind == "tfc":
        network, batch = open_network(Path(data) / "tfc_mnist/TFC_1W1A.onnx"), case.numbers[0]
    else:
        network = open_network(Path(data) / case.file)
    bound = NetworkModel(network, threads=threads).bound(batch)
    rng = np.random.default_rng(1)
    for room in bound.inputs:
        if values is not None:
            room[...] = values
        elif room.dtype.kind == "f":
            room[...] = rng.random(room.shape)
        else:
            room[...] = rng.integers(-128, 128, room.shape)
    return bound


def main(threads: int, data: str) -> None:
    """Answer requests until stdin ends."""
    use_threads(threads)
    print(json.dumps({"name": "bittern", "version": __version__}), flush=True)
    for line in sys.stdin:
        name = line.split()[0].partition(":")[0]
        parts = cases.LAYERS if cases.case_of(name).kind == "conv" else 1
        print(seconds(prepared(name, threads, data).call) / parts, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
