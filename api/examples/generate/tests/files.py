import math
import struct

from model import Model, sealed
from support import GenerateTest


class Files(GenerateTest):
    """Models that cannot be read, and what cannot be written."""

    def check(self, content, *words):
        self.write("m.heed", content)
        self.assert_fails(self.run_program("m.heed", "--prompt", "x"), 1,
                          "generate: m.heed: " + words[0], *words[1:])

    def test_what_is_no_file(self):
        for name, problem in (("none.heed", "none.heed: No such file"), (".", ".: Is a directory")):
            self.assert_fails(self.run_program(name, "--prompt", "x"), 1, "generate: " + problem)
        self.assert_fails(self.run_program("--make", "none/m.heed"), 1,
                          "generate: none/m.heed: No such file")

    def test_foreign_files(self):
        self.check(b"GGUF" + bytes(100), "it is no model of this program")
        model = Model()
        self.check(model.file(magic=b"heed-txt"), "it is no model of this program")
        self.check(model.file(version=2), "its version is 2, this program knows 1")
        self.check(model.file(dtype=2), "its type is 2, not 1, float32, or 3, bfloat16")

    def test_sizes_that_make_no_model(self):
        names = ["layers", "width", "query heads", "key heads", "features", "rotary features",
                 "hidden features"]
        model = Model()
        for i, name in enumerate(names):
            for value in (0, 65537, 2**32 - 1):
                sizes = [*model.sizes[:i], value, *model.sizes[i + 1 :]]
                self.check(model.header(sizes=sizes), f"it has {value} {name}, not 1 to 65536")
        for sizes, problem in (
                ((3, 12, 4, 3, 6, 4, 10), "its 4 query heads are no multiple of its 3 key heads"),
                ((3, 12, 2, 4, 6, 4, 10), "its 2 query heads are no multiple of its 4 key heads"),
                ((3, 12, 4, 2, 6, 3, 10), "rotary embedding turns 3 features, not an even number up to 6"),
                ((3, 12, 4, 2, 6, 8, 10), "rotary embedding turns 8 features, not an even number up to 6"),
                ((65536,) * 7, "its sizes make 7.38e+19 weights, more than 1e+11")):
            self.check(model.header(sizes=sizes), problem)
        for base in (0, -1, math.inf, math.nan):
            self.check(model.header(base=base), f"the base of its rotary embedding is {base:g}")

    def test_truncated_and_altered_files(self):
        content = Model(layers=1, width=2, query_heads=1, key_heads=1, features=2, rotary=2,
                        hidden=1).file()
        for length in (0, 7, 8, 30, 51, 52, 53, len(content) - 9, len(content) - 1):
            self.check(content[:length], "it is truncated")
        self.check(content + b"\0", "something follows what belongs to it")
        for at in (*range(52, 100), *range(100, len(content), 97), len(content) - 1):
            altered = bytearray(content)
            altered[at] ^= 1 << at % 8
            self.check(bytes(altered), "its checksum says that it was altered")
        for at in range(52):  # of the header: often another refusal comes first
            altered = bytearray(content)
            altered[at] ^= 1 << at % 8
            self.check(bytes(altered), "")

    def test_scores_that_are_not_finite(self):
        content = Model().file()[:-12] + struct.pack("<f", math.nan)  # the last weight, of byte 255
        self.write("m.heed", sealed(content))
        self.assert_fails(self.run_program("m.heed", "--prompt", "x"), 1,
                          "generate: the model's score of byte 255 is nan")
