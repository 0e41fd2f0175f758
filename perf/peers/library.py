"""heed's C API through ctypes. Structs and enumerators are read from heed.h, never written again."""

import ctypes
import os
import re

HEADER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "api", "heed.h")

TYPES = {
    "uint32_t": ctypes.c_uint32,
    "int64_t": ctypes.c_int64,
    "uint64_t": ctypes.c_uint64,
    "size_t": ctypes.c_size_t,
    "double": ctypes.c_double,
    "heed_score_function": ctypes.c_void_p,
    "heed_score_gradient": ctypes.c_void_p,
}


def declarations():
    with open(HEADER, encoding="utf-8") as header:
        return re.sub(r"/\*.*?\*/", "", header.read(), flags=re.DOTALL)


def field_of(declaration, structs):
    """The name and type of a field."""
    function = re.search(r"\(\*(\w+)\)", declaration)
    if function:
        return function.group(1), ctypes.c_void_p
    words = re.findall(r"\w+", declaration)
    if "*" in declaration:
        return words[-1], ctypes.c_char_p if "char" in words else ctypes.c_void_p
    return words[-1], structs.get(words[0]) or TYPES[words[0]]


class Error(Exception):
    """A call of heed that failed, with heed_last_error()."""


class Library:
    """heed.struct("heed_layout", dtype=1), heed.call("heed_context_create", ...), heed.HEED_..."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.heed_last_error.restype = ctypes.c_char_p
        self.library.heed_version_string.restype = ctypes.c_char_p
        self.version = self.library.heed_version_string().decode()
        self.structs = {}
        header = declarations()
        for body, name in re.findall(r"typedef struct \w+ \{(.*?)\} (\w+);", header, re.DOTALL):
            fields = [field_of(f, self.structs) for f in body.split(";") if f.strip()]
            self.structs[name] = type(name, (ctypes.Structure,), {"_fields_": fields})
        for name, value in re.findall(r"\b(HEED_\w+) =? ?(\d+)", header):
            setattr(self, name, int(value))

    def struct(self, name, **fields):
        """As its _INIT macro leaves it, with some fields set."""
        made = self.structs[name](**fields)
        if hasattr(made, "struct_size"):
            made.struct_size = ctypes.sizeof(made)
        return made

    def call(self, name, *arguments):
        """Structs are passed by their addresses."""
        passed = [ctypes.byref(a) if isinstance(a, ctypes.Structure) else a for a in arguments]
        if getattr(self.library, name)(*passed) != self.HEED_STATUS_OK:
            raise Error(self.library.heed_last_error().decode())

    def make(self, name, *arguments):
        """What a heed_..._create function makes; it stays until destroy()."""
        made = ctypes.c_void_p()
        self.call(name, *arguments, ctypes.byref(made))
        return made

    def destroy(self, name, made):
        getattr(self.library, name)(made)

    def describe(self, name, of, info):
        filled = self.struct(info)
        self.call(name, of, filled)
        return filled

    def workspace(self, size):
        """Memory for a run and its size: a run's last two arguments."""
        room = bytearray(size + self.HEED_WORKSPACE_ALIGNMENT)
        address = ctypes.addressof(ctypes.c_char.from_buffer(room))
        first = -address % self.HEED_WORKSPACE_ALIGNMENT
        return (ctypes.c_char * size).from_buffer(room, first), ctypes.c_size_t(size)
