"""A sequence split over ranks: heed's ring beside keys and values that PyTorch gathers.

    HEED_MPI_LIBRARY=build/libheed_mpi.so mpirun -n 2 python3 ranks.py [ROWS]

PyTorch has no ring for CPUs: with torch.distributed (gloo) every rank gathers all keys and values,
and masks what its rows may not attend. Needs mpi4py, libheed_mpi and PyTorch.
"""

import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from mpi4py import MPI

import heed
import heed.mpi

HEADS, KEY_HEADS, FEATURES = 4, 2, 64
COMM = MPI.COMM_WORLD


def start_gloo(folder: str) -> None:
    """Join the ranks of MPI once more, by a file that all can read."""
    place = COMM.bcast(str(Path(folder) / "gloo"))
    dist.init_process_group(
        "gloo", init_method=f"file://{place}", rank=COMM.rank, world_size=COMM.size
    )


def gathered(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, rows: torch.Tensor):
    """Attend all keys, which every rank gets; the result, and the bytes that this takes beside."""

    def all_of(x: torch.Tensor) -> torch.Tensor:
        parts = [torch.empty_like(x) for _ in range(COMM.size)]
        dist.all_gather(parts, x)
        return torch.cat(parts, dim=-2 if x.ndim > 1 else 0)

    keys, values, positions = all_of(key), all_of(value), all_of(rows)
    mask = positions[None, :] <= rows[:, None]
    out = torch.nn.functional.scaled_dot_product_attention(
        query[None], keys[None], values[None], attn_mask=mask, enable_gqa=True
    )[0]
    return out, sum(x.nbytes for x in (keys, values, positions, mask))


def timed(function):
    """Call it twice, all ranks at once; what the second call gives, and its seconds."""
    function()
    COMM.Barrier()
    start = time.perf_counter()
    found = function()
    return found, time.perf_counter() - start


def main() -> None:
    """Attend with both, and compare."""
    length = int(sys.argv[1]) if len(sys.argv) > 1 else 2048
    length -= length % (2 * COMM.size)  # gloo gathers equal parts
    torch.manual_seed(0)  # all ranks draw the same sequence, and keep their rows
    whole = [torch.randn(heads, length, FEATURES) for heads in (HEADS, KEY_HEADS, KEY_HEADS)]
    rows = torch.from_numpy(heed.mpi.place(length, placement="zigzag"))
    query, key, value = (x[:, rows].contiguous() for x in whole)
    torch.set_num_threads(1)
    context = heed.Context(threads=1)

    with (
        tempfile.TemporaryDirectory() as folder,
        heed.mpi.plan(query, key, value, placement="zigzag", causal=True, context=context) as plan,
    ):
        start_gloo(folder)
        ring, ring_seconds = timed(lambda: plan(query, key, value))
        (all_keys, bytes_beside), gather_seconds = timed(lambda: gathered(query, key, value, rows))
        one = heed.attention(*whole, causal=True, context=context)[:, rows]
        said = plan.describe()
        text = (
            f"rank {COMM.rank} of {COMM.size}: {len(rows)} of {length} rows\n"
            f"  heed, {said['strategy']}:  {ring_seconds * 1e3:.1f} ms, "
            f"{said['workspace_bytes'] / 1e6:.1f} MB beside its own rows\n"
            f"  gloo, gathered: {gather_seconds * 1e3:.1f} ms, {bytes_beside / 1e6:.1f} MB\n"
            f"  the same but for rounding: {torch.allclose(ring, all_keys, atol=1e-5)}, "
            f"and as one process: {torch.allclose(ring, one, atol=1e-6)}"
        )
        for line in COMM.gather(text) or []:
            print(line)
        dist.destroy_process_group()
        COMM.Barrier()


if __name__ == "__main__":
    main()
