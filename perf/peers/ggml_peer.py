"""ggml's flash_attn_ext, which llama.cpp attends with, as a peer: queries and out are float32, keys
and values what the workload says."""

import ctypes
import weakref

from shape import Shape, numpy
from turns import seconds_per_call


class Ggml:
    name = "ggml"

    def __init__(self):
        import ggml

        self.ggml = ggml
        self.version = ggml.ggml_version().decode()

    def prepare(self, workload, threads):
        shape = Shape(workload)
        if shape.asks_for_more_than({"bf16", "f16"}) or shape.causal:
            return None
        graph = Graph(self.ggml, shape, threads)
        return lambda: seconds_per_call(graph.run)


class Graph:
    """A node per layer, in one graph, as models have it."""

    def __init__(self, ggml, shape, threads):
        self.ggml = ggml
        self.kind = {"bf16": ggml.GGML_TYPE_BF16, "f16": ggml.GGML_TYPE_F16}.get(
            shape.one_of({"bf16", "f16"}), ggml.GGML_TYPE_F32)
        layer_bytes = 4 * sum(tensor.size for tensor in shape.tensors())
        spare = 1 << 20  # for results, descriptions and the graph
        result_bytes = 4 * shape.batch * shape.heads * shape.queries * shape.value_features
        size = shape.layers * (layer_bytes + result_bytes + spare)
        self.context = ggml.ggml_init(ggml.ggml_init_params(mem_size=size, mem_buffer=None,
                                                            no_alloc=False))
        if self.context is None:
            raise MemoryError(f"ggml_init of {size} bytes")
        weakref.finalize(self, ggml.ggml_free, self.context)
        self.graph = ggml.ggml_new_graph(self.context)
        self.results = [self.add(*shape.tensors(layer)) for layer in range(shape.layers)]
        pool = ggml.ggml_threadpool_new(ctypes.byref(ggml.ggml_threadpool_params_default(threads)))
        weakref.finalize(self, ggml.ggml_threadpool_free, pool)
        self.plan = ggml.ggml_graph_plan(self.graph, threads, pool)
        self.work = (ctypes.c_uint8 * max(self.plan.work_size, 1))()
        self.plan.work_data = ctypes.cast(self.work, ctypes.POINTER(ctypes.c_uint8))

    def add(self, query, key, value):
        ggml = self.ggml
        tensors = [self.tensor(query, ggml.GGML_TYPE_F32), self.tensor(key, self.kind),
                   self.tensor(value, self.kind)]
        result = ggml.ggml_flash_attn_ext(self.context, *tensors, None, query.shape[3] ** -0.5, 0, 0)
        ggml.ggml_build_forward_expand(self.graph, result)
        return result

    def tensor(self, numbers, kind):
        """[batch, heads, rows, features] with the innermost axis first."""
        ggml = self.ggml
        tensor = ggml.ggml_new_tensor_4d(self.context, kind, *reversed(numbers.shape))
        if kind == ggml.GGML_TYPE_F16:
            numbers = numbers.astype(numpy.float16)
        to = ggml.ggml_get_data(tensor)
        if kind == ggml.GGML_TYPE_BF16:
            ggml.ggml_fp32_to_bf16_row(
                numbers.ctypes.data_as(ctypes.POINTER(ctypes.c_float)),
                ctypes.cast(to, ctypes.POINTER(ggml.ggml_bf16_t)), numbers.size)
        else:
            ctypes.memmove(to, numbers.ctypes.data, numbers.nbytes)
        return tensor

    def run(self):
        if self.ggml.ggml_graph_compute(self.graph, ctypes.byref(self.plan)) != 0:
            raise RuntimeError("ggml_graph_compute failed")
