// Files of NumPy as the example attend reads and writes them: npy_read, npy_write, npy_to_f32.
extern "C" {
#include "api/examples/attend/npy.h"
}

#include "tests/fuzz/check.hpp"
#include "tests/fuzz/files.hpp"

using namespace heed_test;

namespace {

std::string little_endian(std::uint64_t number, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(number >> (8 * i));
  return text;
}

/// A file that should be read, and what is in it.
struct Valid {
  std::string bytes;
  std::string data;
  npy_tensor tensor = {nullptr, NPY_F32, 0, {0, 0, 0, 0}};
};

Valid draw_valid(Draw& draw) {
  Valid valid;
  npy_tensor& t = valid.tensor;
  const char* const quote = draw.one_in(4) ? "\"" : "'";
  const std::string type = draw.pick<const char*>({"<f4", "<f2", "<f8", "|b1", "|u1"});
  t.type = type == "<f4" ? NPY_F32 : type == "<f2" ? NPY_F16 : type == "<f8" ? NPY_F64 : NPY_BYTE;
  t.rank = static_cast<int>(draw.integer(1, NPY_MAX_RANK));
  std::string shape = "(";
  std::size_t count = 1;
  for (int i = 0; i < t.rank; ++i) {
    t.shape[i] = draw.integer(0, 5);
    count *= static_cast<std::size_t>(t.shape[i]);
    shape += std::to_string(t.shape[i]) + (i + 1 < t.rank || t.rank == 1 ? ", " : "");
  }
  shape += ")";
  std::string fields[] = {std::string("descr") + quote + ": " + quote + type + quote,
                          std::string("fortran_order") + quote + ": False",
                          std::string("shape") + quote + ": " + shape};
  if (draw.one_in(4)) std::swap(fields[0], fields[2]);
  std::string header = "{";
  for (const std::string& field : fields) header += quote + field + ", ";
  header += "}";
  header += std::string(static_cast<std::size_t>(draw.integer(0, 70)), ' ') + "\n";
  const bool wide = draw.one_in(4);
  valid.data = std::string(count * npy_size(t.type), '\0');
  Random random(draw.bits());
  for (char& byte : valid.data) byte = static_cast<char>(random.bits());
  valid.bytes = "\x93NUMPY" + little_endian(wide ? 2 : 1, 2) +
                little_endian(header.size(), wide ? 4 : 2) + header + valid.data;
  return valid;
}

bool same(const npy_tensor& a, const npy_tensor& b) {
  bool same = a.type == b.type && a.rank == b.rank;
  for (int i = 0; same && i < a.rank; ++i) same = a.shape[i] == b.shape[i];
  const auto bytes = static_cast<std::size_t>(npy_count(&a)) * npy_size(a.type);
  return same && std::memcmp(a.data, b.data, bytes) == 0;
}

/// What was read can be written, read again and converted.
void use(MemoryFile& file, const npy_tensor& tensor) {
  npy_error error = {""};
  demand(npy_write(file.path(), &tensor, &error), "what was read cannot be written");
  npy_tensor again = {nullptr, NPY_F32, 0, {0, 0, 0, 0}};
  demand(npy_read(file.path(), &again, &error), "what was written cannot be read");
  demand(same(tensor, again), "what was written is read as something else");
  npy_release(&again);
  npy_tensor floats = {nullptr, NPY_F32, 0, {0, 0, 0, 0}};
  demand(npy_to_f32(&tensor, &floats), "no memory to convert");
  for (std::int64_t i = 0; i < npy_count(&floats); ++i) {
    const auto x = static_cast<float>(npy_number(&tensor, i));
    const double y = npy_number(&floats, i);
    demand(x == y || (x != x && y != y), "a number becomes another");
  }
  npy_release(&floats);
}

void read(Draw& draw, MemoryFile& file, Valid valid, bool damaged) {
  if (damaged) damage(draw, valid.bytes, 120);  // mostly the header
  file.write(valid.bytes);
  npy_tensor tensor = {nullptr, NPY_F32, 0, {0, 0, 0, 0}};
  npy_error error = {""};
  if (!npy_read(file.path(), &tensor, &error)) {
    demand(damaged, error.text);
    demand(tensor.data == nullptr && tensor.rank == 0, "a refused file wrote the tensor");
    check_message(error.text, file.path());
    return;
  }
  const auto count = npy_count(&tensor);
  demand(count >= 0 && tensor.rank >= 1 && tensor.rank <= NPY_MAX_RANK, "a shape makes no sense");
  const auto bytes = static_cast<std::size_t>(count) * npy_size(tensor.type);
  demand(bytes <= valid.bytes.size(), "more data than the file holds");
  demand(valid.bytes.compare(valid.bytes.size() - bytes, bytes,
                             std::string(static_cast<const char*>(tensor.data), bytes)) == 0,
         "other data than the file ends with");
  if (!damaged) {
    valid.tensor.data = valid.data.data();
    demand(same(valid.tensor, tensor), "a file is read as something else");
  }
  use(file, tensor);
  npy_release(&tensor);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static MemoryFile file;
  Draw first(data, size);
  const Valid valid = draw_valid(first);
  each_variant(first, [&](Draw& draw, bool damaged) { read(draw, file, valid, damaged); });
  return 0;
}
