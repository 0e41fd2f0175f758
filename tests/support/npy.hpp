// Reads .npy files, version 1, little-endian float32 in C order: enough for tests/data.
#pragma once

#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace heed_test {

struct Array {
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

inline void require_npy(bool condition, const std::string& path, const char* what) {
  if (!condition) throw std::runtime_error(path + ": " + what);
}

/// The numbers between the parentheses that follow 'shape'.
inline std::vector<std::int64_t> npy_shape(const std::string& header) {
  std::vector<std::int64_t> shape;
  std::size_t at = header.find('(', header.find("'shape'")) + 1;
  while (at < header.size() && header[at] != ')') {
    std::size_t used = 0;
    shape.push_back(std::stoll(header.substr(at), &used));
    at = header.find_first_not_of(", ", at + used);
  }
  return shape;
}

inline Array read_npy(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  require_npy(file.good(), path, "cannot be opened");
  char magic[10];
  file.read(magic, sizeof magic);
  require_npy(file.good() && std::string(magic, 6) == "\x93NUMPY" && magic[6] == 1, path,
              "is not .npy version 1");
  const auto low = static_cast<unsigned char>(magic[8]);
  const auto high = static_cast<unsigned char>(magic[9]);
  std::string header(static_cast<std::size_t>(low) + 256U * high, ' ');
  file.read(header.data(), static_cast<std::streamsize>(header.size()));
  require_npy(header.find("'<f4'") != std::string::npos, path, "is not float32");
  require_npy(header.find("'fortran_order': False") != std::string::npos, path,
              "is not in C order");
  Array array{npy_shape(header), {}};
  std::size_t count = 1;
  for (const std::int64_t size : array.shape) count *= static_cast<std::size_t>(size);
  array.values.resize(count);
  file.read(reinterpret_cast<char*>(array.values.data()),
            static_cast<std::streamsize>(count * sizeof(float)));
  require_npy(file.good(), path, "is cut short");
  return array;
}

}  // namespace heed_test
