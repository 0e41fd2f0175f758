// Nothing is read or written past either end of a tensor: each lies against a page that may not be
// touched, where a stray access ends the program.
#if defined(__unix__)
#include "tests/api/fenced.hpp"
#include "tests/api/support.hpp"

using namespace api_test;

namespace {

std::size_t width(std::uint32_t dtype) {
  return dtype == HEED_DTYPE_F64 ? 8 : dtype == HEED_DTYPE_BF16 || dtype == HEED_DTYPE_F16 ? 2 : 4;
}

/// One problem with every tensor that there is, all of them fenced.
struct Fences {
  Fences(const Shape& s, std::uint32_t dtype, std::uint32_t score_dtype, End end)
      : query(Tensors::count(s.batch, s.query_heads, s.query_length, s.features) * width(dtype),
              end),
        key(Tensors::count(s.batch, s.key_heads, s.key_length, s.features) * width(dtype), end),
        value(Tensors::count(s.batch, s.key_heads, s.key_length, s.value_features) * width(dtype),
              end),
        out(Tensors::count(s.batch, s.query_heads, s.query_length, s.value_features) * width(dtype),
            end),
        mask(pairs(s), end),
        bias(pairs(s) * width(score_dtype), end),
        heads(static_cast<std::size_t>(s.query_heads) * width(dtype == HEED_DTYPE_F64 ? dtype : 0),
              end),
        lse(Tensors::count(s.batch, s.query_heads, s.query_length, 1) * 8, end),
        weights(pairs(s) * width(score_dtype), end),
        column_sums(Tensors::count(s.batch, s.query_heads, s.key_length, 1) * width(score_dtype),
                    end) {
    mask.fill(1);
    desc = desc_of(s);
    desc.query.dtype = desc.key.dtype = desc.value.dtype = desc.out.dtype = dtype;
    desc.bias.dtype = desc.weights.dtype = desc.column_sums.dtype = score_dtype;
    desc.lse.dtype = HEED_DTYPE_F64;
    desc.alignment = HEED_ALIGNMENT_BOTTOM_RIGHT;
    args.query = query.get();
    args.key = key.get();
    args.value = value.get();
    args.out = out.get();
    args.mask = static_cast<std::uint8_t*>(mask.get());
    args.bias = bias.get();
    args.alibi_slopes = heads.get();
  }

  void want_all() {
    desc.weights_point = HEED_WEIGHTS_PROBABILITIES;
    desc.sum_columns = 1;
    args.weights = weights.get();
    args.column_sums = column_sums.get();
    if (desc.hard != 0) return;
    args.sinks = heads.get();
    args.lse = lse.get();
  }

  static std::size_t pairs(const Shape& s) {
    return Tensors::count(s.batch, s.query_heads, s.query_length, s.key_length);
  }

  Fenced query, key, value, out, mask, bias, heads, lse, weights, column_sums;
  heed_attention_desc desc;
  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
};

void check_runs(const Context& context, const heed_attention_desc& desc,
                const heed_attention_args& args) {
  const heed_status status = heed_attention(context.get(), &desc, &args);
  INFO(heed_last_error());
  CHECK(status == HEED_STATUS_OK);
}

Shape shape_of(std::int64_t queries, std::int64_t keys) {
  Shape shape;
  shape.query_heads = 2;
  shape.query_length = queries;
  shape.key_length = keys;
  shape.features = 5;
  shape.value_features = 7;
  return shape;
}

constexpr std::uint32_t kDtypes[] = {HEED_DTYPE_F32, HEED_DTYPE_F64, HEED_DTYPE_BF16,
                                     HEED_DTYPE_F16};

}  // namespace

TEST_CASE("no tensor is left at either end", "[pages][files]") {
  for (const std::string& isa : usable_isas()) {
    const Context context = make_context(isa.c_str(), "serial", 1);
    for (const std::uint32_t dtype : kDtypes)
      for (const std::uint32_t score_dtype : kDtypes)
        for (const End end : {End::kFirst, End::kLast})
          for (const std::int64_t queries : {1, 5, 25, 61})
            for (const std::int64_t keys : {1, 7, 130}) {
              CAPTURE(isa, dtype, score_dtype, queries, keys);
              Fences fences(shape_of(queries, keys), dtype, score_dtype, end);
              fences.want_all();
              check_runs(context, fences.desc, fences.args);
              fences.args.bias = nullptr;  // the mask alone, by other kernels
              fences.args.alibi_slopes = nullptr;
              check_runs(context, fences.desc, fences.args);
            }
  }
}

TEST_CASE("no tensor of hard attention is left at either end", "[pages][files]") {
  for (const std::string& isa : usable_isas()) {
    const Context context = make_context(isa.c_str(), "serial", 1);
    for (const std::uint32_t dtype : kDtypes)
      for (const End end : {End::kFirst, End::kLast})
        for (const std::int64_t keys : {1, 7, 130}) {
          CAPTURE(isa, dtype, keys);
          Fences fences(shape_of(5, keys), dtype, dtype, end);
          fences.desc.hard = 1;
          fences.want_all();
          check_runs(context, fences.desc, fences.args);
        }
  }
}

TEST_CASE("keys past a length are not read", "[pages][files]") {
  // The tensors have room for `length` keys of the one sequence; the descriptor says 130.
  for (const std::string& isa : usable_isas()) {
    const Context context = make_context(isa.c_str(), "serial", 1);
    for (const std::uint32_t dtype : kDtypes)
      for (const std::int32_t length : {0, 1, 7, 64, 129}) {
        CAPTURE(isa, dtype, length);
        Shape given = shape_of(5, 130);
        given.query_heads = 1;
        Fences fences(given, dtype, dtype, End::kLast);
        const Fenced key(static_cast<std::size_t>(length) * 5 * width(dtype), End::kLast);
        const Fenced value(static_cast<std::size_t>(length) * 7 * width(dtype), End::kLast);
        fences.args.key = key.get();
        fences.args.value = value.get();
        fences.args.key_lengths = &length;
        fences.want_all();
        check_runs(context, fences.desc, fences.args);
        fences.args.mask = nullptr;
        fences.args.bias = fences.args.alibi_slopes = nullptr;
        check_runs(context, fences.desc, fences.args);
      }
  }
}

TEST_CASE("keys that belong to no packed sequence are not read", "[pages][files]") {
  // Two sequences of 70 and 60 keys, 100 rows of nobody before them and 50 after.
  const std::int32_t queries[] = {0, 3, 5};
  const std::int32_t keys[] = {100, 170, 230};
  for (const std::string& isa : usable_isas()) {
    const Context context = make_context(isa.c_str(), "serial", 1);
    for (const std::uint32_t dtype : kDtypes)
      for (const End end : {End::kFirst, End::kLast}) {
        CAPTURE(isa, dtype);
        Shape shape = shape_of(3, 70);
        shape.query_heads = 1;
        shape.batch = 2;
        Fences fences(shape, dtype, dtype, end);
        const Fenced key(130 * 5 * width(dtype), end);
        const Fenced value(130 * 7 * width(dtype), end);
        const auto before = [](const Fenced& rows, std::size_t bytes) {
          return reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(rows.get()) -
                                               bytes);
        };
        fences.args.key = before(key, 100 * 5 * width(dtype));
        fences.args.value = before(value, 100 * 7 * width(dtype));
        fences.desc.packed_queries = 6;
        fences.desc.packed_keys = 280;
        fences.args.cu_seqlens_q = queries;
        fences.args.cu_seqlens_k = keys;
        fences.want_all();
        check_runs(context, fences.desc, fences.args);
      }
  }
}

TEST_CASE("no tensor of a merge is left at either end", "[pages][files]") {
  for (const std::string& isa : usable_isas()) {
    const Context context = make_context(isa.c_str(), "serial", 1);
    for (const std::uint32_t dtype : kDtypes)
      for (const End end : {End::kFirst, End::kLast})
        for (const std::int64_t features : {1, 7, 300}) {
          CAPTURE(isa, dtype, features);
          const std::size_t count = 3 * static_cast<std::size_t>(features);
          const Fenced a(count * width(dtype), end);
          const Fenced b(count * width(dtype), end);
          const Fenced out(count * width(dtype), end);
          const Fenced lse_a(3 * 4, end);
          const Fenced lse_b(3 * 4, end);
          const Fenced lse(3 * 4, end);
          heed_merge_desc desc = HEED_MERGE_DESC_INIT;
          desc.batch = desc.heads = 1;
          desc.rows = 3;
          desc.features = features;
          desc.part_out.dtype = desc.out.dtype = dtype;
          const void* const outs[] = {a.get(), b.get()};
          const void* const lses[] = {lse_a.get(), lse_b.get()};
          CHECK(heed_merge(context.get(), &desc, 2, outs, lses, out.get(), lse.get()) ==
                HEED_STATUS_OK);
        }
  }
}
#endif
