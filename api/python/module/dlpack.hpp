// What DLPack 1 fixes in memory, as far as heed needs it: https://github.com/dmlc/dlpack.
#pragma once

#include <cstdint>

namespace heed::python::dlpack {

enum DeviceType : std::int32_t { kCpu = 1 };

enum Code : std::uint8_t {
  kInt = 0,
  kUInt = 1,
  kFloat = 2,
  kBfloat = 4,
  kBool = 6,
  kFloat8E4M3FN = 10
};

struct Device {
  std::int32_t type;
  std::int32_t id;
};

struct DataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct Tensor {
  void* data;
  Device device;
  std::int32_t axes;
  DataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null before version 1.2: contiguous
  std::uint64_t byte_offset;
};

struct Version {
  std::uint32_t major;
  std::uint32_t minor;
};

/// What capsules called "dltensor" point at.
struct Managed {
  Tensor tensor;
  void* context;
  void (*deleter)(Managed* self);
};

/// What capsules called "dltensor_versioned" point at.
struct ManagedVersioned {
  Version version;
  void* context;
  void (*deleter)(ManagedVersioned* self);
  std::uint64_t flags;
  Tensor tensor;
};

constexpr std::uint64_t kReadOnly = 1;

/// Functions of a library, behind the capsule "dlpack_exchange_api" that is the attribute
/// __dlpack_c_exchange_api__ of its type: tensors without a detour through Python. Those that
/// return int return 0, or -1 with a Python exception set.
struct ExchangeApi {
  Version version;
  ExchangeApi* previous;
  int (*allocate)(Tensor* prototype, ManagedVersioned** out, void* error_context,
                  void (*set_error)(void* error_context, const char* kind, const char* message));
  int (*from_object)(void* object, ManagedVersioned** out);
  int (*to_object)(ManagedVersioned* tensor, void** out);
  int (*borrow)(void* object, Tensor* out);  // null: not offered
  int (*stream)(DeviceType type, std::int32_t id, void** out);
};

}  // namespace heed::python::dlpack
