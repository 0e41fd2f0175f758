// Which CPU this is, by what it says of itself.
#pragma once

namespace heed {

/// As "AuthenticAMD-25-17-1", the vendor, family, model and stepping of x86, or "arm-41-d0c-3-1",
/// the implementer, part, variant and revision of 64-bit Arm in hexadecimal, of the core that this
/// thread runs on; "unknown" where the system does not let a program ask. Letters, digits and
/// "-_" alone.
struct CpuName {
  char text[40];
};
CpuName cpu_name();

}  // namespace heed
