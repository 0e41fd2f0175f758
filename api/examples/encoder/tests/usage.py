import re

from program import ProgramTest


class Usage(ProgramTest):
    def encode(self, *arguments, **environment):
        return self.run_program(*arguments, **{"COLUMNS": "100", **environment})

    def pictures(self, *arguments, **environment):
        return self.assert_works(self.encode(*arguments, **environment))

    def test_help(self):
        self.assertIn("Usage: encoder", self.pictures("--help"))

    def test_wrong_command_lines(self):
        for arguments, problem in [
                ([], "FILE is missing"),
                (["a", "b"], "'b' is one too many"),
                (["--rows"], "--rows needs a value"),
                (["--rows", "0", "a"], "--rows is 0, not an integer from 1 to 8192"),
                (["--seed", "-1", "a"], "--seed is -1, not an integer from 0"),
                (["--seed", "9x", "a"], "--seed is 9x"),
                (["--fast", "a"], "'--fast' is not understood")]:
            self.assert_fails(self.encode(*arguments), 2, "encoder: " + problem)

    def test_files_that_cannot_be_encoded(self):
        self.write("empty.txt", b" \n\t")
        self.write("long.txt", b"word " * 8193)
        for name, problem in [("none.txt", "none.txt: No such file"), (".", ".: Is a directory"),
                              ("empty.txt", "empty.txt: there is no word in it"),
                              ("long.txt", "long.txt: more than 8192 words")]:
            self.assert_fails(self.encode(name), 1, "encoder: " + problem)

    def test_what_heed_refuses(self):
        self.write("t.txt", b"a word")
        self.assert_fails(self.encode("t.txt", HEED_ISA="z80"), 1, "HEED_ISA")

    def test_words(self):
        self.write("t.txt", "The tide's high-water;the caf\u00e9\r\nthe TIDE'S end.".encode())
        text = self.pictures("t.txt", "--rows", "100")
        self.assertIn("10 words, 7 of them different", text)
        self.assertEqual(text.count("what rows 0 to 9 attend, of 10 keys"), 2 * 4)
        first = text.split("\n\n")[1].splitlines()[1:]
        self.assertEqual([line.split()[0] for line in first],
                         ["The", "tide's", "high-water", ";", "the", "caf\u00e9", "the", "TIDE'S",
                          "end", "."])

    def test_one_word_attends_itself(self):
        self.write("t.txt", b"alone")
        text = self.pictures("t.txt")
        self.assertEqual(re.findall(r"^alone (.*)$", text, re.MULTILINE), ["|@|  alone 1.00"] * 8)

    def test_seeds(self):
        self.write("t.txt", b"When the Sun lines up with the Moon the range grows .")
        first = self.pictures("t.txt", "--seed", "5")
        self.assertEqual(first, self.pictures("t.txt", "--seed", "5", HEED_THREADS="1"))
        self.assertNotEqual(first, self.pictures("t.txt", "--seed", "6"))

    def test_layers_differ(self):
        self.write("t.txt", b"a small tide of its own")
        pictures = [p.split("\n", 1)[1] for p in self.pictures("t.txt").split("\n\n")[1:]]
        self.assertEqual(len(set(pictures)), 8)
