"""How long the ring of attention takes over N ranks, from rates of computing and of the network.

What is computed and sent in which round is that of engine/mpi/ring.hpp for rows that divide evenly:

    full        every row attends all keys; shards go up from rank to rank, N - 1 times
    zigzag      causal; of 2 N chunks rank i has chunk i, which goes up past all ranks, and chunk
                2 N - 1 - i, which goes down to rank 0, since no rank above attends it; that of the
                last rank, which all attend, goes up
    contiguous  causal; shards go up to the last rank

A round lasts until all of it has been computed, sent and received:

    begin(i, n + 1) = max(begin(i, n) + compute(i, n), begin(i, n) + send(i, n),
                          begin(j, n) + send(j, n) for the neighbours j that send to i)
    send(i, n)      = latency + bytes(i, n) / bandwidth, 0 where nothing is sent
"""

import bisect
import math
from dataclasses import dataclass, replace

import numpy as np

AGREEMENTS = 2  # at the end of a run; each goes up and down a tree of ranks


@dataclass(frozen=True)
class Problem:
    length: float
    features: int = 128
    heads: int = 1
    key_heads: int = 1
    bytes: int = 4  # of an element of keys and values
    placement: str = "zigzag"
    batch: int = 1

    @property
    def flops_per_pair(self):
        return 4 * self.features * self.heads * self.batch

    @property
    def row_bytes(self):
        """Of a key and its value."""
        return 2 * self.features * self.key_heads * self.bytes * self.batch


@dataclass(frozen=True)
class Network:
    latency: float  # seconds
    bandwidth: float  # bytes per second, one way


@dataclass(frozen=True)
class Schedule:
    """[rank, round]: pairs of queries and keys, and rows of keys that are sent up and down."""

    pairs: np.ndarray
    up: np.ndarray
    down: np.ndarray


@dataclass(frozen=True)
class Times:
    """Seconds."""

    run: float
    compute: float  # of the rank that computes longest
    exchange: float  # the messages alone, of the rank that sends most

    @property
    def hidden(self):
        """The share of messages that a run does not take longer than computing; as heed_perf's."""
        return 1 - (self.run - self.compute) / self.exchange if self.exchange > 0 else 1.0


def schedule(problem, ranks):
    rank = np.arange(ranks)[:, None]
    n = np.arange(ranks)[None, :]
    if problem.placement == "zigzag":
        chunk = problem.length / (2 * ranks)
        low = (rank - n) % ranks  # whose first chunk is at hand, attended by both of the rank's own
        # A chunk attends itself by half.
        first = np.select([rank > low, rank == low], [1.0, 0.5], 0.0) + 1
        from_above = rank + n < ranks - 1  # whose second chunk is at hand
        from_last = (rank + 1) % ranks == n  # whose second chunk has come up
        second = np.where(n == 0, 0.5, from_above + 1.0 * from_last)
        up = np.where(n < ranks - 1, chunk * (1.0 + from_last), 0.0)
        down = np.where(from_above & (rank > 0), chunk, 0.0)
        return Schedule((first + second) * chunk**2, up, down)
    rows = problem.length / ranks
    nothing = np.zeros((ranks, ranks))
    if problem.placement == "full":
        return Schedule(rows**2 + nothing, np.where(n < ranks - 1, rows, 0.0) + nothing, nothing)
    there = rank >= n
    pairs = np.where(n == 0, 0.5, 1.0) * there * rows**2
    return Schedule(pairs, np.where(there & (rank < ranks - 1), rows, 0.0), nothing)


def times(problem, ranks, flops_per_second, network):
    plan = schedule(problem, ranks)
    compute = plan.pairs * problem.flops_per_pair / flops_per_second
    row = problem.row_bytes / network.bandwidth
    sent = plan.up + plan.down
    send = np.where(sent > 0, network.latency + sent * row, 0.0)
    begin = np.zeros(ranks)
    for n in range(ranks):
        done = begin + send[:, n]
        from_below = np.where(np.roll(plan.up[:, n], 1) > 0, np.roll(done, 1), 0.0)
        from_above = np.where(np.roll(plan.down[:, n], -1) > 0, np.roll(done, -1), 0.0)
        begin = np.maximum.reduce([begin + compute[:, n], done, from_below, from_above])
    agreement = 2 * AGREEMENTS * math.ceil(math.log2(ranks)) * network.latency
    total = compute.sum(axis=1)
    return Times(
        run=float(begin.max()) + agreement,
        compute=float(total.max()),
        exchange=float(send.sum(axis=1).max()),
    )


def sent_bytes(problem, ranks):
    """That the rank which sends most sends."""
    plan = schedule(problem, ranks)
    return float((plan.up + plan.down).sum(axis=1).max()) * problem.row_bytes


def least_length(problem, ranks, flops_per_second, network, share=0.9):
    """The shortest sequence, of powers of two, of which this share of messages is hidden."""
    def hides(power):
        longer = replace(problem, length=2.0**power)
        return times(longer, ranks, flops_per_second, network).hidden >= share

    # Whatever is hidden of a sequence is of a longer one.
    power = bisect.bisect_left(range(6, 41), True, key=hides) + 6
    return 2**power if power <= 40 else None
