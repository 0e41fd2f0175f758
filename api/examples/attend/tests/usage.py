import os

from support import AttendTest


class Usage(AttendTest):
    """A wrong command line: status 2, and stderr names the option."""

    def test_help(self):
        for option in ("--help", "-h"):
            result = self.run_attend([option])
            self.assert_works(result)
            for word in ("Usage:", "--causal", "--tolerance", "--mask", "--map", "scalar", "serial",
                         "Example:"):
                self.assertIn(word, result.stdout)

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
            (["--threads", "0"], "--threads", "1 ... 4294967295"),
            (["--threads", "4294967297"], "--threads", "1 ... 4294967295"),
            (["--threads", "two"], "--threads", "'two'"),
            (["--repeat", "0"], "--repeat", "1 ... 1000000"),
            (["--window", "3"], "--window", "'3'", "LEFT,RIGHT"),
            (["--window", "3,"], "--window", "'3,'", "LEFT,RIGHT"),
            (["--window", "1,2,3"], "--window", "'1,2,3'", "LEFT,RIGHT"),
            (["--window", "-2,0"], "--window", "-2,0", "less than -1"),
            (["--alignment", "top"], "--alignment", "'top'"),
            (["--softcap", "0"], "--softcap", "'0'", "above 0"),
            (["--softcap", "inf"], "--softcap", "'inf'", "finite"),
            (["--temperature", "0"], "--temperature", "'0'", "above 0"),
            (["--temperature", "nan"], "--temperature", "'nan'", "above 0"),
            (["--temperature", "cold"], "--temperature", "'cold'", "above 0"),
            (["--hard=1"], "takes no value", "--hard=1"),
            (["--dtype", "f8"], "--dtype", "'f8'", "f16 bf16 f32 f64"),
            (["--weights-point", "scores"], "--weights-point without --weights"),
            (["--weights", "w.npy", "--weights-point", "raw"], "--weights-point", "'raw'",
             "scores capped masked probabilities"),
            (["--map", "-1"], "--map", "-1"),
            (["--rows", "0,1"], "--rows without --map"),
            (["--tokens", "t.txt"], "--tokens without --map"),
            (["--map", "0", "--rows", "5"], "--rows", "'5'", "FIRST,LAST"),
            (["--map", "0", "--rows", "-1,2"], "--rows", "-1,2", "less than 0"),
            (["--map", "0", "--rows", "2,1"], "--rows", "2,1", "before the first"),
            (["--repeat", "99999999999999999999"], "--repeat", "1 ... 1000000"),
        ]
        for options, *words in cases:
            with self.subTest(options=options):
                result = self.attend(*options)
                self.assert_fails(result, 2, *words, "attend --help")
                self.assertEqual(result.stdout, "")
                self.assertFalse(os.path.exists(self.path("out.npy")))

    def test_missing_options(self):
        given = []
        for name in ("--query", "--key", "--value", "--out"):
            self.assert_fails(self.run_attend(given), 2, f"{name} is missing")
            given += [name, "x.npy"]

    def test_what_heed_refuses(self):
        self.write_inputs()
        cases = [
            (["--isa", "mmx"], {}, "isa", "mmx", "scalar"),
            (["--executor", "fork"], {}, "executor", "fork", "serial"),
            (["--threads", "5000"], {}, "threads", "5000", "1024"),
            (["--hard", "--temperature", "2"], {}, "hard", "temperature"),
            (["--causal", "top-left", "--alignment", "1"], {}, "alignment"),
            (["--window", "1,1"], {}, "alignment"),
            ([], {"HEED_ISA": "mmx"}, "HEED_ISA", "mmx", "scalar"),
            ([], {"HEED_TILE_Q": "many"}, "HEED_TILE_Q", "many"),
        ]
        for options, environment, *words in cases:
            with self.subTest(options=options, environment=environment):
                self.assert_fails(self.attend(*options, environment=environment), 1, *words)
