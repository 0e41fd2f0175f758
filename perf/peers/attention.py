#!/usr/bin/env python3
"""Compares heed with PyTorch, ONNX Runtime, OpenVINO and ggml on the workloads of heed_perf.

For each workload the programs take turns (heed, peer, heed, peer, ...), so that whatever else
the machine does hits all of them; a ratio is taken within a turn, and the median over turns is
printed. Peers that are not installed are left out with a message:

    pip install torch              scaled_dot_product_attention
    pip install onnxruntime onnx   MultiHeadAttention, or Attention for what only that has
    pip install openvino           ScaledDotProductAttention
    pip install ggml-python        ggml's flash_attn_ext, built where it is installed

A peer that does not offer what a workload asks for shows "-".
"""

import argparse
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True  # no __pycache__ beside the sources
from command import parser_of
from ggml_peer import Ggml
from gradients import Problem
from gradients import PyTorch as Sdpa
from openvino_peer import OpenVino
from shape import BIASES, MASKS, TYPES, Shape, listed
from turns import Table, seconds_per_call

# What at least one peer has.
FORMS = ["B1_H16_L1024_D64_" + form for form in (
    "causal", "mask", "headmask", "keymask", "bias", "headbias", "softcap30", "bf16", "f16", "f64",
    "weights")] + [
        "B1_H16_Hkv4_L1024_D64", "B1_H16_Hkv4_L1024_D64_causal_bf16", "B1_H8_L4096_D128_bf16",
        "B1_H8_L4096_D128_causal_bf16", "B32_H12_L128_D64_bf16"]

# One query row over a cache of 8,192 keys, in as many layers as no cache of a processor holds.
DECODE = ["B1_H32_Hkv8_Lq1_Lkv8192_D128_layers4", "B1_H32_Lq1_Lkv8192_D128",
          "B1_H32_Hkv8_Lq1_Lkv8192_D128_layers8_bf16", "B1_H32_Lq1_Lkv8192_D128_layers2_bf16",
          "B1_H32_Hkv8_Lq1_Lkv8192_D128_layers8_f16", "B1_H32_Lq1_Lkv8192_D128_layers2_f16"]


class Heed:
    name = "heed"

    def __init__(self, program, arguments):
        self.command = [program, *arguments]

    def prepare(self, workload, threads):
        command = [
            *self.command,
            "--no-stages",
            f"--shape={workload}",
            f"--threads={threads}",
            "--benchmark_format=json",
            "--benchmark_repetitions=1",
        ]

        def turn():
            result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            if result.returncode != 0:
                sys.exit(result.stderr.decode() or f"{self.command[0]} failed on {workload}")
            found = json.loads(result.stdout)
            self.version = found["context"]["heed_version"]
            row = found["benchmarks"][0]
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
        try:
            layers = [Sdpa(torch, Problem(torch, workload, layer, learns=False))
                      for layer in range(Shape(workload).layers)]
        except ValueError:
            return None
        torch.set_num_threads(threads)

        def turn():
            with torch.inference_mode():
                return seconds_per_call(lambda: [layer.forward() for layer in layers])

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
        if shape.asks_for_more_than(MASKS, BIASES, {"f16", "f64", "softcap", "weights"}):
            return None
        if shape.causal and shape.queries != shape.keys:
            return None  # its two operators disagree about the alignment
        if shape.one_of(MASKS) and shape.one_of(BIASES):
            return None
        only_attention = {"mask", "headmask", "f16", "f64", "softcap", "weights"}
        make = self.multi_head_attention
        if shape.heads != shape.key_heads or shape.one_of(only_attention):
            make = self.attention
        layers = [make(shape, layer) for layer in range(shape.layers)]
        session = self.session(*layers[0], threads)

        def run():
            for _, feeds in layers:
                session.run(None, feeds)

        return lambda: seconds_per_call(run)

    def attention(self, shape, layer):
        """ONNX's own operator, on [batch, heads, rows, features]."""
        kind = {"f16": "float16", "f64": "float64"}.get(shape.one_of(TYPES), "float32")
        feeds = dict(zip(("query", "key", "value"), (t.astype(kind) for t in shape.tensors(layer))))
        if shape.one_of(MASKS):
            feeds["mask"] = shape.mask()
        if shape.one_of(BIASES):
            feeds["mask"] = shape.bias().astype(kind)
        outputs, options = ["out"], {"is_causal": int(shape.causal)}
        if "softcap" in shape.options:
            options["softcap"] = float(shape.options["softcap"])
        if "weights" in shape.options:
            outputs += ["", "", "weights"]
            options["qk_matmul_output_mode"] = 3
        return self.onnx.helper.make_node("Attention", list(feeds), outputs, **options), feeds

    def multi_head_attention(self, shape, layer):
        """ONNX Runtime's own operator, on [batch, rows, heads * features]: its fastest."""
        merge = lambda t: t.transpose(0, 2, 1, 3).reshape(t.shape[0], t.shape[2], -1).copy()
        feeds = dict(zip(("query", "key", "value"), map(merge, shape.tensors(layer))))
        inputs = [*feeds, "", "", ""]  # projection's bias, key padding mask, attention bias
        if "keymask" in shape.options:
            inputs[4] = "padding"
            feeds["padding"] = shape.mask()[:, 0, 0].astype("int32")
        if shape.one_of(BIASES):
            inputs[5] = "bias"
            feeds["bias"] = shape.bias()
        node = self.onnx.helper.make_node(
            "MultiHeadAttention",
            inputs,
            ["out"],
            domain="com.microsoft",
            num_heads=shape.heads,
            unidirectional=int(shape.causal),
        )
        return node, feeds

    def session(self, node, feeds, threads):
        helper = self.onnx.helper
        types = {name: helper.np_dtype_to_tensor_dtype(t.dtype) for name, t in feeds.items()}
        inputs = [helper.make_tensor_value_info(n, types[n], t.shape) for n, t in feeds.items()]
        outputs = [
            helper.make_tensor_value_info(n, types["query"], None) for n in node.output if n
        ]
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
    for peer in (PyTorch, OnnxRuntime, OpenVino, Ggml):
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


def main():
    parser = parser_of(__doc__, epilog=(
        "Arguments after -- go to heed_perf, for example -- --isa avx2 --executor openmp"))
    here = os.path.dirname(os.path.abspath(__file__))
    built = os.path.normpath(os.path.join(here, "..", "..", "build", "release", "perf", "heed_perf"))
    parser.add_argument("--program", default=built, help="heed_perf; default %(default)s")
    lists = parser.add_mutually_exclusive_group()
    lists.add_argument("--forms", action="store_true", help="default: those that peers have too")
    lists.add_argument("--decode", action="store_true", help="default: one row over many keys")
    parser.add_argument("--json", help="a file for the ratios, which chart.py draws")
    parser.add_argument("heed_arguments", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not os.path.exists(options.program):
        sys.exit(f"{options.program} is not there: build it, or say where with --program")

    heed = Heed(options.program, options.heed_arguments)
    peers = installed_peers()
    workloads = options.workload or (FORMS if options.forms else DECODE if options.decode
                                     else listed("kStandardWorkloads"))
    table = Table(["heed", *(peer.name for peer in peers)], options.threads, options.repetitions,
                  width=max(30, *(len(workload) for workload in workloads)))
    for workload in workloads:
        turns = [prepare(program, workload, options.threads) for program in (heed, *peers)]
        table.add(workload, turns)
    if options.json:
        versions = {program.name: program.version for program in (heed, *peers)}
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"programs": versions, "threads": options.threads, "turns": options.repetitions,
                       "times_as_long": table.times_as_long}, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
