#include "tests/dense/properties.hpp"

#include <numeric>
#include <utility>

namespace heed_test {
namespace {

/// Puts row i of `from` at row order[i] of `to`.
void move_rows(const Tensor& from, const std::vector<Index>& order, Tensor& to) {
  from.each([&](const Axes& x) { to.set({x[0], x[1], order[at(x[2])], x[3]}, from.get(x)); });
}

void move_pairs(const Tensor& from, const Order& order, Tensor& to) {
  from.each([&](const Axes& x) {
    to.set({x[0], x[1], order.rows[at(x[2])], order.keys[at(x[3])]}, from.get(x));
  });
}

/// The index of an element of an output of shape [batch, heads, rows, columns] in another order.
std::function<std::size_t(std::size_t)> moved(const Axes& shape, const std::vector<Index>& rows,
                                              const std::vector<Index>& columns) {
  return [shape, rows, columns](std::size_t i) {
    const auto n = static_cast<Index>(i);
    const Index column = n % shape[3];
    const Index row = n / shape[3] % shape[2];
    const Index rest = n / shape[3] / shape[2];
    return at((rest * shape[2] + rows[at(row)]) * shape[3] + columns[at(column)]);
  };
}

}  // namespace

const std::vector<Kind>& exact_kinds() {
  static const std::vector<Kind> all = {kinds()[0], kinds()[1]};
  static const std::vector<Kind> one = {kinds()[1]};  // other tests have much of float32
  return small() ? one : all;
}

Problem drawn(const Types& types, std::uint64_t seed, Index queries, Index keys) {
  Sizes sizes = {queries, keys, 16, 12};
  sizes.query_heads = 2;
  sizes.types = types;
  Problem p = filled(sizes, seed);
  want_all(p);
  return p;
}

const std::vector<Option>& free_options() {
  static const std::vector<Option> all = {
      {"plain", [](Problem&) {}},
      {"softcap", [](Problem& p) { p.desc.softcap = 3; }},
      {"temperature", [](Problem& p) { p.desc.temperature = 0.4; }},
      {"sinks",
       [](Problem& p) {
         p.sinks.numbers = {1, 4};
       }},
      {"mask",
       [](Problem& p) {
         p.add_mask(p.pairs()).fill(
             [&](const Axes& x) { return (x[2] / 4 + x[3] / 50) % 3 == 0 ? 0 : 1; });
       }},
      {"bias", [](Problem& p) {
         Random random(5);
         p.add_bias(p.pairs()).fill([&] {
           return random.integer(0, 9) == 0 ? -kInfinity : static_cast<double>(random.normal());
         });
       }}};
  return all;
}

const std::vector<Option>& options() {
  static const std::vector<Option> all = [] {
    std::vector<Option> list = free_options();
    list.push_back({"causal", [](Problem& p) { p.desc.causal = HEED_CAUSAL_BOTTOM_RIGHT; }});
    list.push_back({"window", [](Problem& p) {
                      p.desc.window = 1;
                      p.desc.window_left = 50;
                      p.desc.window_right = 9;
                      p.desc.alignment = HEED_ALIGNMENT_BOTTOM_RIGHT;
                    }});
    list.push_back({"slopes", [](Problem& p) {
                      p.slopes.numbers = {0.02, 0.05};
                      p.desc.alignment = HEED_ALIGNMENT_BOTTOM_RIGHT;
                    }});
    list.push_back({"lengths", [](Problem& p) { p.key_lengths = {131}; }});
    list.push_back({"function", [](Problem& p) { p.function = score_function<Shift>(); }});
    return list;
  }();
  return all;
}

std::vector<Index> in_order(Index size) {
  std::vector<Index> order(at(size));
  std::iota(order.begin(), order.end(), Index{0});
  return order;
}

std::vector<Index> shuffled(Index size, std::uint64_t seed) {
  std::vector<Index> order = in_order(size);
  Random random(seed);
  for (Index i = size - 1; i > 0; --i) std::swap(order[at(i)], order[at(random.integer(0, i))]);
  return order;
}

void check_equal(Problem& a, Problem& b, const Order& order) {
  const Expected want_a = a.expected_all();
  const Expected want_b = b.expected_all();
  const std::vector<Index> one = {0};
  for (const char* const isa : isa_names()) {
    INFO(isa << ": " << line_of(a) << " and " << line_of(b));
    const Outputs got_a = a.run_all(isa);
    const Outputs got_b = b.run_all(isa);
    check_close("out", got_a.out, want_a.out, got_b.out, want_b.out,
                moved(a.out.shape(), order.rows, in_order(a.out.shape()[3])));
    check_close("lse", got_a.lse, want_a.lse, got_b.lse, want_b.lse,
                moved(a.lse->shape(), order.rows, one));
    check_close("weights", got_a.weights, want_a.weights, got_b.weights, want_b.weights,
                moved(a.weights->shape(), order.rows, order.keys));
    check_close("column sums", got_a.column_sums, want_a.column_sums, got_b.column_sums,
                want_b.column_sums, moved(a.column_sums->shape(), order.keys, one));
  }
}

void check_equal(Problem& a, Problem& b) {
  check_equal(a, b, {in_order(a.desc.query_length), in_order(a.desc.key_length)});
}

Problem reordered(const Problem& p, const Order& order) {
  Problem q = p;
  move_rows(p.query, order.rows, q.query);
  move_rows(p.key, order.keys, q.key);
  move_rows(p.value, order.keys, q.value);
  if (p.mask) move_pairs(*p.mask, order, *q.mask);
  if (p.bias) move_pairs(*p.bias, order, *q.bias);
  return q;
}

}  // namespace heed_test
