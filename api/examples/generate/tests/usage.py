import os
import re
import subprocess

from model import Model
from support import GenerateTest


class Usage(GenerateTest):
    def setUp(self):
        super().setUp()
        self.write("m.heed", Model().file())

    def test_help(self):
        text = self.output_of("--help")
        self.assertIn("Usage: generate", text)
        self.assertEqual(text, self.output_of("-h"))
        self.assertLessEqual(max(map(len, text.splitlines())), 100)

    def test_wrong_command_lines(self):
        for arguments, problem in [
                ([], "MODEL, a file, is missing"),
                (["a", "b"], "unexpected argument 'b'"),
                (["--fast", "a"], "unknown option '--fast'"),
                (["a", "--tokens"], "--tokens needs a value"),
                (["a", "--tokens", "-1"], "--tokens is -1, not in 0 ... 16777216"),
                (["a", "--tokens", "9x"], "--tokens is '9x', not an integer"),
                (["a", "--fork", "0"], "--fork is 0, not in 1 ... 64"),
                (["a", "--fork", "65"], "--fork is 65, not in 1 ... 64"),
                (["a", "--threads", "0"], "--threads is 0, not in 1 ... 1024"),
                (["a", "--seed", "-1"], "--seed is -1, not in 0"),
                (["a", "--temperature", "-1"], "--temperature is '-1', not 0 or a number above"),
                (["a", "--temperature", "nan"], "--temperature is 'nan', not 0 or a number above"),
                (["a", "--cache", "int4"],
                 "--cache is 'int4', not one of float32 bfloat16 float16 int8 fp8"),
                (["--make", "a", "--type", "int8"],
                 "--type is 'int8', not one of float32 bfloat16"),
                (["--make", "a", "--layers", "1"], "--layers is 1, not in 2 ... 64"),
                (["a", "--layers", "2"], "--layers does not go with a MODEL, only with --make"),
                (["a", "--type", "float32"], "--type does not go with a MODEL, only with --make"),
                (["a", "--no-cache", "--cache", "int8"], "--cache does not go with --no-cache"),
                (["a", "--no-cache", "--save", "b"], "--save does not go with --no-cache"),
                (["a", "--no-cache", "--load", "b"], "--load does not go with --no-cache"),
                *([["--make", "a", *words], f"{words[0].replace('b', 'MODEL')} does not go with --make"]
                  for words in (["b"], ["--prompt", "x"], ["--tokens", "0"], ["--temperature", "0"],
                                ["--fork", "1"], ["--cache", "int8"], ["--no-cache"],
                                ["--save", "x"], ["--load", "x"], ["--threads", "1"],
                                ["--progress"])),
                (["m.heed", "--save", "./m.heed"], "--save is ./m.heed, the file of MODEL"),
                (["a", "--load", "m.heed", "--save", "./m.heed"],
                 "--save is ./m.heed, the file of --load")]:
            with self.subTest(arguments):
                result = self.run_program(*arguments)
                self.assert_fails(result, 2, "generate: " + problem)
                self.assertTrue(result.stderr.endswith("\nTry 'generate --help'.\n"))

    def test_what_heed_refuses(self):
        self.assert_fails(self.run_program("m.heed", "--prompt", "x", HEED_ISA="z80"), 1, "HEED_ISA")

    def test_prompts(self):
        text = self.text_of("m.heed", "--prompt", "A prompt.")
        self.assertEqual(len(text), 100)
        self.assertEqual(text, self.text_of("m.heed", stdin=b"A prompt."))
        self.assertNotEqual(text, self.text_of("m.heed", stdin=b"A prompt.\n"))
        for arguments in (["--prompt", ""], []):
            self.assert_fails(self.run_program("m.heed", *arguments), 1,
                              "generate: the prompt is empty")
        self.assertEqual(self.text_of("m.heed", "--prompt", "x", "--tokens", 0), b"")

    def test_reports(self):
        result = self.run_program("m.heed", "--prompt", "p" * 40, "--tokens", 20, "--fork", 4)
        self.assertEqual(result.returncode, 0)
        lines = result.stderr.splitlines()
        self.assertEqual(lines[0], "model      3 layers, width 12, 4 query heads, 2 key heads, "
                         "9900 weights")
        self.assertEqual(lines[1], "prompt     40 tokens, 0 of them loaded")
        self.assertEqual(lines[2], "cache      float32, 4.5 KiB a page of 16 tokens")
        # Two full pages of the prompt once; a copy of its third, and one more, for each of the four.
        self.assertEqual(lines[3], "pages      10 used, 2 of them shared")
        self.assertRegex(lines[4], r"^speed      \d+ tokens/s of the prompt, \d+ tokens/s after it$")
        self.assertEqual(len(lines), 5)
        lines = self.run_program("m.heed", "--prompt", "p", "--no-cache").stderr.splitlines()
        self.assertEqual(lines[2], "cache      none")
        self.assertEqual(self.run_program("--make", "n.heed").stderr, "model      1836288 weights\n")

    def test_progress(self):
        result = self.run_program("m.heed", "--quiet", "--progress", "--prompt", "p" * 600,
                                  "--tokens", 50)
        self.assertEqual(result.returncode, 0)
        lines = result.stderr.splitlines()
        self.assertEqual(lines[:3], [f"prompt: {n} of 600" for n in (256, 512, 600)])
        self.assertEqual(lines[3:], [f"text: {n} of 50" for n in range(5, 51, 5)])

    def test_terminals(self):
        """What they would obey is shown, and a line of progress written over."""
        model = Model()
        model.unembedding[:] = [[0] * 256] * len(model.unembedding)  # the likeliest byte is 0
        self.write("m.heed", model.file())
        command = ["m.heed", "--prompt", "p" * 300, "--tokens", 3]
        self.assertEqual(self.text_of(*command), b"\0" * 3)
        reads, terminal = self.open_terminal()
        for both, arguments, shown in (  # on stderr only or on both
                (True, [], "\rprompt: 0 of 300 \rprompt: 256 of 300 \rprompt: 300 of 300 \r\x1b[K"
                           "\\x00\\x00\\x00\r\n"),
                (True, ["--quiet"], "\\x00\\x00\\x00\r\n"),
                (False, ["--tokens", 2], "\rtext: 1 of 2 \rtext: 2 of 2 \r\x1b[K")):
            output = terminal if both else subprocess.DEVNULL
            result = self.run_with({"stdout": output, "stderr": terminal}, *command, *arguments)
            self.assertEqual(result.returncode, 0)
            self.assertIn(shown, os.read(reads, 10000).decode())
        model.unembedding[:] = [[1e30] * 256] * len(model.unembedding)
        model.out_norm[:] = [[1e30] * 12]
        self.write("m.heed", model.file())
        self.assertEqual(self.run_with({"stderr": terminal}, *command).returncode, 1)
        self.assertIn("prompt: 300 of 300 \r\x1b[Kgenerate: the model's score",
                      os.read(reads, 10000).decode())
        os.close(terminal)
        os.close(reads)

    def test_a_full_disk(self):
        for arguments in ([], ["--fork", 2]):
            with open("/dev/full", "wb") as full:
                result = self.run_with({"stdout": full, "stderr": subprocess.PIPE, "text": True},
                                       "m.heed", "--prompt", "x", *arguments)
            self.assertEqual(result.returncode, 1)
            self.assertTrue(re.match("generate: stdout: No space left", result.stderr), result.stderr)
        self.assert_fails(self.run_program("--make", "/dev/full"), 1, "/dev/full: No space left")
