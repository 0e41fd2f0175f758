"""Files of tensors, made byte by byte, so that no test but one needs NumPy."""

import math
import struct

# The types of npy files and how Python packs them.
FORMATS = {"<f2": "e", "<f4": "f", "<f8": "d", "|b1": "?", "|u1": "B"}


def npy(shape, values=None, *, descr="'<f4'", fortran="False", version=(1, 0), header=None):
    """The bytes of an npy file; every part can be made wrong."""
    if values is None:
        values = [0] * math.prod(shape)
    if header is None:
        axes = ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "")
        header = f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': ({axes}), }}\n"
    length = struct.pack("<H" if version[0] == 1 else "<I", len(header))
    start = b"\x93NUMPY" + bytes(version) + length + header.encode()
    return start + struct.pack(f"<{len(values)}{FORMATS.get(descr[1:-1], 'f')}", *values)


def read_npy(path, descr="<f4"):
    """The shape and values of a file that attend wrote, which must be exactly as NumPy writes."""
    with open(path, "rb") as file:
        content = file.read()
    assert content[:8] == b"\x93NUMPY\x01\x00", content[:8]
    length = struct.unpack("<H", content[8:10])[0]
    assert (10 + length) % 64 == 0, length
    header = content[10 : 10 + length].decode("ascii")
    assert header.endswith("\n"), header
    fields = eval(header)  # our own program's output
    assert list(fields) == ["descr", "fortran_order", "shape"], header
    assert fields["descr"] == descr and fields["fortran_order"] is False, header
    values = struct.iter_unpack("<" + FORMATS[descr], content[10 + length :])
    return fields["shape"], [value for value, in values]
