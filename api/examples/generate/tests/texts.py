import random

from model import BFLOAT16, Model
from support import GenerateTest

PATTERN = "one two three four five one two three "
FOLLOWS = b"four five one two three four f"


class Texts(GenerateTest):
    def written(self, **sizes):
        model = Model(**sizes)
        self.write("m.heed", model.file())
        return model

    def test_texts_are_what_python_computes(self):
        """Sizes of every kind: grouped heads or not, all features turned or few, one layer."""
        for sizes in ({}, {"layers": 1, "key_heads": 4}, {"key_heads": 1, "rotary": 6, "seed": 2},
                      {"width": 7, "hidden": 1, "features": 2, "rotary": 2, "base": 1e4}):
            model = self.written(**sizes)
            self.write("half.heed", model.file(dtype=BFLOAT16))
            for arguments, options in (([], {}), (["--temperature", 1.5], {"temperature": 1.5}),
                                       (["--temperature", 0.7, "--seed", 2**62],
                                        {"temperature": 0.7, "seed": 2**62})):
                expected = model.continued(b"A prompt.", 12, **options)
                for file in ("m.heed", "half.heed"):
                    for way in ([], ["--no-cache"]):
                        with self.subTest(sizes=sizes, arguments=arguments, file=file, way=way):
                            self.assertEqual(self.text_of(
                                file, "--prompt", "A prompt.", "--tokens", 12, *arguments, *way),
                                expected)

    def test_a_cache_changes_no_token(self):
        """Around the ends of pages and of chunks of the prompt."""
        self.written(width=20, features=16, rotary=8)
        numbers = random.Random(3)
        for length in (1, 2, 15, 16, 17, 63, 255, 256, 257, 600):
            prompt = bytes(numbers.randrange(256) for _ in range(length))
            for arguments in ([], ["--temperature", 1, "--seed", length]):
                with self.subTest(length=length, arguments=arguments):
                    command = ["m.heed", "--tokens", 40, *arguments]
                    text = self.text_of(*command, stdin=prompt)
                    self.assertEqual(text, self.text_of(*command, "--no-cache", stdin=prompt))
                    self.assertEqual(len(text), 40)

    def test_a_made_model_continues_what_repeats(self):
        for arguments in (["--seed", 1], ["--seed", 2], ["--layers", 3], ["--type", "bfloat16"]):
            model = self.make("made.heed", *arguments)
            with self.subTest(arguments=arguments):
                self.assertEqual(self.text_of(model, "--prompt", PATTERN, "--tokens", len(FOLLOWS)),
                                 FOLLOWS)
        self.assertEqual(self.text_of(model, "--prompt", PATTERN, "--tokens", 8, "--no-cache"),
                         FOLLOWS[:8])

    def test_every_type_of_cache(self):
        model = self.make()
        for name in ("float32", "float16", "bfloat16", "int8", "fp8"):
            with self.subTest(name):
                self.assertEqual(self.text_of(model, "--cache", name, "--prompt", PATTERN, "--tokens",
                                              len(FOLLOWS)), FOLLOWS)

    def test_continuations_are_what_each_is_alone(self):
        self.written()
        for length in (3, 16, 40):
            command = ["m.heed", "--prompt", "p" * length, "--tokens", 30, "--temperature", 1]
            alone = [self.text_of(*command, "--seed", 7 + i) for i in range(4)]
            self.assertEqual(len(set(alone)), 4)
            for way in ([], ["--no-cache"]):
                with self.subTest(length=length, way=way):
                    self.assertEqual(self.forks_of(4, *command, "--seed", 7, *way), alone)
        self.assertEqual(len(set(self.forks_of(3, "m.heed", "--prompt", "p"))), 1)  # greedy ones

    def test_a_low_temperature_takes_the_likeliest(self):
        self.written()
        text = self.text_of("m.heed", "--prompt", "A prompt.")
        self.assertEqual(text, self.text_of("m.heed", "--prompt", "A prompt.", "--temperature", 0))
        self.assertEqual(text, self.text_of("m.heed", "--prompt", "A prompt.", "--temperature", 1e-38))
        hot = self.text_of("m.heed", "--prompt", "A prompt.", "--temperature", 1e38, "--tokens", 2000)
        self.assertEqual(len(set(hot)), 256)  # each is missed with probability 0.0004

    def test_threads_change_nothing(self):
        self.written()
        command = ["m.heed", "--temperature", 1, "--prompt", "threads " * 50, "--tokens", 50]
        text = self.text_of(*command, "--threads", 1)
        self.assertEqual(text, self.text_of(*command, "--threads", 3))
        self.assertEqual(text, self.text_of(*command, HEED_THREADS="2"))

    def test_models_are_made_from_seeds(self):
        for arguments in ([], ["--type", "bfloat16"], ["--layers", 3]):
            contents = []
            for seed in ([], ["--seed", 1], ["--seed", 2]):
                self.make("m.heed", *arguments, *seed)
                contents.append(self.read("m.heed"))
            self.assertEqual(contents[0], contents[1])
            self.assertNotEqual(contents[1], contents[2])
            self.assertEqual(len(contents[1]), len(contents[2]))
