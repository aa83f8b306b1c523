#include <comera/base/error.h>
#include <comera/base/file.h>
#include <comera/base/machine.h>
#include <comera/exec/profile.h>
#include <comera/weights/torch.h>

namespace comera::exec {

std::filesystem::path profile_path(const std::filesystem::path& folder, plan::DType dtype) {
  const std::string key =
      fmt::format("{} {} {}", cpu_name(), torch::get_num_threads(), plan::to_string(dtype));
  return folder / fmt::format("profile-{}.json", hex(hash_bytes(key)));
}

std::optional<plan::Profile> saved_profile(const std::filesystem::path& folder, plan::DType dtype,
                                           const std::function<void(const std::string&)>& warn) {
  const auto path = profile_path(folder, dtype);
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::nullopt;
  try {
    return plan::load_profile(path, cpu_name(), torch::get_num_threads(), dtype);
  } catch (const Error& problem) {
    if (warn) warn(fmt::format("warning: {}; it is left aside", problem.what()));
    return std::nullopt;
  }
}

plan::Profile machine_profile(const std::filesystem::path& folder, const MeasureOptions& options,
                              const std::function<void(const std::string&)>& warn) {
  if (auto saved = saved_profile(folder, options.dtype, warn)) return *saved;
  const plan::Profile profile = measure_profile(options);
  plan::save_profile(profile, profile_path(folder, options.dtype));
  return profile;
}

}  // namespace comera::exec
