"""heed's C API for Python: structs as the header declares them, functions that raise."""

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
}


class Heed:
    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.heed_last_error.restype = ctypes.c_char_p
        self.library.heed_version_string.restype = ctypes.c_char_p
        self.version = self.library.heed_version_string().decode()
        with open(HEADER, encoding="utf-8") as file:
            self.header = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.DOTALL)
        self.structs = {}

    def type_of(self, name):
        """A ctypes type; structs are read from the header once."""
        if name in TYPES:
            return TYPES[name]
        if name not in self.structs:
            pattern = r"typedef struct " + name + r" \{(.*?)\} " + name + ";"
            body = re.search(pattern, self.header, re.DOTALL).group(1)
            fields = []
            for declaration in filter(None, map(str.strip, body.split(";"))):
                kind, pointer, field = re.fullmatch(
                    r"(?:const )?(\w+)(\*?) (\w+)", declaration
                ).groups()
                fields.append((field, ctypes.c_void_p if pointer else self.type_of(kind)))
            self.structs[name] = type(name, (ctypes.Structure,), {"_fields_": fields})
        return self.structs[name]

    def make(self, name, **fields):
        """A struct as its _INIT macro leaves it, with some fields set."""
        made = self.type_of(name)()
        made.struct_size = ctypes.sizeof(made)
        for field, value in fields.items():
            setattr(made, field, value)
        return made

    def constant(self, name):
        return int(re.search(r"\b" + name + r" = (\d+)", self.header).group(1))

    def call(self, function, *arguments):
        """Pointers are passed for structs; raises what heed_last_error says."""
        pointers = [ctypes.byref(a) if isinstance(a, ctypes.Structure) else a for a in arguments]
        if getattr(self.library, function)(*pointers) != 0:
            raise RuntimeError(self.library.heed_last_error().decode())

    def create(self, function, *arguments):
        """What a function makes behind its last argument."""
        handle = ctypes.c_void_p()
        self.call(function, *arguments, ctypes.byref(handle))
        return handle
