#include "perf/graph/workload.hpp"

#include <algorithm>

#include "perf/parts.hpp"

namespace heed::perf {

const char* const kGraphWorkloadGrammar =
    "(er|rmat|hubs)_N<nodes>_deg<mean degree>_H<heads>_D<features>[_Dv<value features>]\n"
    "  [_headbias][_softcap<n>][_hard][_bf16|_f16|_f64][_lse][_weights]";

const std::vector<std::string> kGraphWorkloads = {
    "er_N10000_deg8_H4_D16",     "er_N10000_deg32_H4_D16",     "er_N10000_deg8_H4_D64",
    "er_N10000_deg32_H4_D64",    "rmat_N10000_deg8_H4_D16",    "rmat_N10000_deg32_H4_D16",
    "rmat_N10000_deg8_H4_D64",   "rmat_N10000_deg32_H4_D64",   "er_N1000000_deg8_H4_D16",
    "er_N1000000_deg32_H4_D16",  "rmat_N1000000_deg8_H4_D16",  "rmat_N1000000_deg32_H4_D16",
    "hubs_N1000000_deg8_H4_D16", "er_N1000000_deg8_H4_D64",    "er_N1000000_deg32_H4_D64",
    "rmat_N1000000_deg8_H4_D64", "rmat_N1000000_deg32_H4_D64", "hubs_N1000000_deg8_H4_D64",
};

const std::vector<std::string> kRankGraphWorkloads = {
    "rmat_N1000000_deg32_H4_D16",
    "er_N1000000_deg32_H4_D16",
};

namespace {

const Grammar kGrammar = {
    kGraphWorkloadGrammar,
    {"N", "deg", "H", "D", "Dv"},
    {"softcap"},
    {"er", "rmat", "hubs", "headbias", "hard", "bf16", "f16", "f64", "lse", "weights"},
    {{"er", "rmat", "hubs"}, {"bf16", "f16", "f64"}, {"hard", "lse"}},
};

void check_sizes(const Parts& parts, const GraphWorkload& workload) {
  const auto nodes = static_cast<double>(workload.nodes);
  const auto width = static_cast<double>(std::max(key_width(workload), value_width(workload)));
  const double edges = nodes * static_cast<double>(workload.degree);
  const auto scores = edges * static_cast<double>(workload.desc.heads);
  if (workload.degree > workload.nodes / 4)
    parts.reject("deg is more than a quarter of N: nearly a complete graph");
  if (nodes * width > kLargestTensor || edges > kLargestTensor / 4 ||
      ((workload.weights || workload.bias) && scores > kLargestTensor))
    parts.reject("a tensor of more than 2^30 elements is too large for this harness");
}

}  // namespace

bool names_graph(const std::string& name) {
  const std::string kind = name.substr(0, name.find('_'));
  return kind == "er" || kind == "rmat" || kind == "hubs";
}

std::string times_as_many_nodes(const std::string& name, int times) {
  const Parts parts(kGrammar, name);
  if (!parts.has("N")) parts.reject("N is missing");
  return parts.without({"N"}) + "_N" + std::to_string(times * parts.number("N", 0));
}

GraphWorkload parse_graph_workload(const std::string& name) {
  const Parts parts(kGrammar, name);
  if (!names_graph(name)) parts.reject("er, rmat or hubs does not come first");
  for (const char* letters : {"N", "deg", "H", "D"})
    if (!parts.has(letters)) parts.reject(std::string(letters) + " is missing");
  GraphWorkload workload{};
  workload.name = name;
  workload.kind = parts.has("er")     ? GraphKind::kErdosRenyi
                  : parts.has("rmat") ? GraphKind::kRmat
                                      : GraphKind::kHubs;
  workload.nodes = parts.number("N", 0);
  workload.degree = parts.number("deg", 0);
  workload.graph = name.substr(0, name.find('_')) + "_N" + std::to_string(workload.nodes) + "_deg" +
                   std::to_string(workload.degree);
  workload.bias = parts.has("headbias");
  workload.lse = parts.has("lse");
  workload.weights = parts.has("weights");
  heed_graph_attention_desc& desc = workload.desc = HEED_GRAPH_ATTENTION_DESC_INIT;
  desc.heads = parts.number("H", 0);
  desc.features = parts.number("D", 0);
  desc.value_features = parts.number("Dv", desc.features);
  desc.softcap = static_cast<double>(parts.number("softcap", 0));
  desc.hard = parts.has("hard") ? 1 : 0;
  for (heed_layout* const layout : {&desc.query, &desc.key, &desc.value, &desc.out})
    layout->dtype = parts.type();
  check_sizes(parts, workload);
  return workload;
}

std::int64_t key_width(const GraphWorkload& workload) {
  return workload.desc.heads * workload.desc.features;
}

std::int64_t value_width(const GraphWorkload& workload) {
  return workload.desc.heads * workload.desc.value_features;
}

double edge_bytes(const GraphWorkload& workload) {
  return static_cast<double>(key_width(workload) + value_width(workload)) *
         oracle::format_of(workload.desc.key.dtype).bytes;
}

}  // namespace heed::perf
