#include "cpu/select_isa.h"

#include <comera/base/error.h>
#include <comera/kernels/isa.h>

#include <hwy/highway.h>
#include <hwy/targets.h>

#include <cctype>
#include <cstdint>
#include <cstdlib>

namespace comera::kernels {
namespace {

std::string isa_name(std::int64_t target) {
  if (target == HWY_SCALAR || target == HWY_EMU128) return "scalar";
#if HWY_ARCH_X86
  if (target == HWY_AVX3) return "avx512";
#endif
  std::string name = hwy::TargetName(target);
  for (char& letter : name) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return name;
}

}  // namespace

std::vector<std::string> available_isas() {
  std::vector<std::string> names;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) names.push_back(isa_name(target));
  return names;
}

const std::string& isa() {
  static const std::string chosen = [] {
    const char* wanted = std::getenv("COMERA_ISA");
    for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
      const std::string name = isa_name(target);
      if (wanted && *wanted && name != wanted) continue;
      hwy::GetChosenTarget().Update(target);
      return name;
    }
    fail("COMERA_ISA is '{}'; this machine can run {}", wanted, fmt::join(available_isas(), ", "));
  }();
  return chosen;
}

void select_isa() { isa(); }

}  // namespace comera::kernels
