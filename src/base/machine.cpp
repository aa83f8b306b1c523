#include <comera/base/machine.h>

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

namespace comera {
namespace {

// The value of `key: value` in a /proc file, or empty.
std::string proc_value(const char* file, const std::string& key) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (line.rfind(key, 0) != 0) continue;
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    const auto first = line.find_first_not_of(" \t", colon + 1);
    return first == std::string::npos ? "" : line.substr(first);
  }
  return "";
}

std::uint64_t status_kilobytes(const char* key) {
  const std::string value = proc_value("/proc/self/status", key);
  return value.empty() ? 0 : std::strtoull(value.c_str(), nullptr, 10) * 1024;
}

}  // namespace

int available_cores() {
  int cores = static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) == 0) cores = std::max(1, CPU_COUNT(&allowed));
  std::string quota, period;
  if (std::ifstream limit("/sys/fs/cgroup/cpu.max"); limit >> quota >> period && quota != "max") {
    const double share =
        std::strtod(quota.c_str(), nullptr) / std::max(1.0, std::strtod(period.c_str(), nullptr));
    cores = std::clamp(static_cast<int>(std::ceil(share)), 1, cores);
  }
  return cores;
}

std::uint64_t available_memory() {
  std::uint64_t bytes = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                        static_cast<std::uint64_t>(::sysconf(_SC_PAGE_SIZE));
  std::uint64_t limit = 0;
  if (std::ifstream file("/sys/fs/cgroup/memory.max"); file >> limit && limit > 0)
    bytes = std::min(bytes, limit);
  return bytes;
}

std::uint64_t resident_bytes() { return status_kilobytes("VmRSS"); }
std::uint64_t peak_resident_bytes() { return status_kilobytes("VmHWM"); }
void reset_peak_resident_bytes() { std::ofstream("/proc/self/clear_refs") << "5"; }
std::string cpu_name() {
  const std::string name = proc_value("/proc/cpuinfo", "model name");
  return name.empty() ? "unknown processor" : name;
}

std::vector<std::string> cpu_features() {
  std::istringstream flags(proc_value("/proc/cpuinfo", "flags"));
  const std::set<std::string> found{std::istream_iterator<std::string>{flags},
                                    std::istream_iterator<std::string>{}};
  std::vector<std::string> features;
  for (const char* name :
       {"avx2", "fma", "avx512f", "avx512bw", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16"})
    if (found.count(name)) features.emplace_back(name);
  return features;
}

}  // namespace comera
