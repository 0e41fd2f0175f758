"""Problems of every option alone and some together, as NumPy arrays: a table of makers."""

import numpy as np

INT32 = np.int32


class Make:
    """Random tensors of one problem."""

    def __init__(self, batch=2, heads=4, key_heads=4, rows=5, keys=7, features=8):
        self.random = np.random.default_rng(7)
        self.heads = heads
        self.shapes = (
            (batch, heads, rows, features),
            (batch, key_heads, keys, features),
            (batch, key_heads, keys, features),
        )

    def numbers(self, *shape):
        return self.random.standard_normal(shape)

    def tensors(self):
        return [self.numbers(*shape) for shape in self.shapes]

    def __call__(self, **options):
        return (*self.tensors(), options)


def mask(*shape):
    """Half of it True; row 1, if there is one, nowhere."""
    made = np.random.default_rng(3).random(shape) < 0.5
    if len(shape) > 1 and shape[-2] > 1:
        made[..., 1, :] = False
    return made


def bias(*shape):
    made = np.random.default_rng(4).standard_normal(shape)
    made[..., 0] = -np.inf
    return made


def cut(axes):
    """The first sequence and head of a problem alone, with so many axes."""
    q, k, v, _ = Make(key_heads=2)()
    return [x[(0,) * (4 - axes)] for x in (q, k, v)]


def packed(queries=True, keys=True, **options):
    make = Make(key_heads=2)
    q, k, v = make.tensors()
    if queries:
        q = make.numbers(9, 4, 8)
        options["cu_seqlens_q"] = np.array([1, 3, 8], INT32)
    if keys:
        k, v = make.numbers(11, 2, 8), make.numbers(11, 2, 8)
        options["cu_seqlens_k"] = np.array([0, 4, 11], INT32)
    return q, k, v, options


def paged(**options):
    make = Make()
    key, value = make.numbers(5, 2, 16, 8), make.numbers(5, 2, 16, 8)
    return (
        make.numbers(2, 4, 3, 8),
        key,
        value,
        {
            "block_table": np.array([[3, 0], [1, 4]], INT32),
            "key_lengths": np.array([20, 9], INT32),
            "causal": "bottom_right",
            **options,
        },
    )


def broadcast():
    q, k, v, _ = Make()()
    return q, k[:1], v[0, :1], {}


SLOPES = [0.5, 0.25, 0.125, 0.0625]

CASES = {
    "plain": lambda: Make()(),
    "two_axes": lambda: (*cut(2), {}),
    "three_axes": lambda: (*cut(3), {"causal": True}),
    "grouped": lambda: Make(key_heads=2)(),
    "broadcast_batch_and_heads": broadcast,
    "no_keys": lambda: Make(keys=0)(),
    "no_rows": lambda: Make(rows=0)(),
    "no_batch": lambda: Make(batch=0)(),
    "mask_of_keys": lambda: Make()(attn_mask=mask(2, 1, 1, 7)),
    "mask_of_rows_and_keys": lambda: Make()(attn_mask=mask(5, 7)),
    "mask_of_heads": lambda: Make()(attn_mask=mask(4, 5, 7)),
    "mask_of_all": lambda: Make()(attn_mask=mask(2, 4, 5, 7)),
    "mask_of_one": lambda: Make()(attn_mask=np.array(True)),
    "float_mask": lambda: Make()(attn_mask=bias(5, 7)),
    "bias": lambda: Make()(bias=bias(4, 5, 7)),
    "bias_and_mask": lambda: Make()(bias=bias(2, 1, 5, 7), attn_mask=mask(7)),
    "causal": lambda: Make()(causal=True),
    "causal_top_left": lambda: Make()(causal="top_left"),
    "causal_bottom_right": lambda: Make()(causal="bottom_right"),
    "causal_offset": lambda: Make()(causal=1),
    "window": lambda: Make()(window=(1, 2), alignment="top_left"),
    "window_left": lambda: Make()(window=(2, None), causal="bottom_right"),
    "window_right": lambda: Make()(window=(None, 0), alignment=1),
    "scale": lambda: Make()(scale=-0.3),
    "softcap": lambda: Make()(softcap=0.7),
    "alibi": lambda: Make()(alibi_slopes=SLOPES, alignment="bottom_right"),
    "sinks": lambda: Make()(sinks=[0.5, -1.0, 2.0, -np.inf]),
    "temperature": lambda: Make()(temperature=0.25),
    "uniform": lambda: Make()(temperature=np.inf, causal=True),
    "hard": lambda: Make()(hard=True, attn_mask=mask(5, 7)),
    "key_lengths": lambda: Make()(key_lengths=[7, 0]),
    "key_lengths_int64": lambda: Make()(key_lengths=np.array([3, 5]), causal="bottom_right"),
    "packed": lambda: packed(causal=True),
    "packed_queries": lambda: packed(keys=False),
    "packed_keys": lambda: packed(queries=False, causal="bottom_right"),
    "packed_with_room": lambda: packed(max_seqlen_q=9, max_seqlen_k=12, bias=bias(9, 12)),
    "paged": lambda: paged(),
    "paged_short": lambda: paged(max_seqlen_k=23),
    "score_function": lambda: Make()(
        score_function=lambda s, b, h, i, j: s - 0.1 * (h + 1) * np.abs(i - j) + 0.01 * b
    ),
    "everything": lambda: Make(key_heads=2)(
        causal=1,
        window=(4, None),
        softcap=2.0,
        alibi_slopes=SLOPES,
        bias=bias(5, 7),
        attn_mask=mask(2, 1, 5, 7),
        sinks=SLOPES,
        temperature=0.7,
        key_lengths=[6, 7],
        scale=0.4,
    ),
}
