#include "require.h"

#include <comera/base/error.h>
#include <comera/plan/plan.h>

#include <cstdint>

// A plan that was accepted is written and read again to the same plan; a profile likewise.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace comera;
  const std::string_view content(reinterpret_cast<const char*>(data), size);
  try {
    const Json json = parse_json(content, "input");
    if (json.is_object() && json.contains("single")) {
      const plan::Profile profile = plan::profile_from_json(json, "input");
      REQUIRE(plan::profile_from_json(plan::to_json(profile), "again") == profile);
    } else {
      const plan::Plan plan = plan::plan_from_json(json, "input");
      REQUIRE(plan::plan_from_json(plan::to_json(plan), "again") == plan);
      if (plan.tree) plan::draw_svg(plan);
      REQUIRE(!plan::to_string(plan).empty());
    }
  } catch (const Error& error) {
    REQUIRE(std::string_view(error.what()).starts_with("input"));
  }
  return 0;
}
