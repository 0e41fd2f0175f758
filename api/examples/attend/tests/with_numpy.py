import numpy

from support import AttendTest


class NumPy(AttendTest):
    """What NumPy writes is read, and what attend writes NumPy reads."""

    def test_round_trip(self):
        generator = numpy.random.default_rng(7)
        for shape in ((6, 5), (2, 6, 5), (1, 2, 6, 5), (123, 1, 6, 5)):
            for version in ((1, 0), (2, 0)):
                # A single key has weight 1: the output is its value, repeated, bit for bit.
                value = generator.standard_normal((*shape[:-2], 1, 7)).astype("<f4")
                key = numpy.ones((*shape[:-2], 1, shape[-1]), "<f4")
                for name, tensor in (("q", numpy.ones(shape, "<f4")), ("k", key), ("v", value)):
                    with open(self.path(name + ".npy"), "wb") as file:
                        numpy.lib.format.write_array(file, tensor, version)
                self.assert_works(self.attend())
                out = numpy.load(self.path("out.npy"))
                self.assertEqual(out.dtype, numpy.dtype("<f4"))
                wanted = numpy.broadcast_to(value, (*shape[:-1], 7))
                numpy.testing.assert_array_equal(out, wanted)
                # The same bytes as NumPy's own writer of version 1.0.
                with open(self.path("same.npy"), "wb") as file:
                    numpy.lib.format.write_array(file, numpy.ascontiguousarray(wanted), (1, 0))
                with open(self.path("same.npy"), "rb") as same, \
                        open(self.path("out.npy"), "rb") as written:
                    self.assertEqual(written.read(), same.read())

    def test_types(self):
        generator = numpy.random.default_rng(7)
        key = numpy.ones((1, 4))
        value = generator.standard_normal((1, 70000))
        for dtype in ("<f2", "<f4", "<f8"):
            for name, tensor in (("q", key), ("k", key), ("v", value)):
                numpy.save(self.path(name + ".npy"), tensor.astype(dtype))
            self.assert_works(self.attend())
            out = numpy.load(self.path("out.npy"))
            self.assertEqual(out.dtype, numpy.dtype(dtype))
            numpy.testing.assert_array_equal(out, value.astype(dtype))

    def test_foreign_arrays(self):
        self.write_inputs()
        for array, word in (
            (numpy.zeros((1, 2, 5, 4), "<c8"), "<c8"),
            (numpy.zeros((1, 2, 5, 4), numpy.int8), "|i1"),
            (numpy.asfortranarray(numpy.zeros((1, 2, 5, 4), "<f4")), "Fortran order"),
        ):
            numpy.save(self.path("k.npy"), array)
            self.assert_fails(self.attend(), 1, "k.npy: ", word)
