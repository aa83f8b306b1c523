// How far the resident size of this process rises above where it stood.
#pragma once

#include <comera/base/machine.h>

#include <fstream>

namespace comera::test {

class PeakMemory {
 public:
  PeakMemory() {
    // Forgets the peaks of tests that ran before; where that is not allowed, growth() may be too small.
    std::ofstream("/proc/self/clear_refs") << "5";
    start_ = resident_bytes();
  }
  double growth() const { return static_cast<double>(peak_resident_bytes()) - static_cast<double>(start_); }

 private:
  std::uint64_t start_ = 0;
};

}  // namespace comera::test
