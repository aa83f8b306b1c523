// Measures what this machine can do, with the primitives that run plans, and keeps it in a file.
#pragma once

#include <comera/plan/profile.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace comera::exec {

struct MeasureOptions {
  plan::DType dtype = plan::DType::float32;
  double seconds = 50;  ///< about how long to measure
  /// Called now and then: how much is done, 0 to 1, and seconds left.
  std::function<void(double done, double seconds_left)> progress = {};
};

/// The profile of the CPU with torch's present number of threads. Each figure is the least of several runs,
/// spread over time, so that other work on the machine does little to it.
plan::Profile measure_profile(const MeasureOptions& options);

/// The file of this machine's profile in a folder of prepared data: one for each CPU model, number of threads
/// and type.
std::filesystem::path profile_path(const std::filesystem::path& folder, plan::DType dtype);

/// What lies there, or none. A damaged file and one of another machine are left aside with one warning.
std::optional<plan::Profile> saved_profile(const std::filesystem::path& folder, plan::DType dtype,
                                           const std::function<void(const std::string&)>& warn);

/// The saved profile, or else one measured now and saved.
plan::Profile machine_profile(const std::filesystem::path& folder, const MeasureOptions& options,
                              const std::function<void(const std::string&)>& warn);

}  // namespace comera::exec
