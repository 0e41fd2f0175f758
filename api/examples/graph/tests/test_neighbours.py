import math
import os
import random
import re

from npy_files import npy, read_npy
from program import ProgramTest

GRAPH = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # of the data
KARATE = os.path.join(GRAPH, "karate.txt")
DOLPHINS = "# who\tis seen with whom\n\nGrin\tHook\nGrin\tScabs\r\n  Scabs \t Hook\n\nHook\tGrin\n"


def attention(edges, rows, scale, nodes=None, factors=None):
    """The weights of the nodes' sources, and the blended rows; a repeated edge counts once, with its
    first factor."""
    first = dict(reversed(list(zip(edges, factors or [1] * len(edges)))))
    weights, blends = {}, {}
    for to in nodes or rows:
        row = rows[to]
        sources = list(dict.fromkeys(m for m, n in edges if n == to))
        scores = [scale * math.fsum(map(float.__mul__, rows[m], row)) for m in sources]
        powers = [first[m, to] * math.exp(s - max(scores)) for m, s in zip(sources, scores)]
        weights[to] = {m: p / math.fsum(powers) for m, p in zip(sources, powers)}
        blends[to] = [math.fsum(w * rows[m][x] for m, w in weights[to].items())
                      for x in range(len(row))]
    return weights, blends


def circles(edges):
    """A row for each node: 1 at itself and at its sources."""
    nodes = sorted({node for edge in edges for node in edge})
    known = {node: {node} for node in nodes}
    for m, n in edges:
        known[n].add(m)
    return {node: [float(other in known[node]) for other in nodes] for node in nodes}


def both_ways(edges):
    return edges + [(n, m) for m, n in edges]


class Neighbours(ProgramTest):
    def listed(self, output):
        """The neighbours and weights, of which three decimals are shown."""
        lines = re.findall(r"^  ..(\d\.\d{3})..  (.+)$", output, re.MULTILINE)
        return {name: float(weight) for weight, name in lines if not name.startswith("the other")}

    def check_listed(self, output, weights):
        listed = self.listed(output)
        self.assertEqual(list(listed.values()), sorted(listed.values(), reverse=True))
        self.assertEqual(len(listed), len(weights))
        for name, weight in weights.items():
            self.assertAlmostEqual(listed[name], weight, delta=0.000501)

    def karate(self):
        with open(KARATE, encoding="utf-8") as file:
            lines = [line.split() for line in file if not line.startswith("#")]
        return [(int(a), int(b)) for a, b in lines]

    def test_karate(self):
        """Exactly what the definition gives, for every member."""
        edges = both_ways(self.karate())
        self.assertEqual((len(edges), len(set(edges))), (156, 156))
        weights, _ = attention(edges, circles(edges), 0.5)
        for member in (1, 2, 3, 12, 33, 34):
            output = self.output_of(KARATE, "--undirected", "--node", member, "--top", 34)
            self.check_listed(output, {str(m): w for m, w in weights[member].items()})

    def test_names(self):
        self.write("d.txt", DOLPHINS)
        edges = [("Grin", "Hook"), ("Grin", "Scabs"), ("Scabs", "Hook"), ("Hook", "Grin")]
        weights, _ = attention(edges, circles(edges), 3)
        output = self.output_of("d.txt", "--node", "Hook", "--scale", 3)
        self.assertIn("3 nodes, 4 edges, at most 2 into", output)
        self.check_listed(output, weights["Hook"])
        self.assertIn("Hook attends to 2", self.output_of("d.txt"))  # it has the most

    def test_weighted_edges(self):
        """A weight multiplies e^score: whatever separates the fields, one without it has 1, an edge
        of 0 is none, and --unweighted leaves out all that follows the nodes."""
        edges = [(1, 2), (3, 2), (4, 2), (2, 1), (1, 2)]
        factors = [2.5, 1, 0.125, 7, 9]
        rows = circles(edges)
        weights, _ = attention(edges, rows, 0.5, [2], factors)
        plain, _ = attention(edges, rows, 0.5, [2])
        for text in ("1 2 2.5\n3 2\n4  2   .125\n2 1 7\n1 2 9\n5 2 0\n",
                     "1,2,2.5\n3,2\n4 , 2 , 125e-3\n2,1,7\n1,2,9\n5,2,0.0\n",
                     "% MatrixMarket\n1\t2\t2.5\n3\t2\n4\t2\t.125\n2\t1\t7\n1\t2\t9\n5\t2\t0\n"):
            self.write("e.txt", text)
            with self.subTest(text=text):
                output = self.output_of("e.txt", "--node", 2)
                self.assertIn("5 nodes, 4 edges, at most 3 into", output)
                self.check_listed(output, {str(m): w for m, w in weights[2].items()})
        self.write("e.txt", "1 2 -2.5 1234567\n3 2\n4 2 x y z\n2 1\n")
        output = self.output_of("e.txt", "--node", 2, "--unweighted")
        self.check_listed(output, {str(m): w for m, w in plain[2].items()})
        names = {1: "Ann, A.", 2: "Bo", 3: "Cy", 4: "Di"}
        self.write("n.txt", "".join(f"{names[a]}\t{names[b]}\t{w}\n"
                                    for (a, b), w in zip(edges, factors)))
        self.check_listed(self.output_of("n.txt", "--node", "Bo"),
                          {names[m]: w for m, w in weights[2].items()})
        self.write("n.csv", "\ufeffCy,Bo\r\nBo, Cy ,3\r\n")
        self.assertEqual(self.listed(self.output_of("n.csv", "--node", "Cy")), {"Bo": 1})

    def test_not_a_number(self):
        """It is said, and is no failure; neighbours whose weights are NaN come last."""
        self.write("e.txt", "1 2\n3 2\n3 1\n")
        self.write("f.npy", npy((3, 1), [1.0, 2.0, math.nan]))
        result = self.run_program("e.txt", "--features", "f.npy", "--node", 1, "--dot", "g.dot")
        self.assertEqual(result.returncode, 0)
        self.assertEqual(result.stderr, "neighbours: the result has NaN, 2 of its 3 numbers; look "
                                        "for NaN or infinity in f.npy\n")
        self.assertIn("nan", result.stdout)
        with open(self.path("g.dot"), encoding="utf-8") as file:
            self.assertIn('tooltip="nan"', file.read())

    def test_results_replace_no_input(self):
        self.write("e.txt", "0 1\n")
        self.write("f.npy", npy((2, 1), [1.0, 2.0]))
        os.link(self.path("f.npy"), self.path("same.npy"))
        contents = lambda: [self.read(name) for name in ("e.txt", "f.npy")]
        before = contents()
        for option, path, other in (("--out", "e.txt", "EDGES"), ("--dot", "./e.txt", "EDGES"),
                                    ("--out", "f.npy", "--features"),
                                    ("--dot", "same.npy", "--features"),
                                    ("--out", "new.dot", "--dot")):
            with self.subTest(option=option, path=path):
                more = ["--dot", "new.dot"] if other == "--dot" else []
                result = self.run_program("e.txt", "--features", "f.npy", option, path, *more)
                self.assert_fails(result, 2, f"{option} is {path}, the file of {other}")
                self.assertEqual(contents(), before)
        self.output_of("e.txt", "--out", "/dev/null", "--dot", "/dev/null")

    def test_features_from_a_file(self):
        """Rows by number, whatever the order of the edges; duplicates count once."""
        edges = [(30, 7), (7, 7), (100, 30), (30, 7), (100, 7), (7, 100)]
        rows = {7: [1.0, 0.5, -2.0], 30: [0.25, 3.0, 1.0], 100: [-1.0, 2.0, 0.5]}
        self.write("e.txt", "".join(f"{a} {b}\n" for a, b in edges))
        self.write("f.npy", npy((3, 3), sum(rows.values(), [])))
        weights, blends = attention(edges, rows, 1 / math.sqrt(3))
        output = self.output_of("e.txt", "--features", "f.npy", "--node", 7, "--out", "out.npy")
        self.check_listed(output, {str(m): w for m, w in weights[7].items()})
        shape, values = read_npy(self.path("out.npy"))
        self.assertEqual(shape, (3, 3))
        for got, wanted in zip(values, sum(blends.values(), []), strict=True):
            self.assertAlmostEqual(got, wanted, delta=1e-5)

    def test_random_signs(self):
        """In graphs larger than the width, scores are near the exact ones. The product of the rows
        of two circles a and b, over the width, has a variance of at most |a| |b| / width; six
        standard deviations and what printing three decimals hides are allowed."""
        choose = random.Random(3)
        nodes, scale = 1500, 0.5
        edges = [(n, (n + 1) % nodes) for n in range(nodes)]
        edges += [(choose.randrange(nodes), choose.randrange(40)) for _ in range(300)]
        self.write("e.txt", "".join(f"{a}\t{b}\n" for a, b in edges))
        known = circles(edges)
        sizes = {node: sum(row) for node, row in known.items()}
        weights, _ = attention(edges, known, scale, [5])
        signs = ["--width", nodes - 1, "--top", nodes, "--node", 5]
        listed = self.listed(self.output_of("e.txt", *signs))
        exact = {str(m): w for m, w in weights[5].items()}
        self.assertEqual(set(listed), set(exact))
        largest = max(exact, key=exact.get)
        for name, weight in listed.items():
            deviations = sum(math.sqrt(sizes[5] * sizes[int(n)] / (nodes - 1))
                             for n in (name, largest))
            hidden = 0.0005 / weight + 0.0005 / listed[largest]
            self.assertAlmostEqual(math.log(weight / listed[largest]),
                                   math.log(exact[name] / exact[largest]),
                                   delta=6 * scale * deviations + 2 * hidden)
        self.assertNotEqual(listed, self.listed(self.output_of("e.txt", *signs, "--seed", 2)))

    def test_picture(self):
        self.output_of(KARATE, "--undirected", "--dot", "k.dot")
        with open(self.path("k.dot"), encoding="utf-8") as file:
            text = file.read()
        self.assertEqual(text.count(" -> "), 156)
        self.assertEqual(text.count("{"), text.count("}"))
        self.write("q.txt", 'say "no"\tback\\slash\n')
        self.output_of("q.txt", "--dot", "q.dot")
        with open(self.path("q.dot"), encoding="utf-8") as file:
            self.assertIn('"say \\"no\\"" -> "back\\\\slash" [penwidth=4.00', file.read())

    def test_malformed_lines(self):
        for text, line, *words in (
                ("1 2\n# fine\n\n3\n", 4, "'3'", "two integers"),
                ("1 2\n1 2 3 4\n", 2, "more than two nodes and a weight"),
                ("1 x\n", 1, "'1 x'"), ("1 2.5\n", 1, "two integers"),
                ("a b\n", 1, "tab or comma between"), ("1;2\n", 1, "two integers"),
                ("1 99999999999999999999\n", 1, "two integers"),
                ("a\tb\tc\n", 1, "a weight that is not"), ("1,2,\n", 1, "a weight that is not"),
                ("1 2 -1\n", 1, "at least 0", "--unweighted"), ("1 2 nan\n", 1, "at least 0"),
                ("1 2 inf\n", 1, "at least 0"), ("a,b,weight\n", 1, "a heading begins with #"),
                ("source,target\n1,2\n2,3\n", 1, "'source,target'", "looks like a heading"),
                ("a\tb\tc\td\n", 1, "more than two nodes"), ("a\t\n", 1, "without a name"),
                (",b\n", 1, "without a name"), ("\tb\n", 1, "without a name"),
                (b"1 2\n1\x00 2\n", 2, "a byte that is 0"),
                ("1 2\n" + 100 * "x" + "\n", 2, 60 * "x" + "...'"),
                ("1 2\n\x1b[31m\n", 2, "' [31m'"), ("1 2\n1 2", 0)):
            with self.subTest(text=text):
                self.write("e.txt", text)
                if line == 0:  # a last line without its end is a line
                    self.output_of("e.txt")
                else:
                    self.assert_fails(self.run_program("e.txt"), 1, "e.txt", f"line {line},", *words)

    def test_integers_are_nodes_by_value(self):
        self.write("e.txt", "007 8\n+7\t8\n 10  8 \n-3\t8\n")
        output = self.output_of("e.txt")
        self.assertIn("4 nodes, 3 edges", output)
        self.assertEqual(set(self.listed(output)), {"7", "10", "-3"})

    def test_files(self):
        self.write("e.txt", "0 1\n1 2\n")
        self.write("none.txt", "# nothing\n")
        self.write("empty.txt", "")
        self.write("zero.txt", "0 1 0\n")
        self.write("f.npy", npy((2, 4)))
        self.write("flat.npy", npy((3,)))
        self.write("text.npy", "text")
        for arguments, *words in (
                (["missing.txt"], "missing.txt: cannot be opened"),
                (["."], "cannot be read"),
                (["none.txt"], "none.txt: it has no edges"),
                (["empty.txt"], "empty.txt: it has no edges"),
                (["zero.txt"], "zero.txt: it has no edges"),
                (["e.txt", "--features", "empty.txt"], "empty.txt: empty"),
                (["e.txt", "--node", "3"], "--node is '3'"),
                (["e.txt", "--features", "f.npy"], "f.npy", "[2, 4], not [3, features]"),
                (["e.txt", "--features", "flat.npy"], "flat.npy", "[3], not [3, features]"),
                (["e.txt", "--features", "text.npy"], "not an npy file"),
                (["e.txt", "--out", os.path.join("missing", "o.npy")], "o.npy")):
            with self.subTest(arguments=arguments):
                self.assert_fails(self.run_program(*arguments), 1, *words)

    def test_usage(self):
        self.assertIn("Usage: neighbours EDGES", self.output_of("--help"))
        for arguments, *words in (
                ([], "EDGES", "missing"), (["a", "b"], "unexpected", "'b'"),
                (["a", "--top", "0"], "--top is 0", "1 ... "), (["a", "--node"], "needs a value"),
                (["a", "--scale", "-1"], "above 0"),
                (["a", "--scale", "1e300"], "1e-38 ... 1e38"), (["a", "--undirected=yes"], "takes no value"),
                (["a", "--width", "0"], "1 ... 65536"), (["a", "--up"], "unknown", "'--up'")):
            with self.subTest(arguments=arguments):
                self.assert_fails(self.run_program(*arguments), 2, *words, "neighbours --help")
