import re

from program import ProgramTest


class Usage(ProgramTest):
    def losses(self, *arguments, **environment):
        text = self.output_of("--quiet", *arguments, **environment)
        found = re.findall(r"^step +(\d+)   loss (\d+\.\d{4})   right +(\d+\.\d) %$", text,
                           re.MULTILINE)
        self.assertEqual(len(found), len(text.splitlines()), text)
        return [(int(step), float(loss), float(right)) for step, loss, right in found]

    def test_help(self):
        text = self.output_of("--help")
        self.assertIn("Usage: train", text)
        self.assertEqual(text, self.output_of("-h"))
        self.assertLessEqual(max(map(len, text.splitlines())), 100)

    def test_wrong_command_lines(self):
        for arguments, problem in [
                (["a"], "unexpected argument 'a'"),
                (["--fast"], "unknown option '--fast'"),
                (["--steps"], "--steps needs a value"),
                (["--steps", "0"], "--steps is 0, not in 1 ... 1000000"),
                (["--batch", "9x"], "--batch is '9x', not an integer"),
                (["--length", "33"], "--length is 33, not in 1 ... 32"),
                (["--heads", "3"], "--heads is 3, not 1, 2, 4 or 8"),
                (["--heads", "9"], "--heads is 9, not in 1 ... 8"),
                (["--rate", "0"], "--rate is '0', not a number above 0"),
                (["--seed", "-1"], "--seed is -1, not in 0"),
                (["--threads", "0"], "--threads is 0, not in 1 ... 1024"),
                (["--task", "add"], "--task is 'add', not sort, reverse or copy")]:
            with self.subTest(arguments):
                result = self.run_program(*arguments)
                self.assert_fails(result, 2, "train: " + problem)
                self.assertTrue(result.stderr.endswith("\nTry 'train --help'.\n"))

    def test_what_heed_refuses(self):
        self.assert_fails(self.run_program(HEED_ISA="z80"), 1, "HEED_ISA")

    def test_the_loss_falls(self):
        for task in ("sort", "reverse", "copy"):
            with self.subTest(task):
                losses = self.losses("--task", task, "--steps", 300, "--length", 6)
                self.assertEqual([step for step, _, _ in losses], [1, *range(30, 301, 30)])
                self.assertGreater(losses[0][1], 2)
                self.assertLess(losses[-1][1], losses[0][1] / 4)
                self.assertGreater(losses[-1][2], 80)

    def test_seeds(self):
        first = self.losses("--steps", 20, "--seed", 5)
        self.assertEqual(first, self.losses("--steps", 20, "--seed", 5, "--threads", 3))
        self.assertNotEqual(first, self.losses("--steps", 20, "--seed", 6))

    def test_attention_is_drawn_before_and_after(self):
        text = self.output_of("--task", "reverse", "--length", 5, "--heads", 1, "--steps", 400)
        before, after = (part.splitlines() for part in text.split("head by head\n")[1:])
        self.assertEqual(len(before[0].split()), 5)  # the digits
        rows = [line[5:-1] for line in after[1:6]]
        shades = " .:-=+*#%@"
        darkest = [max(range(5), key=lambda j, row=row: shades.index(row[2 * j])) for row in rows]
        self.assertEqual(darkest, [4, 3, 2, 1, 0])
        self.assertNotEqual(rows, [line[5:-1] for line in before[1:6]])
