import os

from npy_files import npy
from support import AttendTest


class Usage(AttendTest):
    """A wrong command line: status 2, and stderr names the option."""

    def test_help(self):
        for option in ("--help", "-h"):
            output = self.output_of(option)
            for word in ("Usage:", "--causal", "--tolerance", "--map", "scalar", "serial", "Example:"):
                self.assertIn(word, output)

    def test_wrong_options(self):
        self.write_inputs()
        cases = [
            (["--wrong"], "unknown", "'--wrong'"),
            (["--wrong=1"], "unknown", "'--wrong=1'"),
            (["-x"], "unknown", "'-x'"),
            (["--e", "x"], "ambiguous", "'--e'"),
            (["--quiet=1"], "takes no value", "--quiet=1"),
            (["more.npy"], "unexpected", "'more.npy'"),
            (["--scale"], "--scale needs a value"),
            (["--tolerance", "small"], "--tolerance", "'small'"),
            (["--tolerance", "-1"], "--tolerance", "-1"),
            (["--tolerance", "nan"], "--tolerance", "'nan'"),
            (["--scale", "0"], "--scale", "0"),
            (["--scale", "1x"], "--scale", "'1x'"),
            (["--scale", "inf"], "--scale", "'inf'"),
            (["--scale", ""], "--scale", "''"),
            (["--causal", "left"], "--causal", "'left'"),
            (["--causal", "9223372036854775808"], "--causal", "9223372036854775808"),
            (["--threads", "0"], "--threads is 0", "1 ... 1024"),
            (["--threads", "1025"], "--threads is 1025", "1 ... 1024"),
            (["--threads", "4294967297"], "--threads", "1 ... 1024"),
            (["--threads", "two"], "--threads", "'two'"),
            (["--repeat", "0"], "--repeat", "1 ... 1000000"),
            (["--map", "-1"], "--map", "-1"),
            (["--rows", "0,1"], "--rows without --map"),
            (["--tokens", "t.txt"], "--tokens without --map"),
            (["--map", "0", "--rows", "5"], "--rows", "'5'", "FIRST,LAST"),
            (["--map", "0", "--rows", "-1,2"], "--rows", "-1,2", "less than 0"),
            (["--map", "0", "--rows", "2,1"], "--rows", "2,1", "before the first"),
            (["--repeat", "99999999999999999999"], "--repeat", "1 ... 1000000"),
            (["--tolerance", "1"], "--tolerance without --expect"),
        ]
        for options, *words in cases:
            with self.subTest(options=options):
                result = self.attend(*options)
                self.assert_fails(result, 2, *words, "attend --help")
                self.assertFalse(os.path.exists(self.path("out.npy")))

    def test_missing_options(self):
        given = []
        for name in ("--query", "--key", "--value", "--out"):
            self.assert_fails(self.run_program(*given), 2, f"{name} is missing")
            given += [name, "x.npy"]

    def test_results_replace_no_input(self):
        """By no path; a device may be a result."""
        self.write_inputs()
        self.write("e.npy", npy((1, 1)))
        self.write("t.txt", b"words")
        os.symlink("k.npy", self.path("link.npy"))
        contents = lambda: [self.read(name) for name in (
            "q.npy", "k.npy", "v.npy", "e.npy", "t.txt")]
        before = contents()
        more = ["--expect", "e.npy", "--map", "0", "--tokens", "t.txt"]
        for path, other in (("q.npy", "--query"), ("./v.npy", "--value"), ("link.npy", "--key"),
                            ("e.npy", "--expect"), ("t.txt", "--tokens")):
            with self.subTest(path=path):
                self.assert_fails(self.attend(*more, "--out", path), 2,
                                  f"--out is {path}, the file of {other}")
                self.assertEqual(contents(), before)
        self.assert_works(self.attend("--out", "/dev/null"))

    def test_what_heed_refuses(self):
        """In the words of the command line: no C name is left."""
        self.write_inputs()
        cases = [
            (["--isa", "mmx"], {}, '--isa is "mmx"', "scalar"),
            (["--executor", "fork"], {}, '--executor is "fork"', "serial"),
            (["--scale", "1e300"], {}, "--scale is 1e+300", "at most 3.40282e+38"),
            ([], {"HEED_ISA": "mmx"}, "HEED_ISA", "mmx", "scalar"),
            ([], {"HEED_TILE_Q": "many"}, "HEED_TILE_Q", "many"),
        ]
        for options, environment, *words in cases:
            with self.subTest(options=options, environment=environment):
                result = self.attend(*options, **environment)
                self.assert_fails(result, 1, *words)
                self.assertNotRegex(result.stderr, r"desc\.|options\.|heed_")
