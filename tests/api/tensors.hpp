// The tensors of forms, in memory of exactly their sizes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/api/backward_form.hpp"
#include "tests/api/block_backward_form.hpp"
#include "tests/api/blocks.hpp"
#include "tests/api/forms.hpp"
#include "tests/api/graphs.hpp"
#include "tests/support/fenced.hpp"

namespace api_test {

using heed_test::End;
using heed_test::Fenced;

/// Whole numbers, by a type as wide.
constexpr std::uint32_t kI32 = HEED_DTYPE_F32;
constexpr std::uint32_t kI64 = HEED_DTYPE_F64;

/// What a pointer of the arguments points at.
struct Tensor {
  enum Content { kNumbers, kGiven, kResult };  ///< given: what lies there before it is placed
  std::string name;                            ///< in messages
  void* field;                                 ///< the pointer
  std::int64_t elements;
  std::uint32_t dtype;
  Content content = kNumbers;

  std::size_t bytes() const;
  void* memory() const {
    void* at = nullptr;
    std::memcpy(&at, field, sizeof at);
    return at;
  }
  void point_at(const void* memory) const { std::memcpy(field, &memory, sizeof memory); }
};

/// Memory for tensors, of exactly their sizes; between forbidden pages if it has an End.
class Memory {
 public:
  explicit Memory(std::optional<End> fence = {}) : fence_(fence) {}
  /// Fills new memory and lets the tensor's field point there, unless that is NULL.
  void* place(const Tensor& tensor);
  Memory another() const { return Memory(fence_); }

 private:
  void* take(std::size_t bytes);

  std::optional<End> fence_;
  std::vector<std::unique_ptr<Fenced>> fenced_;
  std::vector<std::unique_ptr<char[]>> plain_;
  std::uint32_t seed_ = 0;
};

/// Every tensor that a form may have, contiguous; nothing is allocated.
std::vector<Tensor> tensors_of(Form& form);
std::vector<Tensor> tensors_of(BackwardForm& form);
std::vector<Tensor> tensors_of(BlockForm& form);
std::vector<Tensor> tensors_of(BlockBackwardForm& form);
std::vector<Tensor> tensors_of(GraphForm& form);

}  // namespace api_test
