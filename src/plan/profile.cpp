#include <comera/base/error.h>
#include <comera/base/file.h>
#include <comera/plan/profile.h>

#include <algorithm>
#include <cmath>

namespace comera::plan {
namespace {

constexpr int kVersion = 1;
constexpr std::size_t kMostSizes = 64;
constexpr std::uint64_t kLargestFile = 1 << 24;

// No machine is outside; sums and quotients of what is inside stay finite.
bool usable(double value) { return value >= 1e-15 && value <= 1e18; }

void validate(const RateTable& table, const std::string& where, const std::string& name) {
  for (const auto* axis : {&table.m, &table.k, &table.n}) {
    check(!axis->empty() && axis->size() <= kMostSizes,
          "{}: {} has {} sizes on an axis, 1 to {} are possible", where, name, axis->size(), kMostSizes);
    for (std::size_t i = 0; i < axis->size(); ++i)
      check((*axis)[i] >= (i == 0 ? 1 : (*axis)[i - 1] + 1), "{}: the sizes of {} are not ascending from 1",
            where, name);
  }
  check(table.rates.size() == table.m.size() * table.k.size() * table.n.size(),
        "{}: {} has {} rates, expected {}", where, name, table.rates.size(),
        table.m.size() * table.k.size() * table.n.size());
  for (const double rate : table.rates)
    check(usable(rate), "{}: a rate of {} is {}, which no machine has", where, name, rate);
}

// A usual machine: `peak` where all sizes are large, less where one is small and registers or lanes stay
// empty.
RateTable usual_table(std::vector<std::int64_t> sizes, double peak, double half) {
  RateTable table{sizes, sizes, sizes, {}};
  const auto share = [half](std::int64_t size) {
    return static_cast<double>(size) / (static_cast<double>(size) + half);
  };
  for (const auto m : sizes)
    for (const auto k : sizes)
      for (const auto n : sizes) table.rates.push_back(peak * share(m) * share(k) * share(n));
  return table;
}

Json table_json(const RateTable& table) {
  return {{"m", table.m}, {"k", table.k}, {"n", table.n}, {"multiply_adds_per_second", table.rates}};
}

// Members of an object whose kind is checked; anything else is an Error that names the source.
struct Reader {
  const Json& json;
  const std::string& source;

  const Json& at(const char* key) const {
    check(json.is_object() && json.contains(key), "{}: not a machine profile: no \"{}\"", source, key);
    return json[key];
  }
  template <class T>
  T get(const char* key) const {
    try {
      const Json& value = at(key);
      if constexpr (std::is_arithmetic_v<T>)
        check(value.is_number(), "{}: \"{}\" is not a number", source, key);
      return value.get<T>();
    } catch (const Json::exception&) {
      fail("{}: \"{}\" is not what it should be", source, key);
    }
  }
  RateTable table(const char* key) const {
    const Reader inner{at(key), source};
    return {inner.get<std::vector<std::int64_t>>("m"), inner.get<std::vector<std::int64_t>>("k"),
            inner.get<std::vector<std::int64_t>>("n"),
            inner.get<std::vector<double>>("multiply_adds_per_second")};
  }
};

}  // namespace

std::int64_t element_bytes(DType dtype) {
  return dtype == DType::float64 ? 8 : dtype == DType::float32 ? 4 : 2;
}

std::string to_string(DType dtype) {
  switch (dtype) {
    case DType::float64:
      return "float64";
    case DType::float32:
      return "float32";
    case DType::bfloat16:
      return "bfloat16";
    case DType::float16:
      return "float16";
  }
  return "";
}

DType parse_dtype(const std::string& name) {
  for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16, DType::float16})
    if (to_string(dtype) == name) return dtype;
  fail("[plan] unknown type \"{}\"; known are float64, float32, bfloat16, float16", name);
}

Profile default_profile(DType dtype) {
  Profile profile;
  profile.machine = "default";
  profile.threads = 2;
  profile.dtype = dtype;
  const double peak = dtype == DType::float64 ? 16e9 : 32e9;
  profile.single = usual_table({1, 2, 4, 8, 16, 32, 64, 256, 1024, 4096}, peak, 6);
  profile.batched = usual_table({1, 2, 4, 8, 16, 32, 64, 256}, 0.8 * peak, 8);
  profile.bandwidth = 12e9;
  profile.copy_bandwidth = 4e9;
  profile.start_seconds = 4e-6;
  profile.rates = {{"elementwise", 8e9}, {"elementwise_in_cache", 24e9}, {"unique", 40e6}};
  return profile;
}

void validate(const Profile& profile, const std::string& where) {
  check(profile.threads >= 1, "{}: threads must be 1 or more, got {}", where, profile.threads);
  validate(profile.single, where, "single");
  validate(profile.batched, where, "batched");
  check(usable(profile.bandwidth) && usable(profile.copy_bandwidth) && usable(profile.start_seconds),
        "{}: bandwidths and start must be positive, got {}, {} bytes/s and {} s", where, profile.bandwidth,
        profile.copy_bandwidth, profile.start_seconds);
  for (const auto& [name, rate] : profile.rates)
    check(usable(rate), "{}: the rate of {} must be positive, got {}", where, name, rate);
}

Json to_json(const Profile& profile) {
  return {{"format", "comera machine profile"},
          {"version", kVersion},
          {"machine", profile.machine},
          {"threads", profile.threads},
          {"dtype", to_string(profile.dtype)},
          {"bandwidth_bytes_per_second", profile.bandwidth},
          {"copy_bytes_per_second", profile.copy_bandwidth},
          {"start_seconds", profile.start_seconds},
          {"single", table_json(profile.single)},
          {"batched", table_json(profile.batched)},
          {"rates", profile.rates}};
}

Profile profile_from_json(const Json& json, const std::string& source) {
  const Reader reader{json, source};
  check(reader.get<std::string>("format") == "comera machine profile", "{}: not a machine profile", source);
  check(reader.get<int>("version") == kVersion, "{}: a profile of version {}, this program has {}", source,
        reader.get<int>("version"), kVersion);
  Profile profile;
  profile.machine = reader.get<std::string>("machine");
  profile.threads = reader.get<int>("threads");
  const std::string dtype = reader.get<std::string>("dtype");
  bool known = false;
  for (const DType one : {DType::float64, DType::float32, DType::bfloat16, DType::float16})
    if (to_string(one) == dtype) profile.dtype = one, known = true;
  check(known, "{}: unknown type \"{}\"", source, dtype);
  profile.bandwidth = reader.get<double>("bandwidth_bytes_per_second");
  profile.copy_bandwidth = reader.get<double>("copy_bytes_per_second");
  profile.start_seconds = reader.get<double>("start_seconds");
  profile.single = reader.table("single");
  profile.batched = reader.table("batched");
  check(reader.at("rates").is_object(), "{}: \"rates\" is not an object", source);
  for (const auto& [name, rate] : reader.at("rates").items()) {
    check(rate.is_number(), "{}: the rate of {} is not a number", source, name);
    profile.rates[name] = rate.get<double>();
  }
  validate(profile, source);
  return profile;
}

void save_profile(const Profile& profile, const std::filesystem::path& path) {
  validate(profile, path.string());
  write_file(path, to_json(profile).dump(1) + "\n");
}

Profile load_profile(const std::filesystem::path& path, const std::string& machine, int threads,
                     DType dtype) {
  const Profile profile =
      profile_from_json(parse_json(read_file(path, kLargestFile), path.string()), path.string());
  check(profile.machine == machine && profile.threads == threads && profile.dtype == dtype,
        "{}: a profile of {}, {} threads, {}; this is {}, {} threads, {}", path.string(), profile.machine,
        profile.threads, to_string(profile.dtype), machine, threads, to_string(dtype));
  return profile;
}

RateLookup::RateLookup(const RateTable& table) {
  const std::vector<std::int64_t>* axes[] = {&table.m, &table.k, &table.n};
  for (int a = 0; a < 3; ++a)
    for (const std::int64_t size : *axes[a]) axes_[a].push_back(std::log2(static_cast<double>(size)));
  for (const double rate : table.rates) {
    log_rates_.push_back(std::log2(rate));
    highest_ = std::max(highest_, rate);
  }
}

double RateLookup::rate(double m, double k, double n) const {
  const double sizes[] = {m, k, n};
  std::size_t below[3], above[3];
  double share[3];  // of the upper neighbour
  for (int a = 0; a < 3; ++a) {
    const auto& axis = axes_[a];
    const double at = std::log2(sizes[a]);
    std::size_t i = 0;
    while (i + 1 < axis.size() && axis[i + 1] <= at) ++i;
    below[a] = i;
    above[a] = std::min(i + 1, axis.size() - 1);
    share[a] = above[a] == i || at <= axis[i] ? 0 : (at - axis[i]) / (axis[above[a]] - axis[i]);
  }
  const std::size_t row = axes_[2].size(), plane = row * axes_[1].size();
  const auto along_n = [&](std::size_t i, std::size_t j) {
    const double* line = &log_rates_[i * plane + j * row];
    return line[below[2]] + share[2] * (line[above[2]] - line[below[2]]);
  };
  const auto along_k = [&](std::size_t i) {
    const double first = along_n(i, below[1]);
    return share[1] == 0 ? first : first + share[1] * (along_n(i, above[1]) - first);
  };
  const double first = along_k(below[0]);
  return std::exp2(share[0] == 0 ? first : first + share[0] * (along_k(above[0]) - first));
}

}  // namespace comera::plan
