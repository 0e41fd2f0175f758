"""Problems by name, as B1_H8_L4096_D128_causal, the way heed_perf names them."""

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

import heed
from heed.command.ends import Failure, Misuse
from heed.options import Start

GRAMMAR = """\
  B1_H32_Hkv8_Lq1_Lkv8192_D128_Dv64_causalBR_bf16 has, each with its number,
    B    items of the batch              1
    H    query heads                     1
    Hkv  key heads                       as H
    L    query rows and keys; or Lq and Lkv
    D    features
    Dv   value features                  as D
  and may end with causal or causalBR (the last row sees every key), and f16, bf16 or f64."""

MOST = 1 << 40
SIZES = ("B", "H", "Hkv", "L", "Lq", "Lkv", "D", "Dv")
TYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "f64": "float64"}
CAUSAL: dict[str, Start] = {"causal": "top_left", "causalBR": "bottom_right"}


@dataclass(frozen=True)
class Shape:
    """A problem of dense attention."""

    name: str
    batch: int
    heads: int
    key_heads: int
    queries: int
    keys: int
    features: int
    value_features: int
    causal: str | None
    dtype: str

    @property
    def sizes(self) -> tuple[tuple[int, ...], ...]:
        """The sizes of query, key and value."""
        keys = (self.batch, self.key_heads, self.keys)
        query = (self.batch, self.heads, self.queries, self.features)
        return query, (*keys, self.features), (*keys, self.value_features)

    def bytes(self, programs: int) -> float:
        """The memory for the tensors of so many programs, also while the largest is made."""
        counts = [math.prod(sizes) for sizes in self.sizes]
        counts.append(math.prod(self.sizes[0][:-1]) * self.value_features)
        return programs * numpy_type(self.dtype).itemsize * sum(counts) + 4 * max(counts)

    def plan(self, context: heed.Context) -> heed.Plan:
        """Attention of such tensors; none is made, because plans look at their forms alone."""
        number = np.zeros((), numpy_type(self.dtype))
        forms = []
        for sizes in self.sizes:
            strides = [number.itemsize * math.prod(sizes[axis + 1 :]) for axis in range(4)]
            forms.append(np.lib.stride_tricks.as_strided(number, sizes, strides))
        query, key, value = forms
        causal = False if self.causal is None else CAUSAL[self.causal]
        return heed.plan(query, key, value, causal=causal, context=context)

    def tensors(self) -> tuple[Any, ...]:
        """Random query, key and value."""
        random = np.random.default_rng(1)
        dtype = numpy_type(self.dtype)
        return tuple(
            random.standard_normal(sizes, dtype=np.float32).astype(dtype) for sizes in self.sizes
        )


def numpy_type(name: str) -> "np.dtype[Any]":
    """NumPy's type by one of the names in TYPES."""
    if name != "bf16":
        return np.dtype(TYPES[name])
    try:
        import ml_dtypes
    except ImportError:
        raise Failure("bf16 needs the package ml_dtypes: pip install ml_dtypes") from None
    bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return bfloat16


def parse(name: str) -> Shape:
    """The problem of this name."""
    sizes: dict[str, int] = {}
    words: set[str] = set()
    for part in name.split("_"):
        match = re.fullmatch(r"([A-Z][a-z]*)([0-9]{1,40})", part)
        key = match[1] if match else part
        if key in sizes or key in words:
            raise Misuse(f"shape {name}: {key} is given twice")
        if match and key in SIZES:
            sizes[key] = int(match[2])
            if not 1 <= sizes[key] <= MOST:
                raise Misuse(f"shape {name}: {key} is {match[2]}; it must be 1 to 2^40")
        elif part in CAUSAL or part in TYPES:
            words.add(part)
        else:
            known = ", ".join(f"{size}NUMBER" for size in SIZES)
            raise Misuse(
                f"shape {name}: it has {part!r}; it must be of {known}, "
                f"{', '.join([*CAUSAL, *TYPES])}, with _ between"
            )
    for kind in (CAUSAL, TYPES):
        if len(words & set(kind)) > 1:
            raise Misuse(f"shape {name}: only one of {', '.join(kind)} can be given")
    if "L" in sizes and ("Lq" in sizes or "Lkv" in sizes):
        raise Misuse(f"shape {name}: L is both Lq and Lkv; give L, or the two")
    for needed in ("D",) if "L" in sizes else ("Lq", "Lkv", "D"):
        if needed not in sizes:
            missing = "L" if needed == "Lq" and "Lkv" not in sizes else needed
            raise Misuse(f"shape {name}: {missing} is missing")
    heads = sizes.get("H", 1)
    key_heads = sizes.get("Hkv", heads)
    if heads % key_heads != 0:
        raise Misuse(f"shape {name}: Hkv is {key_heads}; it must divide H, {heads}")
    return Shape(
        name=name,
        batch=sizes.get("B", 1),
        heads=heads,
        key_heads=key_heads,
        queries=sizes.get("Lq", sizes.get("L", 0)),
        keys=sizes.get("Lkv", sizes.get("L", 0)),
        features=sizes["D"],
        value_features=sizes.get("Dv", sizes["D"]),
        causal=next((word for word in CAUSAL if word in words), None),
        dtype=next((word for word in TYPES if word in words), "f32"),
    )
