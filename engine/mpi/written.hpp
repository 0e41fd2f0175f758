// How results leave: converted to the caller's types, or added to what is there.
#pragma once

#include "engine/mpi/problem.hpp"
#include "engine/mpi/tensor.hpp"

namespace heed::mpi {

class Writer {
 public:
  /// Adds where there is room for what is there: room_bytes(), of the arithmetic's type.
  Writer(const heed_context& context, std::uint32_t real, std::byte* room)
      : context_(context), real_(real), room_(room) {}

  /// All of `extent`; what is added to has the type `real`.
  void write(const Tensor& from, const Tensor& to, const Extent& extent) const;

  /// Room for rows of so many features.
  static std::size_t room_bytes(std::uint32_t real, std::int64_t features);

 private:
  void convert(const Tensor& from, const Tensor& to, const Extent& extent) const;

  const heed_context& context_;
  std::uint32_t real_;
  std::byte* room_;
};

}  // namespace heed::mpi
