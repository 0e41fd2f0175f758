"""OpenVINO's ScaledDotProductAttention as a peer, compiled for the CPU with one stream. A workload of
bfloat16 has inputs and results of bfloat16, and the hint that computes in it."""

from shape import BIASES, MASKS, Shape
from turns import seconds_per_call


class OpenVino:
    name = "openvino"

    def __init__(self):
        import openvino

        self.openvino = openvino
        self.version = openvino.__version__.split("-")[0]

    def prepare(self, workload, threads):
        shape = Shape(workload)
        if shape.asks_for_more_than(MASKS, BIASES, {"bf16"}) or shape.heads != shape.key_heads:
            return None
        if shape.causal and shape.queries != shape.keys:
            return None  # its causal limit is top-left
        if shape.asks_for_several():
            return None
        requests = [self.request(shape, layer, threads) for layer in range(shape.layers)]

        def run():
            for request in requests:
                request.infer()

        return lambda: seconds_per_call(run)

    def request(self, shape, layer, threads):
        """What infers a layer, with its inputs set."""
        ov = self.openvino
        kind = ov.Type.bf16 if "bf16" in shape.options else ov.Type.f32
        tensors = [self.tensor(numbers, kind) for numbers in shape.tensors(layer)]
        if shape.one_of(MASKS):
            tensors.append(ov.Tensor(shape.mask()))
        if shape.one_of(BIASES):
            tensors.append(self.tensor(shape.bias(), kind))
        parameters = [ov.opset13.parameter(list(t.shape), t.element_type) for t in tensors]
        node = ov.opset13.scaled_dot_product_attention(*parameters, causal=shape.causal)
        compiled = ov.Core().compile_model(ov.Model([node], parameters), "CPU", {
            "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1,
            "INFERENCE_PRECISION_HINT": kind.get_type_name()})
        request = compiled.create_infer_request()
        for index, tensor in enumerate(tensors):
            request.set_input_tensor(index, tensor)
        return request

    def tensor(self, numbers, kind):
        """Numbers of that type; NumPy has no bfloat16, so that its bits are written."""
        ov = self.openvino
        if kind == ov.Type.f32:
            return ov.Tensor(numbers.astype("float32"))
        bits = numbers.astype("float32").view("uint32")
        rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16
        tensor = ov.Tensor(kind, list(numbers.shape))
        tensor.data.view("uint16")[...] = rounded.astype("uint16")
        return tensor
