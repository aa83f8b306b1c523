// A checkpoint: everything a run needs to go on, in one safetensors file that other tools can open too.
#pragma once

#include <comera/base/json.h>
#include <comera/io/safetensors.h>

#include <filesystem>

namespace comera::io {

/// Version of the container that this build writes; it reads all versions up to it.
constexpr int kCheckpointVersion = 1;

struct Checkpoint {
  Json state;            ///< an object: what is not a tensor
  NamedTensors tensors;  ///< in the order they were saved
};

/// Replaces `path` atomically: after a kill, a power cut or a full disk the file before it still loads.
/// Throws Error `path: what` when the state or a tensor cannot be stored exactly (a number that is not
/// finite, text that is not UTF-8, a sparse tensor).
void save_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint);

/// Tensors arrive on the CPU, bit for bit as saved. Throws a one-line Error `path: what; what to do` when the
/// file is absent, no checkpoint, truncated, damaged in any byte that counts, or of a newer version.
Checkpoint load_checkpoint(const std::filesystem::path& path);

}  // namespace comera::io
