#!/usr/bin/env python3
"""Compares heed with PyTorch and ONNX Runtime on the workloads of heed_perf.

For each workload the programs take turns (heed, peer, heed, peer, ...), so that whatever else
the machine does hits all of them; a ratio is taken within a turn, and the median over turns is
printed. Peers that are not installed are left out with a message:

    pip install torch              scaled_dot_product_attention
    pip install onnxruntime onnx   MultiHeadAttention, or Attention for grouped queries
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time

WORKLOADS = [
    "B1_H16_L1024_D64",
    "B1_H8_L4096_D128",
    "B1_H8_L4096_D128_causal",
    "B32_H12_L128_D64",
    "B8_H12_L197_D64",
    "B1_H8_L1024_D80",
    "B2_H8_Lq4096_Lkv77_D40",
    "B1_H32_Hkv8_Lq1_Lkv8192_D128",
    "B1_H1_L10_D20",
]

SECONDS_PER_TURN = 0.1


class Shape:
    """The sizes in a workload's name; heed_perf --help has the grammar and checks it."""

    def __init__(self, name):
        parts = dict(re.fullmatch(r"([A-Za-z]+)(\d*)", part).groups() for part in name.split("_"))
        size = {letters: int(digits) for letters, digits in parts.items() if digits}
        self.batch, self.heads, self.features = size["B"], size["H"], size["D"]
        self.key_heads = size.get("Hkv", self.heads)
        self.queries = size.get("Lq", size.get("L"))
        self.keys = size.get("Lkv", size.get("L"))
        self.value_features = size.get("Dv", self.features)
        self.causal = any(part.startswith("causal") for part in parts)
        self.bottom_right = "causalBR" in parts

    def tensors(self):
        """Random query, key and value as numpy arrays [batch, heads, rows, features]."""
        import numpy

        random = numpy.random.default_rng(1)
        make = lambda *sizes: random.standard_normal(sizes, dtype=numpy.float32)
        return (
            make(self.batch, self.heads, self.queries, self.features),
            make(self.batch, self.key_heads, self.keys, self.features),
            make(self.batch, self.key_heads, self.keys, self.value_features),
        )


def seconds_per_call(call):
    """Repeats the call for SECONDS_PER_TURN, after one that warms up."""
    call()
    calls, start = 0, time.perf_counter()
    while True:
        call()
        calls += 1
        elapsed = time.perf_counter() - start
        if elapsed >= SECONDS_PER_TURN:
            return elapsed / calls


class Heed:
    name = "heed"

    def __init__(self, program, arguments):
        self.command = [program, *arguments]

    def prepare(self, workload, threads):
        command = [
            *self.command,
            "--no-stages",
            "--no-naive",
            f"--shape={workload}",
            f"--threads={threads}",
            "--benchmark_format=json",
            "--benchmark_repetitions=1",
        ]

        def turn():
            result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            if result.returncode != 0:
                sys.exit(result.stderr.decode() or f"{self.command[0]} failed on {workload}")
            row = json.loads(result.stdout)["benchmarks"][0]
            return row["real_time"] * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}[row["time_unit"]]

        return turn


class PyTorch:
    name = "torch"

    def __init__(self):
        import torch

        self.torch = torch
        self.version = torch.__version__

    def prepare(self, workload, threads):
        torch = self.torch
        shape = Shape(workload)
        if shape.bottom_right and shape.queries != shape.keys:
            return None  # is_causal is top-left
        torch.set_num_threads(threads)
        query, key, value = (torch.from_numpy(t) for t in shape.tensors())
        options = {"is_causal": shape.causal}
        if shape.heads != shape.key_heads:
            options["enable_gqa"] = True
        attend = torch.nn.functional.scaled_dot_product_attention

        def turn():
            with torch.inference_mode():
                return seconds_per_call(lambda: attend(query, key, value, **options))

        return turn


class OnnxRuntime:
    name = "onnxruntime"

    def __init__(self):
        import onnx
        import onnxruntime

        self.onnx, self.runtime = onnx, onnxruntime
        self.version = onnxruntime.__version__

    def prepare(self, workload, threads):
        shape = Shape(workload)
        if shape.causal and shape.queries != shape.keys:
            return None  # its two operators disagree about the alignment
        grouped = shape.heads != shape.key_heads
        query, key, value = shape.tensors()
        if not grouped:  # MultiHeadAttention takes [batch, rows, heads * features]
            merge = lambda t: t.transpose(0, 2, 1, 3).reshape(t.shape[0], t.shape[2], -1).copy()
            query, key, value = merge(query), merge(key), merge(value)
        feeds = {"query": query, "key": key, "value": value}
        session = self.session(shape, feeds, grouped, threads)
        return lambda: seconds_per_call(lambda: session.run(None, feeds))

    def session(self, shape, feeds, grouped, threads):
        helper, float32 = self.onnx.helper, self.onnx.TensorProto.FLOAT
        if grouped:
            node = helper.make_node("Attention", list(feeds), ["out"], is_causal=int(shape.causal))
        else:
            node = helper.make_node(
                "MultiHeadAttention",
                list(feeds),
                ["out"],
                domain="com.microsoft",
                num_heads=shape.heads,
                unidirectional=int(shape.causal),
            )
        inputs = [helper.make_tensor_value_info(n, float32, t.shape) for n, t in feeds.items()]
        outputs = [helper.make_tensor_value_info("out", float32, None)]
        model = helper.make_model(
            helper.make_graph([node], "attention", inputs, outputs),
            opset_imports=[helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)],
            ir_version=10,
        )
        options = self.runtime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        # Its threads spin after a call; here they would take the time of whoever comes next.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        return self.runtime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )


def installed_peers():
    peers = []
    for peer in (PyTorch, OnnxRuntime):
        try:
            peers.append(peer())
            print(f"{peer.name} {peers[-1].version}")
        except ImportError as problem:
            print(f"{peer.name} is left out: {problem}")
    return peers


def prepare(peer, workload, threads):
    """A function that takes a turn, or None where the peer cannot compute the workload."""
    try:
        turn = peer.prepare(workload, threads)
        if turn is not None:
            turn()
        return turn
    except Exception as problem:  # whatever a peer throws: the others go on
        if isinstance(peer, Heed):
            raise
        print(f"{peer.name} cannot compute {workload}: {str(problem).splitlines()[0]}")
        return None


def compare(heed, peers, workload, threads, repetitions):
    """Medians: heed's milliseconds, then per peer its milliseconds and its time over heed's."""
    programs = [heed, *peers]
    turns = [prepare(program, workload, threads) for program in programs]
    times = [[] for _ in programs]
    for _ in range(repetitions):
        for turn, taken in zip(turns, times):
            if turn is not None:
                taken.append(turn())
    columns = [f"{statistics.median(times[0]) * 1e3:.4g}"]
    for taken in times[1:]:
        if not taken:
            columns += ["-", "-"]
            continue
        ratio = statistics.median(theirs / ours for theirs, ours in zip(taken, times[0]))
        columns += [f"{statistics.median(taken) * 1e3:.4g}", f"{ratio:.2f}"]
    return columns


def find_program():
    here = os.path.dirname(os.path.abspath(__file__))
    return os.path.normpath(os.path.join(here, "..", "..", "build", "release", "perf", "heed_perf"))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Arguments after -- go to heed_perf, for example -- --isa avx2 --executor openmp",
    )
    parser.add_argument("--workload", action="append", help="a name; repeatable; default: all")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repetitions", type=int, default=5, help="turns per workload")
    parser.add_argument("--program", default=find_program(), help="heed_perf; default %(default)s")
    parser.add_argument("heed_arguments", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not os.path.exists(options.program):
        sys.exit(f"{options.program} is not there: build heed_perf, or say where with --program")

    heed = Heed(options.program, options.heed_arguments)
    peers = installed_peers()
    titles = ["workload", "heed ms"]
    for peer in peers:
        titles += [f"{peer.name} ms", "/ heed"]
    widths = [30] + [max(10, len(title) + 2) for title in titles[1:]]
    line = lambda cells: cells[0].ljust(widths[0]) + "".join(
        cell.rjust(width) for cell, width in zip(cells[1:], widths[1:])
    )
    print(f"{options.threads} threads, medians of {options.repetitions} turns")
    print(line(titles), flush=True)
    for workload in options.workload or WORKLOADS:
        columns = compare(heed, peers, workload, options.threads, options.repetitions)
        print(line([workload, *columns]), flush=True)


if __name__ == "__main__":
    main()
