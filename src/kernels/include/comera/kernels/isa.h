// Which instruction set the kernels run with: the best one the machine has, or the one COMERA_ISA names.
#pragma once

#include <string>
#include <vector>

namespace comera::kernels {

/// Names this machine can run, best first: avx512, avx2, sse4, ssse3, neon, ... and always scalar, last.
std::vector<std::string> available_isas();

/// The one in use. COMERA_ISA is read once, at the first kernel (unset or empty = the best); a name this
/// machine cannot run is an Error that lists those it can.
const std::string& isa();

}  // namespace comera::kernels
