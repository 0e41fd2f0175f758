"""heed's C API through ctypes. Structs and enumerators are read from heed.h, never written again."""

import ctypes
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "..", ".."))

TYPES = {
    "uint32_t": ctypes.c_uint32,
    "int64_t": ctypes.c_int64,
    "uint64_t": ctypes.c_uint64,
    "size_t": ctypes.c_size_t,
    "double": ctypes.c_double,
    "heed_score_function": ctypes.c_void_p,
}


def declarations():
    with open(os.path.join(ROOT, "api", "heed.h"), encoding="utf-8") as header:
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
        self.structs = {}
        header = declarations()
        for body, name in re.findall(r"typedef struct \w+ \{(.*?)\} (\w+);", header, re.DOTALL):
            fields = [field_of(f, self.structs) for f in body.split(";") if f.strip()]
            self.structs[name] = type(name, (ctypes.Structure,), {"_fields_": fields})
        for name, value in re.findall(r"\b(HEED_\w+) =? ?(\d+)", header):
            setattr(self, name, int(value))

    def struct(self, name, **fields):
        made = self.structs[name](**fields)
        if hasattr(made, "struct_size"):
            made.struct_size = ctypes.sizeof(made)
        return made

    def call(self, name, *arguments):
        if getattr(self.library, name)(*arguments) != self.HEED_STATUS_OK:
            raise Error(self.library.heed_last_error().decode())

    def make(self, name, *arguments):
        """What a heed_..._create function makes; it stays for the life of the process."""
        made = ctypes.c_void_p()
        self.call(name, *arguments, ctypes.byref(made))
        return made

    def describe(self, name, of, info):
        filled = self.struct(info)
        self.call(name, of, ctypes.byref(filled))
        return filled
