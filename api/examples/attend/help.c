#include <stdio.h>

#include "options.h"

static const char before_names[] =
    "Usage: attend --query FILE --key FILE --value FILE --out FILE [OPTION...]\n"
    "\n"
    "Computes out = softmax(scale * query key^T) value for tensors in .npy files and reports\n"
    "the time it takes.\n"
    "\n"
    "Tensors (float16 and float32 in any mix, or float64; C order) have the axes [batch, heads, "
    "length,\n"
    "features]; the first, or the first two, may be missing in all of them. There may be fewer\n"
    "heads of keys and values than of queries, if their number divides that of the queries: each\n"
    "then serves a group. A query of one axis is a single vector for keys of two.\n"
    "\n"
    "  --query FILE          queries\n"
    "  --key FILE            keys\n"
    "  --value FILE          values\n"
    "  --out FILE            where the result goes\n"
    "\n"
    "  --causal WHERE        row i attends key j only if j <= i + offset; WHERE is that offset,\n"
    "                        or top-left for 0, or bottom-right for keys - rows\n"
    "  --scale X             factor of the scores, not 0 (default: 1 / sqrt(features))\n"
    "\n"
    "  --map HEAD            shows the weights of one head (of the first batch) as a heat map: a "
    "row of\n"
    "                        cells for each row, shaded relative to its largest weight\n"
    "  --rows FIRST,LAST     these rows of it, both included\n"
    "  --tokens FILE         the words of the keys, one a line; of the rows, too, if there are\n"
    "                        as many\n"
    "\n"
    "  --expect FILE         compare the result with this tensor\n"
    "  --tolerance X         the largest absolute difference to accept (default: 1e-5)\n"
    "\n"
    "  --isa NAME            instruction set, here one of:";

static const char after_names[] =
    "\n"
    "  --threads N           how many threads (default: the CPUs this process may use)\n"
    "  --repeat N            timed runs, after one that is not (default: 20)\n"
    "  --quiet               no report, only the map and errors\n"
    "  -h, --help            print this text\n"
    "\n"
    "Exit status: 0 if all went well, 1 if a file, the computation or the comparison failed,\n"
    "2 for a wrong command line. NaN in the result is said on stderr and is no failure. A result\n"
    "replaces no other file of the command line. The HEED_* environment variables of heed.h work\n"
    "here too.\n"
    "A map has colours on a terminal unless NO_COLOR is set, else characters; COLUMNS sets its\n"
    "width.\n"
    "\n"
    "Example: a language model's attention, compared with the model's own result, and what the\n"
    "words of a sentence attend\n"
    "  attend --query minilm_layer3_q.npy --key minilm_layer3_k.npy \\\n"
    "         --value minilm_layer3_v.npy --out out.npy --expect minilm_layer3_out.npy \\\n"
    "         --map 1 --rows 87,103 --tokens minilm_tokens.txt\n";

void attend_print_help(void) {
  fputs(before_names, stdout);
  for (size_t i = 0; i < heed_isa_count(); ++i) {
    heed_isa_info isa = HEED_ISA_INFO_INIT;
    if (heed_isa_get(i, &isa) == HEED_STATUS_OK && isa.usable) printf(" %s", isa.name);
  }
  printf("\n  --executor NAME       what runs the threads, here one of:");
  for (size_t i = 0; i < heed_executor_count(); ++i) printf(" %s", heed_executor_name(i));
  fputs(after_names, stdout);
}
