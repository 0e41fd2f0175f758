// Numbers of Python, one or many, and rotary embeddings, which are told by them.
#pragma once

#include <cstdint>
#include <vector>

#include "api/python/module/array.hpp"

namespace heed::python {

// ---- Numbers and short vectors of numbers from Python ----

/// What the argument `name` is, or TypeError, as for null.
double number(const char* name, nb::handle from);
/// The same as float or double; a finite number must fit.
template <class Real>
Real real(const char* name, nb::handle from);
std::int64_t integer(const char* name, nb::handle from);
bool flag(const char* name, nb::handle from);
/// Whether what may be asked for is: not by null.
inline bool is_asked(const char* name, nb::handle given) {
  return given.is_valid() && flag(name, given);
}
/// What the argument `descriptor` is: the number of an open file.
int file_descriptor(nb::handle from);

/// Whether it is an int, or something that counts as one, but no bool.
bool is_integer(nb::handle from);

/// Numbers side by side: in place where they lie so, else copied.
template <class T>
struct Vector {
  const T* data = nullptr;
  std::int64_t count = 0;
  Array array;
  std::vector<T> copy;
};

/// An array of one axis, or a sequence; T is int32_t, int64_t, float or double.
template <class T>
Vector<T> read_vector(const char* name, nb::handle from);

/// Integers in rows [rows, columns], `stride` from one row to the next.
template <class T>
struct Table {
  Vector<T> entries;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t stride = 0;
};

/// An array of two axes, or a sequence of sequences; T is int32_t or int64_t.
template <class T>
Table<T> read_table(const char* name, nb::handle from);

/// Whether it is that, rather than an array of another number of axes or a sequence of numbers.
bool is_table(const char* name, nb::handle from);

// ---- Rotary embedding, as heed.rotate and caches are told about it ----

struct Rotary {
  heed_rotary rotary = HEED_ROTARY_INIT;
  Array cosines;  // whoever keeps the Rotary keeps these objects
  Array sines;
};

/// Positions as C has them, [batch, rows]; given may be [rows] for all.
Vector<std::int64_t> read_positions(nb::handle from, std::int64_t batch, std::int64_t rows);

/// The arguments of these names; all but `pairs` may be None.
Rotary read_rotary(nb::handle pairs, nb::handle base, nb::handle features, nb::handle cosines,
                   nb::handle sines);

}  // namespace heed::python
