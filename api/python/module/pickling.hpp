// Objects that another process could not use.
#pragma once

#include <string>

#include "api/python/module/errors.hpp"

namespace heed::python {

/// Makes pickle, copy and multiprocessing say so, and what to do instead.
template <class T>
void refuse_pickling(nb::class_<T>& type, const char* why) {
  type.def(
      "__reduce_ex__",
      [why](nb::handle self, nb::handle) -> nb::object {
        refuse_type("heed.%s cannot be pickled or copied: %s",
                    nb::str(self.type().attr("__name__")).c_str(), why);
      },
      nb::arg("protocol"),
      nb::sig("def __reduce_ex__(self, protocol: object, /) -> typing.NoReturn"));
}

}  // namespace heed::python
