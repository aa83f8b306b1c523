// Which implementation the operators use: COMERA_IMPL=fused (default) or reference; COMERA_ISA limits the
// kernels.
#pragma once

namespace comera::ops {

/// True when COMERA_IMPL=reference. Read once; any other value than reference or fused is an Error.
bool use_reference();

}  // namespace comera::ops
