// Refusals, in the words of Python's arguments.
#pragma once

#include <nanobind/nanobind.h>

#include "api/heed.h"

namespace heed::python {

namespace nb = nanobind;

/// Raises heed.ArgumentError, a ValueError, with a printf-style message that names the argument,
/// its value and the bound. As of the others below, an error of Python that is set is its cause.
[[noreturn, gnu::format(printf, 1, 2)]] void refuse(const char* format, ...);

/// Raises heed.OutOfMemoryError, a MemoryError.
[[noreturn, gnu::format(printf, 1, 2)]] void refuse_memory(const char* format, ...);

/// Raises heed.UnsupportedError, a NotImplementedError.
[[noreturn, gnu::format(printf, 1, 2)]] void refuse_unsupported(const char* format, ...);

/// Raises TypeError, for what is of a wrong Python type.
[[noreturn, gnu::format(printf, 1, 2)]] void refuse_type(const char* format, ...);

/// Raises what stands for the status, unless it is HEED_STATUS_OK, with heed's message.
void check(heed_status status);
/// The same of another engine, which said this.
void check(heed_status status, const char* message);

/// Forgets the error of Python that is set, if it is of `answer`; another one is the caller's own,
/// and is thrown as it is.
void forget(PyObject* answer);

/// Whether what a caller's object raised says that it cannot do what it was asked for. What ends
/// the program, or tells of no memory, does not.
bool is_answer(const nb::python_error& raised);

/// What from.name is, or an invalid object where it has no such attribute.
nb::object attribute(nb::handle from, nb::handle name);

/// The name of an object's type, for messages.
std::string type_text(nb::handle object);

}  // namespace heed::python
