#!/usr/bin/env python3
"""Doctored READMEs, and what must be said about each: self_test.py SOURCE BUILD"""

import sys
import tempfile

sys.dont_write_bytecode = True
import run

FORM = """# A README

A [link](api/heed.h), another [one](#more), [one there](CONTRIBUTING.md#house-rules) and [a site](https://example.org).

| a | b |
| --- | --- |
| 1 | 2 |

## More

```text
anything
```
"""

COMMANDS = """```sh
cd api
WORDS="some words"   # stay
```

```text
$ echo $WORDS; \\
  basename $PWD
some words
api
```

```text
$ printf 'time       1 ms\\nfirst\\nsecond\\n'
time       2 ms, on another machine
...
second
```
"""

C = """```c
#include <heed.h>

int main(void) { return heed_isa_count() == 0; }
```

```text
```
"""

CMAKE = C + """
```cmake
find_package(heed REQUIRED)
add_executable(embed embed.c)
target_link_libraries(embed PRIVATE heed::heed)
```
"""

PYTHON = """```python
print(open("api/heed.h").read()[:7])
```

```text
/* heed
```
"""

# A good README, what is replaced in it, by what, and what is said then.
DOCTORED = [
    (FORM, "(api/heed.h)", "(api/head.h)", "nowhere: api/head.h"),
    (FORM, "(#more)", "(#less)", "nowhere: #less"),
    (FORM, "#house-rules", "#hose-rules", "nowhere: CONTRIBUTING.md#hose-rules"),
    (FORM, "\n## More", "## More", "a heading without empty lines"),
    (FORM, "## More\n", "## More", "a heading without empty lines"),
    (FORM, "## More", "| 3 | 4 |\n\n## More", "a row outside a table"),
    (FORM, "## More", "    ./dev run\n\n## More", "a command outside a block"),
    (FORM, "## More", 2 * (61 * "x" + "\n") + "\n## More", "a line said twice"),
    (COMMANDS, "cd api", "cd apy", "line 2, cd apy: it fails"),
    (COMMANDS, "cd api", "cd api\nfalse | cat; false", "line 3, false | cat; false: it fails"),
    (COMMANDS, "some words\napi", "some words\nper", "it prints"),
    (COMMANDS, "some words\napi", "some words", "it prints"),
    (COMMANDS, "...\nsecond", "...\nfirst", "it prints"),
    (COMMANDS, "...\nsecond", "second\n...", "it prints"),
    (COMMANDS, "time       2", "size       2", "it prints"),
    (C, "== 0; }", "!= 0; }", "the program fails"),
    (C, "heed_isa_count()", "heed_isa_cuont()", "the program fails"),
    (C, "text\n", "text\nwords\n", "the program prints"),
    (CMAKE, "heed::heed", "heed::head", "fails"),
    (PYTHON, "api/heed.h", "api/head.h", "it fails"),
    (PYTHON, "/* heed", "/* head", "it prints"),
]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        return run.markdown.told(faults_of_all(run.Session(*sys.argv[1:], folder)))


def faults_of_all(session):
    check = lambda text: run.faults_of(text, "X.md", session)
    faults = [f"a good README: {fault}" for good in (FORM, COMMANDS, CMAKE, PYTHON)
              for fault in check(good)]
    for good, old, new, said in DOCTORED:
        found = check(good.replace(old, new, 1))
        if not any(said in fault for fault in found):
            faults.append(f"with {new!r} for {old!r} a README passes: {found}")
    run.RULES.append(("X.md", "^make", None, "is not there"))
    if check(COMMANDS) != ["a rule without a command: ^make"]:
        faults.append("a rule that nothing needs passes")
    return faults


if __name__ == "__main__":
    sys.exit(main())
