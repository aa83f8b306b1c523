// Bytes that tensors use: torch's CPU allocator with a count of what is held now and of the peak.
#pragma once

#include <cstdint>

namespace comera::train {

/// Puts the counting allocator under torch (once a process, before tensors are made) and tells the C library
/// to keep freed blocks: a step frees and takes the same large blocks, and fresh pages cost more than the
/// work in them.
void install_allocation_counter();

/// Bytes held by CPU tensors now, and the most since the last reset. 0 before the counter is installed.
std::int64_t allocated_bytes();
std::int64_t peak_allocated_bytes();
void reset_peak_allocated_bytes();

/// Gives freed blocks back to the system, so that what follows is measured without what came before.
void return_free_memory();

/// Resident bytes after loading torch and one small product: what an idle process costs. Call early, once.
std::uint64_t measure_idle_bytes();

}  // namespace comera::train
