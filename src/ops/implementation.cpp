#include <comera/base/error.h>
#include <comera/ops/implementation.h>

#include <cstdlib>
#include <string>

namespace comera::ops {

bool use_reference() {
  static const bool reference = [] {
    const char* value = std::getenv("COMERA_IMPL");
    const std::string name = value ? value : "fused";
    check(name == "fused" || name == "reference", "COMERA_IMPL is '{}'; use fused or reference", name);
    return name == "reference";
  }();
  return reference;
}

}  // namespace comera::ops
