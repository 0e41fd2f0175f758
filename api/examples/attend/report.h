/* What attend prints about a problem and its solution. */
#ifndef HEED_EXAMPLES_ATTEND_REPORT_H
#define HEED_EXAMPLES_ATTEND_REPORT_H

#include "options.h"
#include "problem.h"

void report_problem(const attend_options* options, const attend_problem* problem);
void report_plan(const heed_attention_info* info);

/* After the runs; `seconds` is the time of one. */
void report_result(const attend_options* options, const attend_problem* problem,
                   const heed_attention_info* info, double seconds);

/* Says on stderr how many numbers of the result are NaN, and which inputs they may come from. */
void report_nan(const attend_problem* problem);

#endif /* HEED_EXAMPLES_ATTEND_REPORT_H */
