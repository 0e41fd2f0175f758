import os
import re

from program import ProgramTest

CLUB = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "karate.txt")


class Factions(ProgramTest):
    """What is learned from two labels, and what is refused."""

    def test_nearly_everybody_is_found(self):
        for seed in (1, 2, 3):
            output = self.output_of(CLUB, "--seed", seed)
            right = [int(n) for n in re.findall(r"(\d+) of 34 on their side", output)]
            self.assertEqual(len(right), 2, output)
            self.assertGreaterEqual(right[1], 32, output)
            self.assertGreater(right[1], right[0], output)
            losses = [float(x) for x in re.findall(r"loss ([.\d]+)", output)]
            self.assertEqual(losses, sorted(losses, reverse=True))
            self.assertLess(losses[-1], 0.05)

    def test_bits_do_not_depend_on_threads(self):
        wanted = self.output_of(CLUB, HEED_THREADS="1")
        self.assertEqual(self.output_of(CLUB, HEED_THREADS="3"), wanted)

    def test_without_rounds_nothing_is_learned(self):
        before, after = re.findall(r"(\d+) of 34", self.output_of(CLUB, "--rounds", 0))
        self.assertEqual(before, after)

    def test_refusals(self):
        self.assert_fails(self.run_program(), 2, "FILE")
        self.assert_fails(self.run_program("missing.txt"), 1, "missing.txt")
        self.write("two.txt", "1 2\n")
        self.assert_fails(self.run_program("two.txt"), 1, "it has 2 nodes; the club has 34 members")
        self.assert_fails(self.run_program(CLUB, "--rounds", "-1"), 2, "--rounds")
