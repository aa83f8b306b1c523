// Every kernel calls this before it dispatches.
#pragma once

namespace comera::kernels {

/// Makes Highway dispatch to isa(). Only the first call does work.
void select_isa();

}  // namespace comera::kernels
