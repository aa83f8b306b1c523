#include "command.h"

#include <comera/base/machine.h>
#include <comera/base/text.h>
#include <comera/exec/profile.h>
#include <comera/kernels/isa.h>
#include <comera/ops/implementation.h>
#include <comera/train/task.h>
#include <comera/weights/torch.h>

#include <ATen/Version.h>
#include <torch/cuda.h>
#include <torch/version.h>

#include <cstdlib>

namespace comera::cli {
namespace {

#ifdef _GLIBCXX_USE_CXX11_ABI
constexpr bool kNewAbi = _GLIBCXX_USE_CXX11_ABI;
#else
constexpr bool kNewAbi = true;
#endif

struct Options {
  bool json = false, profile = false;
  std::string cache = ".cache/comera", dtype = "float32";
  std::int64_t threads = 0;
  double seconds = 50;
};

// Measures the machine, keeps the figures for the planner, and shows the main ones.
int run_profile(const Options& options) {
  exec::MeasureOptions measure{plan::parse_dtype(options.dtype), options.seconds};
  double told = -1;
  measure.progress = [&](double done, double left) {
    if (done < told + 0.1) return;
    told = done;
    say(true, fmt::format("measuring: {:.0f}%, {} left", 100 * done, format_duration(left)));
  };
  const plan::Profile profile = exec::measure_profile(measure);
  const auto path = exec::profile_path(options.cache, measure.dtype);
  plan::save_profile(profile, path);
  if (options.json) {
    Json json = plan::to_json(profile);
    json["file"] = path.string();
    print_json(json);
    return 0;
  }
  const auto line = [](const char* what, double value, const char* unit) {
    say(false, fmt::format("{:<34} {:>9.2f} {}", what, value, unit));
  };
  const auto most = [](const plan::RateTable& table) {
    return *std::max_element(table.rates.begin(), table.rates.end()) / 1e9;
  };
  say(false, fmt::format("{}, {} threads, {}", profile.machine, profile.threads, options.dtype));
  line("fastest product", most(profile.single), "billion multiply-adds a second");
  line("fastest batched product", most(profile.batched), "billion multiply-adds a second");
  const plan::RateLookup lookup(profile.single);
  line("product 4096 x 768 x 30", lookup.rate(4096, 768, 30) / 1e9, "billion multiply-adds a second");
  line("product 12 x 12 x 12", lookup.rate(12, 12, 12) / 1e9, "billion multiply-adds a second");
  line("read by products", profile.bandwidth / 1e9, "GB/s");
  line("permuting copies", profile.copy_bandwidth / 1e9, "GB/s, read + written");
  line("element by element", profile.rates.at("elementwise") / 1e9, "GB/s, read + written");
  line("element by element, in cache", profile.rates.at("elementwise_in_cache") / 1e9,
       "GB/s, read + written");
  line("distinct values", profile.rates.at("unique") / 1e6, "million keys a second");
  line("start of an operation", profile.start_seconds * 1e6, "us");
  say(false, fmt::format("kept in {}", path.string()));
  return 0;
}

int run(const Options& options) {
  set_threads(options.threads);
  if (options.profile) return run_profile(options);
  const auto data = train::expand_path("$COMERA_DATA");
  const bool cuda = torch::cuda::is_available();
  const Json found{{"comera", COMERA_VERSION},
                   {"torch", TORCH_VERSION},
                   {"abi", kNewAbi ? "C++11" : "before C++11"},
                   {"cuda", cuda ? fmt::format("{} device(s)", torch::cuda::device_count())
                                 : std::string("not available")},
                   {"blas", at::hasMKL()      ? "MKL"
                            : at::hasLAPACK() ? "LAPACK"
                                              : "none"},
                   {"processor", cpu_name()},
                   {"instruction_sets", cpu_features()},
                   {"kernel_instruction_sets", kernels::available_isas()},
                   {"torch_instruction_set", at::get_cpu_capability()},
                   {"cores", available_cores()},
                   {"threads", torch::get_num_threads()},
                   {"memory_bytes", available_memory()},
                   {"implementation", ops::use_reference() ? "reference" : "fused"},
                   {"data", std::filesystem::exists(data) ? data.string()
                                                          : data.string() + " (not found; set COMERA_DATA)"}};
  if (options.json) {
    print_json(found);
    return 0;
  }
  for (const auto& [key, value] : found.items()) {
    std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    if (key == "memory_bytes") text = format_bytes(value.get<double>());
    say(false, fmt::format("{:<22} {}", key, text));
  }
  return 0;
}

}  // namespace

void add_doctor(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("doctor", "Show what comera found: torch, processor, threads, memory, data");
  command->add_flag(
      "--profile", options->profile,
      "measure how fast this machine multiplies and copies, for about a minute, and keep it for "
      "the planner");
  command->add_option("--dtype", options->dtype, "with --profile: number type to measure")
      ->capture_default_str();
  command->add_option("--seconds", options->seconds, "with --profile: about how long to measure")
      ->capture_default_str();
  command->add_option("--cache", options->cache, "with --profile: folder to keep it in (data.cache)")
      ->capture_default_str();
  command->add_option("--threads", options->threads, "CPU threads; 0 = all available")->capture_default_str();
  command->add_flag("--json", options->json, "print as JSON");
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace comera::cli
