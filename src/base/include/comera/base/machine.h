// What the process may use: cores, memory, instruction sets. Reads the system; starts nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace comera {

/// Cores this process may run on: affinity mask, limited by the cgroup's quota; at least 1.
int available_cores();
/// Bytes of memory the process may use: physical, limited by the cgroup.
std::uint64_t available_memory();
/// Resident bytes now, and the highest so far (VmRSS, VmHWM); 0 where the system does not say.
std::uint64_t resident_bytes();
std::uint64_t peak_resident_bytes();
/// Starts a new peak at the present resident size, where the system allows it.
void reset_peak_resident_bytes();
std::string cpu_name();
/// Instruction sets of interest that both processor and system offer, e.g. {"avx2", "fma", "avx512f"}.
std::vector<std::string> cpu_features();

}  // namespace comera
