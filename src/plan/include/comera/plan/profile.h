// What a machine can do, as plain data. Measured by exec, kept in a file, read here.
#pragma once

#include <comera/base/json.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace comera::plan {

enum class DType { float64, float32, bfloat16, float16 };
std::int64_t element_bytes(DType dtype);
std::string to_string(DType dtype);
/// Throws Error listing the known names.
DType parse_dtype(const std::string& name);

/// Rate of a product [m, k] x [k, n] in multiply-adds a second over a grid of sizes. Between the grid's
/// points the logarithm is interpolated in the logarithms of the sizes; outside, the nearest point holds.
struct RateTable {
  std::vector<std::int64_t> m, k, n;  ///< ascending, 1 to 64 sizes each
  std::vector<double> rates;          ///< [m, k, n] row-major, all positive
  bool operator==(const RateTable&) const = default;
};

struct Profile {
  std::string machine;  ///< CPU model or device
  int threads = 1;
  DType dtype = DType::float32;
  RateTable single;           ///< one product a call
  RateTable batched;          ///< many equal products a call: rate of all of them together
  double bandwidth = 0;       ///< most bytes a second that a product can read and write, in cache
  double copy_bandwidth = 0;  ///< bytes a second, read + written, of a copy that permutes
  double start_seconds = 0;   ///< of one operation, whatever its size
  /// Rates of everything else by name. Known here: "elementwise" and "elementwise_in_cache", bytes a second
  /// read + written; "memory_read" and "memory_write", bytes a
  /// second of products past all caches; "unique", keys a second sorted to
  /// find the distinct ones. exec may add its own.
  std::map<std::string, double> rates;

  bool operator==(const Profile&) const = default;
};

/// For planning before anything is measured: a usual two-core machine. Only ratios mean something.
Profile default_profile(DType dtype = DType::float32);

/// Throws Error unless all numbers are finite, positive and the tables complete.
void validate(const Profile& profile, const std::string& where);

Json to_json(const Profile& profile);
/// Throws Error naming `source` for anything that is not a whole valid profile of this version.
Profile profile_from_json(const Json& json, const std::string& source);

void save_profile(const Profile& profile, const std::filesystem::path& path);
/// Throws Error for an absent or corrupt file and for a profile of another machine, thread count or type: the
/// caller warns once and measures again.
Profile load_profile(const std::filesystem::path& path, const std::string& machine, int threads, DType dtype);

/// Looks rates up fast; keeps nothing of the table it was made from.
class RateLookup {
 public:
  explicit RateLookup(const RateTable& table);
  double rate(double m, double k, double n) const;
  double highest() const { return highest_; }

 private:
  std::vector<double> axes_[3], log_rates_;
  double highest_ = 0;
};

}  // namespace comera::plan
