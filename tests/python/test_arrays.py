"""Arrays are read where they lie, whatever their library and strides, or refused."""

import array
import mmap

import numpy as np
import pytest
from cases import tensors

import heed
from heed import _heed


def address(x):
    return x.data_ptr() if hasattr(x, "data_ptr") else x.__array_interface__["data"][0]


def read_only(x):
    x = x.copy()
    x.flags.writeable = False
    return x


X = np.random.default_rng(0).standard_normal((2, 4, 6, 8)).astype(np.float32)
VIEWS = {
    "contiguous": X,
    "features_outside_rows": X.swapaxes(2, 3).copy().swapaxes(2, 3),
    "backwards": X[:, :, ::-1, ::-1].copy()[:, :, ::-1, ::-1],
    "read_only": read_only(X),
}


@pytest.mark.parametrize("name", VIEWS)
def test_any_strides_without_a_copy(name):
    x = VIEWS[name]
    assert _heed.seen(x) == {
        "address": address(x),
        "dtype": "float32",
        "shape": x.shape,
        "strides": tuple(s // 4 for s in x.strides),
        "writable": name != "read_only",
    }


def test_strides_of_torch():
    torch = pytest.importorskip("torch")
    for view in (X, VIEWS["features_outside_rows"]):
        x = torch.from_numpy(view)
        assert _heed.seen(x)["address"] == x.data_ptr()
        assert _heed.seen(x)["strides"] == x.stride()
    assert _heed.seen(torch.ones(1, 1).expand(6, 8))["strides"] == (0, 0)


def test_repeated_elements_are_passed_as_what_they_are():
    """A copy of these keys would take 4 GiB."""
    _, k, v = tensors(key_heads=2)
    key = np.broadcast_to(k[:, :, :1, :1], (2, 2, 2**20, 64))
    query = np.ones((2, 4, 1, 64), np.float32)
    assert _heed.seen(key)["strides"][2:] == (0, 0)
    out = heed.attention(query, key, np.broadcast_to(v[:, :, :1], (2, 2, 2**20, 8)))
    np.testing.assert_allclose(out[:, ::2], v[:, :, :1], rtol=1e-4)


def test_out_of_another_library():
    torch = pytest.importorskip("torch")
    q, k, v = tensors()
    out = torch.empty(2, 4, 5, 8)
    assert heed.attention(q, k, v, out=out) is out
    np.testing.assert_array_equal(out.numpy(), heed.attention(q, k, v))


def test_mapped_files_and_buffers(tmp_path):
    q, k, v = tensors()
    expected = heed.attention(q[0, 0], k[0, 0], v[0, 0])
    path = tmp_path / "query"
    path.write_bytes(q[0, 0].tobytes())
    mapped = np.memmap(path, np.float32, "r", shape=(5, 8))
    assert _heed.seen(mapped)["address"] == mapped.ctypes.data
    np.testing.assert_array_equal(heed.attention(mapped, k[0, 0], v[0, 0]), expected)
    view = memoryview(q[0, 0])
    out = heed.attention(view, k[0, 0], v[0, 0])
    assert type(out) is np.ndarray
    np.testing.assert_array_equal(out, expected)
    assert _heed.seen(array.array("i", [1, 2]))["dtype"] == "int32"
    with mmap.mmap(-1, 64) as memory:
        assert _heed.seen(memoryview(memory).cast("f"))["shape"] == (16,)


TORCH_REFUSED = {
    "grad": (lambda torch: torch.zeros(5, 8, requires_grad=True), "query requires gradients,"),
    "negative": (
        lambda torch: torch._neg_view(torch.ones(5, 8)),
        r"set: give it query.resolve_neg\(\)",
    ),
    "sparse": (lambda torch: torch.ones(5, 8).to_sparse(), "query: Can't export tensors with"),
    "meta": (lambda torch: torch.zeros(5, 8, device="meta"), "query: Unknown device type meta for"),
    "int": (lambda torch: torch.zeros(5, 8, dtype=torch.int16), "query is of torch.int16"),
}


@pytest.mark.parametrize("name", TORCH_REFUSED)
def test_refused_of_torch(name):
    torch = pytest.importorskip("torch")
    make, message = TORCH_REFUSED[name]
    k = torch.zeros(5, 8)
    with pytest.raises(heed.ArgumentError, match=message):
        heed.attention(make(torch), k, k)


def test_parameters_without_gradients():
    torch = pytest.importorskip("torch")
    parameter = torch.nn.Parameter(torch.ones(5, 8))
    with torch.no_grad():
        out = heed.attention(parameter, parameter, parameter)
    assert type(out) is torch.Tensor
    assert not out.requires_grad
    with torch.inference_mode():
        heed.attention(parameter, parameter, parameter)
