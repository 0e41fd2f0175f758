"""Runs of attend on tensors that the tests write."""

from npy_files import npy
from program import ProgramTest

FILES = ("--query", "q.npy", "--key", "k.npy", "--value", "v.npy", "--out", "out.npy")


class AttendTest(ProgramTest):
    def write_inputs(self, query=(1, 2, 3, 4), key=(1, 2, 5, 4), value=(1, 2, 5, 4)):
        for name, shape in (("q.npy", query), ("k.npy", key), ("v.npy", value)):
            self.write(name, npy(shape))

    def attend(self, *more, **environment):
        return self.run_program(*FILES, "--repeat", "1", *more,
                                **{"HEED_THREADS": "1", **environment})
