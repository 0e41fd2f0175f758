"""Commands of READMEs that do not run as they stand there: README, what is replaced in a command, by
what, and why. None leaves the command out. A rule that nothing needs is a fault."""

SCALAR = "-DHEED_ISAS=scalar -DHEED_BUILD_TESTS=OFF -DHEED_BUILD_PERF=OFF -DHEED_BUILD_EXAMPLES=OFF"
ONCE = "--benchmark_repetitions=1 --benchmark_min_time=0.001"
PACKAGES = "needs root, or gigabytes of packages"
MINUTES = "takes minutes: less of the same"

RULES = [
    ("README.md", r"^\./dev test", None, "runs this test"),
    ("README.md", r"^\./dev perf", rf"\g<0> {ONCE} --benchmark_filter=B1_H1_L10_D20/", MINUTES),
    ("README.md", r"^cmake -S \. -B build\b", rf"\g<0> {SCALAR}", MINUTES),
    ("README.md", r"/usr/local", "$PREFIX", PACKAGES),
    ("api/examples/README.md", r"^PREFIX=/usr/local", "PREFIX=$PREFIX", PACKAGES),
    ("api/examples/README.md", r"^dot ", "command -v dot >/dev/null && dot ",
     "needs Graphviz, which heed does not"),
    ("tests/data/README.md", r"^(python3 -m venv|\S+/pip|\S+/python) .*", None, PACKAGES),
    ("tests/emulation/README.md", r"^apt-get .*", None, PACKAGES),
    ("perf/README.md", r"\bheed_perf\b(?! --help)", rf"\g<0> {ONCE}", MINUTES),
    ("perf/README.md", r"_perf (\S+ \S+)( --executor.*| --benchmark_\w+=\S+\.json| --benchmark_format.*)?$",
     r"\g<0> --benchmark_filter=B1_H1_L10_D20/", MINUTES),
]
