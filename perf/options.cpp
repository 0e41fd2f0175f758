#include "perf/options.hpp"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>

#include "perf/contexts.hpp"
#include "perf/graph/workload.hpp"
#include "perf/workload.hpp"
#include "tests/support/calls.hpp"

namespace heed::perf {
namespace {

constexpr int kUsageError = 2;

/// As CLI::Validator wants it: "" or what is wrong.
std::string shape_problem(const std::string& name) {
  try {
    if (names_append(name))
      parse_append_workload(name);
    else
      names_graph(name) ? void(parse_graph_workload(name)) : void(parse_workload(name));
    return {};
  } catch (const std::invalid_argument& problem) {
    return problem.what();
  }
}

std::string lines(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += "  " + name + "\n";
  return list;
}

void declare(CLI::App& app, Options& options) {
  app.allow_extras();
  app.set_help_flag();
  app.add_flag("-h,--help", options.help, "This text, then Google Benchmark's");
  app.add_option("--shape", options.shapes,
                 "Run this shape; repeatable, instead of the standard ones")
      ->type_name("NAME")
      ->allow_extra_args(false)
      ->check(CLI::Validator(shape_problem, ""));
  app.add_option("--isa", options.isas, "Instruction set, or \"all\" that are usable; repeatable")
      ->type_name("NAME")
      ->allow_extra_args(false);
  app.add_option("--executor", options.executor,
                 "serial, threads, openmp, tbb: what this build has")
      ->type_name("NAME");
  app.add_option("--threads", options.threads, "Thread counts; default 1 and all CPUs")
      ->type_name("N[,M...]")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 1024));
  app.add_option("--tile-q", options.tile_q, "Query rows per task; default automatic")
      ->type_name("N")
      ->check(CLI::Range(1, 65536));
  app.add_option("--tile-kv", options.tile_kv, "Keys per tile; default automatic")
      ->type_name("N")
      ->check(CLI::Range(1, 65536));
  app.add_option("--product", options.product,
                 "What computes the projections of blocks: what this build has of heed, cblas")
      ->type_name("NAME");
  CLI::Option* const backward =
      app.add_flag("--backward", options.backward,
                   "Instead of all else, gradients of attention beside the forward run");
  CLI::Option* const blocks = app.add_flag(
      "--blocks", options.blocks,
      "Instead of all else, multi-head blocks: projections and attention, together and apart;\n"
      "with --backward their gradients");
  CLI::Option* const graphs =
      app.add_flag("--graphs", options.graphs,
                   "Instead of all else, attention over graphs beside loops that only gather;\n"
                   "with --backward its gradients");
  CLI::Option* const forms =
      app.add_flag("--forms", options.forms,
                   "Instead of all else, each form of attention in turns with the plain one");
  CLI::Option* const decode = app.add_flag(
      "--decode", options.decode,
      "Instead of all else, few query rows over many keys beside loops that only read");
  CLI::Option* const ranks =
      app.add_option("--ranks", options.ranks,
                     "Instead of all else, attention over so many ranks of MPI, which are started "
                     "here; strong and weak scaling")
          ->type_name("N[,M...]")
          ->delimiter(',')
          ->allow_extra_args(false)
          ->check(CLI::Range(1, 1024));
  blocks->excludes(graphs);
  for (CLI::Option* const one : {forms, decode, ranks})
    for (CLI::Option* const other : {forms, backward, blocks, graphs, decode, ranks})
      if (one != other) one->excludes(other);
  app.add_flag("--no-stages", options.no_stages, "Leave out stage/... and peak/...");
  app.add_flag("--details", options.details,
               "Every row as it finishes, with all counters, before the table of medians");
  app.footer(std::string("Shapes are spelled\n  ") + kWorkloadGrammar + "\nor, over graphs,\n  " +
             kGraphWorkloadGrammar + "\nor, for rows that caches store,\n  " + kAppendGrammar +
             "\nand the standard ones are\n" + lines(kStandardWorkloads) + "or, with --forms,\n" +
             lines(kFormWorkloads) + "or, with --backward,\n" + lines(kBackwardWorkloads) +
             "or, with --blocks,\n" + lines(kBlockWorkloads) + "or, with --graphs,\n" +
             lines(kGraphWorkloads) + "or, with --decode,\n" + lines(kDecodeWorkloads) +
             lines(kAppendWorkloads) + "or, with --ranks,\n" + lines(kStrongWorkloads) +
             lines(kRankGraphWorkloads) + "and, as many rows on every rank,\n" +
             lines(kWeakWorkloads) +
             "Everything else goes to Google Benchmark, for example --benchmark_filter=REGEX\n"
             "--benchmark_repetitions=N --benchmark_format=json --benchmark_out=FILE\n");
}

/// Those that a name belongs to.
std::vector<std::string>& shapes_like(const std::string& name, Options& options) {
  if (names_append(name)) return options.append_shapes;
  if (names_graph(name)) return options.graph_shapes;
  return parse_workload(name).width != 0 ? options.block_shapes : options.shapes;
}

std::vector<std::string> standard_shapes(const Options& options) {
  std::vector<std::string> shapes = !options.ranks.empty() ? kStrongWorkloads
                                    : options.forms        ? kFormWorkloads
                                    : options.blocks       ? kBlockWorkloads
                                    : options.graphs       ? kGraphWorkloads
                                    : options.backward     ? kBackwardWorkloads
                                    : options.decode       ? kDecodeWorkloads
                                                           : kStandardWorkloads;
  if (!options.ranks.empty())
    shapes.insert(shapes.end(), kRankGraphWorkloads.begin(), kRankGraphWorkloads.end());
  if (options.decode) shapes.insert(shapes.end(), kAppendWorkloads.begin(), kAppendWorkloads.end());
  return shapes;
}

/// Where a flag takes shapes of one kind, the others have none.
void reject(const char* flag, const std::string& takes,
            std::initializer_list<const std::vector<std::string>*> others) {
  for (const std::vector<std::string>* const other : others)
    if (!other->empty())
      throw CLI::ValidationError(flag,
                                 "takes " + takes + ", which \"" + other->front() + "\" is not");
}

/// What heed_perf_mpi splits, each of which is measured both ways unless the standard ones are.
void choose_rank_shapes(Options& options, bool standard) {
  std::vector<std::string> others;
  for (const std::string& name : options.shapes) {
    const Workload workload = parse_workload(name);
    if (workload.layers > 1 || workload.mask || workload.bias) others.push_back(name);
  }
  std::vector<std::string> graphs;
  for (const std::string& name : options.graph_shapes) {
    const GraphWorkload workload = parse_graph_workload(name);
    if (workload.bias || workload.lse || workload.weights) graphs.push_back(name);
  }
  reject("--ranks", "shapes of one layer, without mask and bias", {&others});
  reject("--ranks", "graphs without bias, lse and weights", {&graphs});
  options.weak_shapes = standard ? kWeakWorkloads : options.shapes;
  options.weak_graph_shapes = options.graph_shapes;
  for (const std::string& name : options.weak_shapes) times_as_long(name, 1);
}

void choose_shapes(Options& options) {
  const bool standard = options.shapes.empty();
  const std::vector<std::string> names =
      standard ? standard_shapes(options) : std::move(options.shapes);
  options.shapes.clear();
  for (const std::string& name : names) shapes_like(name, options).push_back(name);
  const char* const dense = options.forms ? "--forms" : nullptr;
  if (dense != nullptr)
    reject(dense, "shapes of dense attention",
           {&options.block_shapes, &options.graph_shapes, &options.append_shapes});
  if (!options.ranks.empty())
    reject("--ranks", "shapes of dense attention and of graphs",
           {&options.block_shapes, &options.append_shapes});
  if (options.backward) {
    reject("--backward", "shapes of attention, of blocks and of graphs", {&options.append_shapes});
    std::vector<std::string> deep;
    for (const std::string& name : options.shapes)
      if (parse_workload(name).layers > 1) deep.push_back(name);
    reject("--backward", "shapes of one layer", {&deep});
  }
  if (!options.ranks.empty()) choose_rank_shapes(options, standard);
  if (options.decode)
    reject("--decode", "shapes of dense attention, or rows to append",
           {&options.block_shapes, &options.graph_shapes});
  if (options.blocks)
    reject("--blocks", "blocks, shapes with a width W",
           {&options.shapes, &options.graph_shapes, &options.append_shapes});
  if (options.graphs)
    reject("--graphs", "shapes of graphs",
           {&options.shapes, &options.block_shapes, &options.append_shapes});
}

void fill_in(Options& options) {
  choose_shapes(options);
  for (const std::string& isa : options.isas)
    if (isa == "all") {
      options.isas.assign(oracle::isa_names().begin(), oracle::isa_names().end());
      break;
    }
  if (options.threads.empty()) {
    options.threads = {1};
    const unsigned all = options.ranks.empty() ? automatic_threads() : 1;
    if (all > 1) options.threads.push_back(all);
  }
}

}  // namespace

Options parse_options(int argc, char** argv) {
  Options options;
  CLI::App app("heed_perf: measures heed's attention and its stages against the FMA peak.");
  declare(app, options);
  try {
    app.parse(argc, argv);
    fill_in(options);
  } catch (const CLI::ParseError& problem) {
    std::cerr << "heed_perf: " << problem.what() << "\nheed_perf --help lists the options\n";
    std::exit(kUsageError);
  }
  if (options.help) std::cout << app.help() << std::endl;
  options.benchmark = app.remaining();
  return options;
}

}  // namespace heed::perf
