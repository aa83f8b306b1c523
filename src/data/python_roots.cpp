#include "child_process.h"

#include <comera/base/error.h>
#include <comera/base/json.h>
#include <comera/data/corpus.h>

namespace comera::data {
namespace {

// The folder Python is called in must not be searched for modules, so it leaves the path first.
constexpr const char* kScript = R"(
import sys
sys.path = [p for p in sys.path if p]
import json, os, sysconfig
packages = [p for p in sys.path if os.path.basename(p) in ("site-packages", "dist-packages") and os.path.isdir(p)]
print(json.dumps({"stdlib": sysconfig.get_path("stdlib"), "packages": packages}))
)";

constexpr std::size_t kLongestAnswer = 1 << 20;

}  // namespace

std::vector<CorpusRoot> python_roots(const std::string& python) {
  const Json answer = parse_json(program_output({python, "-c", kScript}, kLongestAnswer), python);
  check(answer.is_object() && answer.contains("stdlib") && answer["stdlib"].is_string() &&
            answer.contains("packages") && answer["packages"].is_array(),
        "'{}' could not tell where its packages are; is it a Python 3?", python);
  std::vector<CorpusRoot> roots{{answer["stdlib"].get<std::string>(), true}};
  for (const auto& path : answer["packages"])
    if (path.is_string()) roots.push_back({path.get<std::string>(), false});
  return roots;
}

}  // namespace comera::data
