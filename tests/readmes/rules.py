"""Commands of READMEs that do not run as they stand there: README, what is replaced in a command, by
what, and why. None leaves the command out. A rule that nothing needs is a fault."""

SCALAR = ("-DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 -DHEED_ISAS=scalar "
          "-DHEED_BUILD_EXAMPLES=OFF")
BRIEF = "--benchmark_repetitions=2 --benchmark_min_time=0.001"
PACKAGES = "needs root, or gigabytes of packages"
MINUTES = "takes minutes: less of the same"
WHEEL = "./dev wheel does, and takes minutes"
DOCS = "api/docs"

# Without these a README is left out as a whole.
NEEDS = {"perf/README.md": "build/release/perf/heed_perf", "tests/emulation/README.md": "bochs"}

RULES = [
    ("README.md", r"^\./dev (run|test)", None, "runs this test; ./dev run is on the page of the start"),
    ("README.md", r"^pip install", None, WHEEL),
    (f"{DOCS}/start.md", r"^(pip install|python3 -m venv)", None, WHEEL),
    (f"{DOCS}/start.md", r"^(cmake |\./build/embed)", None, "takes minutes; build.md's and the program run"),
    (f"{DOCS}/reference/build.md", r"^cmake -S \. -B build\b", rf"\g<0> {SCALAR}", MINUTES),
    (f"{DOCS}/reference/build.md", r"/usr/local", "$PREFIX", PACKAGES),
    (f"{DOCS}/reference/build.md", r"^cc .*pkg-config", r"! command -v pkg-config >/dev/null || \g<0>",
     "needs pkg-config, which heed does not"),
    (f"{DOCS}/reference/build.md", r"^\./embed", r"[ ! -e embed ] || \g<0>", "the same"),
    ("CONTRIBUTING.md", r"^\./dev (?!help)", None, "builds everything, runs this test, or needs git"),
    ("api/examples/README.md", r"^PREFIX=/usr/local", "PREFIX=$PREFIX", PACKAGES),
    ("api/examples/README.md", r"^dot ", "command -v dot >/dev/null && dot ",
     "needs Graphviz, which heed does not"),
    ("tests/data/README.md", r"^(python3 -m venv|\S+/pip|\S+/python) .*", None, PACKAGES),
    ("tests/fuzz/README.md", r"^(\./dev|build/sanitizers/).*", None, "needs the fuzz build, and takes minutes"),
    ("tests/emulation/README.md", r"^apt-get .*", None, PACKAGES),
    ("tests/emulation/README.md", r"^(eval .*bochs3|.*sapphire_rapids).*", None, PACKAGES),
    ("perf/README.md", r"^\S+heed_perf --ranks .*", "[ ! -e build/release/perf/heed_perf_mpi ] || "
     "build/release/perf/heed_perf "
     "--ranks 1,2 --benchmark_repetitions=1 --shape B1_H2_L64_D8_causal", MINUTES),
    ("perf/README.md", r"^\S+heed_perf(?!.*--(benchmark_filter|shape|forms|backward|blocks|graphs|decode))",
     r"\g<0> --benchmark_filter=B1_H1_L10_D20/", MINUTES),
    ("perf/README.md", r"^\S+heed_perf(?= --forms +#)", r"\g<0> --benchmark_filter=_causal/", MINUTES),
    ("perf/README.md", r"^\S+heed_perf(?= --backward +#)", r"\g<0> --benchmark_filter=L10_D20/", MINUTES),
    ("perf/README.md", r"^\S+heed_perf(?= --backward --blocks +#)",
     r"\g<0> --benchmark_filter=B1_H12_L128_", MINUTES),
    ("perf/README.md", r"^\S+heed_perf(?= --backward --graphs +#)",
     r"\g<0> --benchmark_filter=er_N10000_deg8_H4_D16/", MINUTES),
    ("perf/README.md", r"^\S+heed_perf(?= --blocks +#)",
     r"\g<0> --benchmark_filter=B1_H12_L128_D64_W768/", MINUTES),
    ("perf/README.md", r"^\S+heed_perf(?= --graphs +#)", r"\g<0> --benchmark_filter=er_N10000_deg8_",
     MINUTES),
    ("perf/README.md", r"^\S+heed_perf(?= --decode +#)", r"\g<0> --benchmark_filter=Lkv128_D128/",
     MINUTES),
    ("perf/README.md", r"^\S+heed_perf(?= --)", rf"\g<0> {BRIEF}", MINUTES),
    ("perf/README.md", r"repetitions=9", "repetitions=1", MINUTES),
    ("perf/README.md", r"attention\.py( --forms| --decode| --workload \S+)?",
     "attention.py --workload B1_H1_L10_D20", MINUTES),
    ("perf/README.md", r"backward\.py( --workload \S+)?", "backward.py --workload B1_H1_L10_D20", MINUTES),
    ("perf/README.md", r"multihead\.py( --workload \S+)?",
     "multihead.py --workload B1_H12_L128_D64_W768", MINUTES),
    ("perf/README.md", r"graph\.py( --workload \S+)?", "graph.py --workload er_N10000_deg8_H4_D16",
     MINUTES),
    ("perf/README.md", r"errors\.py", "errors.py --workload B1_H1_L10_D20", MINUTES),
    ("perf/README.md", r"^python3 perf/scaling.py (?!plot).*",
     r"! python3 -c 'import numpy' 2>/dev/null || \g<0> >/dev/null", "needs NumPy, which heed does not"),
    ("perf/README.md", r"^python3 perf/scaling.py plot .*",
     r"! python3 -c 'import numpy, matplotlib' 2>/dev/null || \g<0>", "needs matplotlib"),
    ("perf/README.md", r"--isa avx2", "--isa scalar", "not every machine has it"),
    ("perf/README.md", r"^python3 \S*chart\.py", r"! python3 -c 'import matplotlib' 2>/dev/null || \g<0>",
     "needs matplotlib, which heed does not"),
]
