#!/usr/bin/env python3
"""Compares the reference, api/docs/reference, with heed.h: every option is explained, and nothing that
does not exist.

    check_readme.py COMPILER [ARGUMENT...]

Its pages are read together, except that of MPI, which has a header of its own, and that of CMake's
settings. Code is what stands in
backquotes or in ```c blocks. In it
  - every function and enumerator of heed.h appears, and every field of the structs in PREFIXES,
    as in `desc.softcap`; every _INIT macro in the list of them;
  - every page is listed in api/README.md;
  - every heed_ or HEED_ name is one of heed.h;
  - every ```c block compiles as C99: a whole program if it has a main, declarations if it has a
    function, otherwise statements in the surroundings below.
Doctored pages must fail these checks. tests/readmes runs the programs, and follows the links.
"""
import glob
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
API = os.path.normpath(os.path.join(HERE, "../../api"))
sys.path.insert(0, os.path.normpath(os.path.join(HERE, "../readmes")))
import markdown

# The structs that callers fill in or read, and what the pages call a variable of each.
PREFIXES = {
    "heed_attention_desc": "desc.",
    "heed_attention_args": "args.",
    "heed_merge_desc": "merge.",
    "heed_rotate_desc": "rotation.",
    "heed_rotary": "rotary.",
    "heed_context_options": "options.",
    "heed_score_tile": "tile.",
    "heed_layout": "",
    "heed_score_layout": "",
    "heed_matrix_layout": "",
    "heed_weights_desc": "matrix.",
    "heed_project_desc": "rows.",
    "heed_multihead_desc": "block.",
    "heed_multihead_args": "block_args.",
    "heed_multihead_backward_desc": "block_backward.",
    "heed_multihead_backward_args": "block_grads.",
    "heed_cache_desc": "cache_desc.",
    "heed_cache_append_desc": "append.",
    "heed_cache_attention_desc": "attend.",
    "heed_graph_desc": "edges.",
    "heed_graph_attention_desc": "layer.",
    "heed_graph_attention_args": "layer_args.",
    "heed_graph_attention_backward_desc": "layer_backward.",
    "heed_graph_attention_backward_args": "layer_grads.",
}
EVERYWHERE = ("struct_size", "reserved")  # explained once for all structs

HEADERS = "#include <heed.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n"
SURROUNDINGS = HEADERS + """
static void fragment(const heed_context* context, int64_t B, int64_t Hq, int64_t Hkv, int64_t Lq,
              int64_t Lkv, int64_t D, int64_t W, const float* qkv, float* q, const float* key,
              const float* value, float* out, float* out_a, float* out_b, float* lse_a,
              float* lse_b, const uint8_t* padding, const void* additive, const int32_t* lengths,
              const int32_t* offsets, int64_t sequences, int64_t total, int64_t longest,
              const float* grad_out, float* grad_query, float* grad_key, float* grad_value,
              float* grad_w_query, float* grad_b_query, void* kept, size_t kept_bytes,
              const float* x, const float* in_proj_weight, const float* in_proj_bias,
              const float* out_proj_weight, const float* out_proj_bias, const float* w_qkv,
              int64_t N, const int64_t* edge_index, heed_graph* graph, heed_cache* cache,
              heed_cache* other_cache, heed_sequence sequence, const heed_sequence* ids, int64_t S,
              int64_t layer_number) {
heed_attention_desc desc = HEED_ATTENTION_DESC_INIT;
heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
heed_multihead_desc block = HEED_MULTIHEAD_DESC_INIT;
heed_multihead_args block_args = HEED_MULTIHEAD_ARGS_INIT;
heed_graph_desc edges = HEED_GRAPH_DESC_INIT;
heed_graph_attention_desc layer = HEED_GRAPH_ATTENTION_DESC_INIT;
heed_graph_attention_args layer_args = HEED_GRAPH_ATTENTION_ARGS_INIT;
"""
UNUSED = (
    "(void)desc; (void)args; (void)block; (void)block_args; (void)edges; (void)layer;"
    " (void)layer_args; }\n"
)


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


# ---- heed.h -----------------------------------------------------------------------------------

HEADER = text_of(os.path.join(API, "heed.h"))
DECLARATIONS = re.sub(r"/\*.*?\*/", "", HEADER, flags=re.DOTALL)


def functions():
    return re.findall(r"^HEED_API [^;(]*?\b(heed_\w+)\(", DECLARATIONS, re.MULTILINE)


def enumerators():
    bodies = re.findall(r"typedef enum \w+ \{(.*?)\}", DECLARATIONS, re.DOTALL)
    return [name for body in bodies for name in re.findall(r"\bHEED_\w+", body)]


def initialisers():
    return re.findall(r"^#define (HEED_\w+_INIT)\b", DECLARATIONS, re.MULTILINE)


def fields(struct):
    body = re.search(r"typedef struct " + struct + r" \{(.*?)\} " + struct + ";", DECLARATIONS,
                     re.DOTALL).group(1)
    return [re.findall(r"\w+", declaration)[-1] for declaration in body.split(";")
            if declaration.strip()]


def expected():
    """What must appear in the code of the pages."""
    names = functions() + enumerators() + list(PREFIXES)
    for struct, prefix in PREFIXES.items():
        names += [field if field in EVERYWHERE else prefix + field for field in fields(struct)]
    return names


# ---- The reference ----------------------------------------------------------------------------

def pages():
    return [path for path in sorted(glob.glob(os.path.join(API, "docs", "reference", "*.md")))
            if os.path.basename(path) not in ("mpi.md", "c_mpi.md", "build.md")]



def blocks(readme):
    return [block.text for block in markdown.blocks_of(readme) if block.kind == "c"]


def code(readme):
    prose = markdown.without_blocks(readme).replace("```", "")
    return "\n".join(blocks(readme) + re.findall(r"`([^`]+)`", prose))


def name_faults(readme):
    known = set(re.findall(r"\b(?:heed|HEED)_\w+", HEADER))
    here = code(readme)
    faults = [f"{name} is in heed.h but not explained" for name in expected()
              if not re.search(r"\b" + re.escape(name) + r"\b", here)]
    for name in sorted(set(re.findall(r"\b(?:heed|HEED)_\w+", readme)) - known):
        faults.append(f"{name} is not in heed.h")
    for struct, prefix in PREFIXES.items():
        for field in sorted(set(re.findall(r"\b" + re.escape(prefix) + r"(\w+)", here))):
            if prefix and field not in fields(struct):
                faults.append(f"{prefix}{field} is not in heed.h")
    return faults


def list_faults(readme):
    _, *sections = re.split(r"^## (.*)$", readme, flags=re.MULTILINE)
    macros = sections[sections.index("Structs and their sizes") + 1]
    return [f"{name} is not in the list of macros" for name in initialisers()
            if f"`{name}`" not in macros]


def contents_faults(contents):
    """Every page of api/docs is in the list of all."""
    found = glob.glob(os.path.join(API, "docs", "**", "*.md"), recursive=True)
    return [f"api/README.md lacks {path}" for path in sorted(os.path.relpath(page, API) for page in found)
            if f"]({path})" not in contents]


def compile_faults(readme, compiler):
    faults = []
    for number, block in enumerate(blocks(readme), 1):
        if "int main(" in block:
            source = block
        elif re.search(r"^static ", block, re.MULTILINE):
            source = HEADERS + block
        else:
            source = SURROUNDINGS + block + UNUSED
        made = subprocess.run(
            [*compiler, "-std=c99", "-Wall", "-Wpedantic", "-Werror", "-Wno-unused-function", "-fsyntax-only",
             "-I", API, "-x", "c", "-"],
            input=source, capture_output=True, text=True, check=False)
        if made.returncode != 0:
            faults.append(f"C block {number} does not compile:\n{made.stderr}")
    return faults


def faults_of(readme, compiler):
    return name_faults(readme) + list_faults(readme) + compile_faults(readme, compiler)


def self_test(readme, compiler):
    """Doctored READMEs, and what must be said about each."""
    doctored = {
        "desc.softcap is in heed.h but": readme.replace("desc.softcap", "softcap"),
        "block.combine is in heed.h but": readme.replace("block.combine", "combine"),
        "layer.steps is in heed.h but": readme.replace("layer.steps", "steps"),
        "HEED_MERGE_DESC_INIT is not in the list": readme.replace("`HEED_MERGE_DESC_INIT`", ""),
        "HEED_CAUSAL_OFFSET is in heed.h but": readme.replace("HEED_CAUSAL_OFFSET", "OFFSET"),
        "heed_atend is not in heed.h": readme + "\n`heed_atend`\n",
        "args.mist is not in heed.h": readme + "\n`args.mist`\n",
        "does not compile": readme + "\n```c\ndesc.softcop = 1;\n```\n",
        "aligned_alloc": readme + "\n```c\nfree(aligned_alloc(64, 64));\n```\n",
    }
    return [f"a doctored README passes: {said}" for said, text in doctored.items()
            if not any(said in fault for fault in faults_of(text, compiler))]


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    compiler = sys.argv[1:]
    readme = "\n".join(text_of(path) for path in pages())
    contents = text_of(os.path.join(API, "README.md"))
    faults = faults_of(readme, compiler) + self_test(readme, compiler) + contents_faults(contents)
    if not contents_faults(contents.replace("(docs/reference/keys.md)", "()")):
        faults.append("a page that is not listed passes")
    for fault in faults:
        print(f"api/docs: {fault}", file=sys.stderr)
    print(f"{len(expected())} names, {len(blocks(readme))} blocks of C")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
