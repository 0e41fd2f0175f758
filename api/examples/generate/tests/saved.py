import struct

from model import Model, sealed
from support import GenerateTest

PROMPT = "A prompt that is read once, and continued often."
HEADER = 28


class Saved(GenerateTest):
    """Prompts that outlive the process."""

    def setUp(self):
        super().setUp()
        self.write("m.heed", Model().file())

    def save(self, *arguments, prompt=PROMPT):
        return self.text_of("m.heed", "--prompt", prompt, "--save", "p.txt", *arguments)

    def check(self, content, *words):
        self.write("bad.txt", content)
        self.assert_fails(self.run_program("m.heed", "--load", "bad.txt"), 1,
                          "generate: bad.txt: " + words[0], *words[1:])

    def test_loading_continues_as_if_nothing_had_happened(self):
        for length in (1, 15, 16, 17, len(PROMPT)):
            for arguments in ([], ["--temperature", 1, "--seed", 5]):
                with self.subTest(length=length, arguments=arguments):
                    text = self.save(*arguments, prompt=PROMPT[:length])
                    self.assertEqual(len(text), 100)
                    for _ in range(2):
                        self.assertEqual(text, self.text_of("m.heed", "--load", "p.txt", *arguments))

    def test_every_type_of_cache(self):
        for name in ("float32", "float16", "bfloat16", "int8", "fp8"):
            with self.subTest(name):
                text = self.save("--cache", name)
                self.assertEqual(text, self.text_of("m.heed", "--load", "p.txt", "--cache", name))

    def test_a_prompt_may_be_added_to(self):
        self.assertEqual(self.save("--tokens", 0), b"")
        for more in ("x", " More of it, also past the end of a page."):
            text = self.text_of("m.heed", "--prompt", PROMPT + more)
            command = ["m.heed", "--load", "p.txt", "--prompt", more]
            self.assertEqual(text, self.text_of(*command))
            self.assertEqual([text] * 3, self.forks_of(3, *command))
            self.assertEqual(text, self.text_of(*command, "--save", "longer.txt"))
            self.assertEqual(text, self.text_of("m.heed", "--load", "longer.txt"))
        report = self.run_program("m.heed", "--load", "p.txt", "--prompt", "x").stderr
        self.assertIn(f"prompt     {len(PROMPT) + 1} tokens, {len(PROMPT)} of them loaded\n", report)

    def test_what_does_not_fit(self):
        self.save()
        self.write("other.heed", Model(seed=2).file())
        self.assert_fails(self.run_program("other.heed", "--load", "p.txt"), 1,
                          "generate: p.txt: it was computed with another model")
        self.assert_fails(self.run_program("m.heed", "--load", "p.txt", "--cache", "int8"), 1,
                          "generate: p.txt: HEED_STATUS_INVALID_ARGUMENT: ")

    def test_what_is_no_saved_prompt(self):
        self.assert_fails(self.run_program("m.heed", "--load", "none"), 1, "generate: none: No such")
        self.assert_fails(self.run_program("m.heed", "--prompt", "x", "--save", "none/p.txt"), 1,
                          "generate: none/p.txt: No such")
        self.check(self.read("m.heed"), "it is no prompt that this program saved")
        for fields, problem in (((2, 0, 1), "its version is 2, this program knows 1"),
                                ((1, 0, 0), "it has 0 tokens, not 1 to 268435456"),
                                ((1, 0, 2**63), f"it has {2**63} tokens, not 1 to 268435456"),
                                ((1, 0, 2**28), "it is truncated")):
            self.check(struct.pack("<8sI2Q", b"heed-txt", *fields), problem)

    def test_truncated_and_altered_files(self):
        self.save("--tokens", 0)
        content = self.read("p.txt")
        start = HEADER + len(PROMPT) + 8  # of heed's part
        for length in (0, 7, 8, HEADER - 1, HEADER, HEADER + 5, start - 1):
            self.check(content[:length], "it is truncated")
        for length in (start, start + 1, (start + len(content)) // 2, len(content) - 1):
            self.check(content[:length], "HEED_STATUS_CORRUPT: ")
        self.check(content + b"\0", "something follows what belongs to it")
        for at in (HEADER, HEADER + 20, start - 1):
            altered = bytearray(content)
            altered[at] ^= 1 << at % 8
            self.check(bytes(altered), "its checksum says that it was altered")
        for at in (*range(start, start + 80), *range(start + 80, len(content), 977), len(content) - 1):
            altered = bytearray(content)
            altered[at] ^= 1 << at % 8
            self.check(bytes(altered), "HEED_STATUS_")

    def test_a_length_that_is_not_the_tokens(self):
        """Both parts are whole, but not of each other."""
        self.save("--tokens", 0)
        long = self.read("p.txt")
        self.save("--tokens", 0, prompt=PROMPT[:20])
        short = self.read("p.txt")
        mixed = short[: HEADER + 20 + 8] + long[HEADER + len(PROMPT) + 8 :]
        self.check(mixed, f"it has 20 tokens, and keys of {len(PROMPT)}")

    def test_the_format(self):
        self.save("--tokens", 0)
        model = struct.unpack("<Q", self.read("m.heed")[-8:])
        self.assertTrue(self.read("p.txt").startswith(sealed(
            struct.pack("<8sI2Q", b"heed-txt", 1, *model, len(PROMPT)) + PROMPT.encode())))
