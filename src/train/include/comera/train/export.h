// Weights of a trained model as a safetensors file that other tools load.
#pragma once

#include <comera/train/saved_model.h>

#include <cstdint>
#include <filesystem>

namespace comera::train {

enum class ExportFormat {
  factored,  ///< cores with the rank scales folded in: LAYER.cores.K, TT [r, s, r'], TTM [r, m, n, r']
  dense,     ///< LAYER.weight: linear layers [out, in], tables [rows, cols]
};

/// Writes atomically; the file's metadata holds "format", "recipe" (TOML), "labels" and, factored, "layers"
/// (JSON: name, kind, digits, ranks). Layers are rebuilt one at a time. Returns the number of values written.
std::int64_t export_model(const SavedModel& saved, const std::filesystem::path& path, ExportFormat format);

}  // namespace comera::train
