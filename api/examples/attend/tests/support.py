"""Files of tensors, made byte by byte, and runs of attend on them."""

import math
import os
import struct
import subprocess
import tempfile
import unittest

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


class AttendTest(unittest.TestCase):
    program = ""  # the path of attend; set before tests run

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def write_inputs(self, query=(1, 2, 3, 4), key=(1, 2, 5, 4), value=(1, 2, 5, 4)):
        for name, shape in (("q.npy", query), ("k.npy", key), ("v.npy", value)):
            self.write(name, npy(shape))

    def run_attend(self, arguments, environment=None):
        clean = {k: v for k, v in os.environ.items()
                 if not k.startswith("HEED_") and k not in ("COLUMNS", "NO_COLOR")}
        clean["HEED_THREADS"] = "1"
        return subprocess.run([self.program, *arguments], cwd=self.folder, text=True, timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env={**clean, **(environment or {})})

    def attend(self, *more, environment=None):
        files = ["--query", "q.npy", "--key", "k.npy", "--value", "v.npy", "--out", "out.npy"]
        return self.run_attend([*files, "--repeat", "1", *more], environment)

    def assert_fails(self, result, status, *words):
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertTrue(result.stderr.startswith("attend: "), result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)

    def assert_works(self, result):
        self.assertEqual((result.returncode, result.stderr), (0, ""))
