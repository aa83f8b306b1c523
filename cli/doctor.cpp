#include "command.h"

#include <comera/base/machine.h>
#include <comera/base/text.h>
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

int run(bool json) {
  set_threads(0);
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
  if (json) {
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
  auto json = std::make_shared<bool>(false);
  CLI::App* command =
      app.add_subcommand("doctor", "Show what comera found: torch, processor, threads, memory, data");
  command->add_flag("--json", *json, "print as JSON");
  command->callback([json, &action] { action = [json] { return run(*json); }; });
}

}  // namespace comera::cli
