import math
import os
import re

from model import World
from program import ProgramTest

GRAPH = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # of the pictures


def numbers(text):
    return [float(word) for word in re.findall(r"[-+.0-9e<]+", text.replace("<", ""))]


class Messages(ProgramTest):
    """Everything that is printed is what Python computes from the same random numbers."""

    def check(self, arguments, steps=1, **options):
        output = self.output_of(*arguments, "--steps", steps)
        world = World(**options)
        before = world.lengths()
        for _ in range(steps):
            heard = world.step()
        edges = len(world.edges)
        self.assertTrue(output.startswith(
            f"Graph with {len(world.nodes)} nodes and {edges} edges\n\n"), output)
        blocks = re.findall(r"\+\+\+\+ ito: (\d+)\n\tifroms: \[(.*)\]\n\tscores: \[(.*)\]\n"
                            r"\tAttention weights: \[(.*)\]\n\tsum_i scores_i = (.*)\n", output)
        self.assertEqual([int(block[0]) for block in blocks], list(range(len(world.nodes))))
        for (_, froms, scores, weights, total), node in zip(blocks, heard):
            self.check_node(numbers(froms), scores.split(", ") if scores else [],
                            numbers(weights), float(total), node)
        table = numbers(output.split("before and after\n")[1])
        self.assertEqual(table[::3], list(range(len(world.nodes))))
        for shown, expected in ((table[1::3], before), (table[2::3], world.lengths())):
            for a, b in zip(shown, expected, strict=True):
                self.assertAlmostEqual(a / b, 1, delta=1e-5)

    def check_node(self, froms, scores, weights, total, expected):
        """Scores are printed with 6 decimals; what is wrong with them by 1e-9 of their size (data
        of several steps) is wrong with weights by as much times the size."""
        sources, wanted_scores, wanted_weights = expected
        self.assertEqual(froms, sources)
        self.assertEqual(total, 1 if sources else 0)
        size = max(map(abs, wanted_scores), default=0)
        for shown, wanted in zip(scores, wanted_scores, strict=True):
            if shown.startswith("<"):
                self.assertLess(wanted, float(shown[1:]) + 1)
            else:
                self.assertAlmostEqual(float(shown), wanted, delta=1e-6 + 1e-9 * size)
        for shown, wanted in zip(weights, wanted_weights, strict=True):
            self.assertAlmostEqual(shown, wanted, delta=(1e-8 + 1e-9 * size) * wanted + 1e-300)

    def test_seed_001(self):
        self.check([])
        for seed in (0, 2, 12345678901234567890 % 2**63):
            self.check(["--seed", seed], seed=seed)

    def test_steps(self):
        self.check([], steps=2)
        self.check(["--temperature", 40], steps=3, temperature=40)

    def test_seed_000(self):
        for seed in (1, 5):
            self.check(["--data-times-w", "--features", 2, "--edges", 10, "--keep-duplicates",
                        "--seed", seed], seed=seed, features=2, edges=10, data_times_w=True,
                       keep_duplicates=True)
        self.check(["--data-times-w"], data_times_w=True)

    def test_sizes(self):
        self.check(["--nodes", 1, "--edges", 3], nodes=1, edges=3)
        self.check(["--nodes", 1, "--edges", 3, "--keep-duplicates"], nodes=1, edges=3,
                   keep_duplicates=True)
        self.check(["--edges", 0], edges=0)
        self.check(["--nodes", 3, "--features", 7, "--edges", 30, "--temperature", 2.5], nodes=3,
                   features=7, edges=30, temperature=2.5)

    def test_underflow(self):
        """Scores further apart than double can tell: the weight is 0, and the bound is true."""
        output = self.output_of("--temperature", 0.05)
        self.assertIn("<", output)
        self.check(["--temperature", 0.05], temperature=0.05)

    def test_picture(self):
        """The DOT file has every edge with its width, and the committed SVG shows the same."""
        self.output_of("--dot", "graph.dot")
        world = World()
        widths = {}
        for to, (sources, _, weights) in enumerate(world.step()):
            widths.update({(m, to): f"{0.4 + 3.6 * w:.2f}" for m, w in zip(sources, weights)})
        with open(self.path("graph.dot"), encoding="utf-8") as file:
            edges = re.findall(r"^  (\d+) -> (\d+) \[penwidth=([\d.]+) ", file.read(), re.MULTILINE)
        self.assertEqual({(int(a), int(b)): width for a, b, width in edges}, widths)
        self.assertEqual(len(edges), len(widths))
        with open(os.path.join(GRAPH, "messages.svg"), encoding="utf-8") as file:
            svg = file.read()
        shown = re.findall(r"<title>(\d+)&#45;&gt;(\d+)</title>.*?<path ([^>]*)>", svg, re.DOTALL)
        self.assertEqual(len(shown), len(widths))
        for a, b, path in shown:
            width = re.search(r'stroke-width="([\d.]+)"', path)
            self.assertAlmostEqual(float(width.group(1) if width else 1),
                                   float(widths[int(a), int(b)]), delta=0.011)

    def test_usage(self):
        self.assertIn("Usage: messages", self.output_of("--help"))
        self.assertIn("--data-times-w", self.output_of("-h"))
        for arguments, *words in (
                (["--wrong"], "unknown", "'--wrong'"), (["more"], "unexpected", "'more'"),
                (["--seed"], "--seed needs a value"), (["--seed", "x"], "--seed", "'x'"),
                (["--seed=-1"], "--seed is -1", "0 ... "), (["--steps", "0"], "1 ... 1000000"),
                (["--nodes", "1e3"], "'1e3'"), (["--nodes", "0"], "1 ... "),
                (["--features", "99999999999999999999"], "1 ... 1000"),
                (["--temperature", "0"], "above 0"), (["--temperature", "inf"], "1e-38 ... 1e38"),
                (["--keep-duplicates=1"], "--keep-duplicates takes no value")):
            with self.subTest(arguments=arguments):
                self.assert_fails(self.run_program(*arguments), 2, *words, "messages --help")

    def test_unwritable(self):
        result = self.run_program("--dot", os.path.join("missing", "x.dot"))
        self.assertEqual(result.returncode, 1)
        self.assertIn("x.dot: cannot be written", result.stderr)
