#include <comera/base/error.h>
#include <comera/base/text.h>
#include <comera/rank/event.h>

namespace comera::rank {

std::string to_string(EventKind kind) {
  switch (kind) {
    case EventKind::stage:
      return "stage";
    case EventKind::phase:
      return "phase";
    case EventKind::cut:
      return "cut";
    case EventKind::forced_cut:
      return "forced_cut";
    case EventKind::death:
      return "death";
    case EventKind::target:
      return "target";
  }
  return {};
}

std::string to_string(const Event& event) {
  std::string line = fmt::format("step {} {}", event.step, to_string(event.kind));
  if (!event.layer.empty())
    line += fmt::format(" {}: ranks {} -> {}", event.layer, fmt::join(event.old_ranks, ","),
                        fmt::join(event.new_ranks, ","));
  if (!event.text.empty()) line += (event.layer.empty() ? ": " : ", ") + event.text;
  return line + fmt::format(", {} parameters left", format_count(static_cast<double>(event.size)));
}

Json to_json(const Event& event) {
  Json json = {
      {"step", event.step}, {"kind", to_string(event.kind)}, {"text", event.text}, {"size", event.size}};
  if (!event.layer.empty()) {
    json["layer"] = event.layer;
    json["old_ranks"] = event.old_ranks;
    json["new_ranks"] = event.new_ranks;
  }
  return json;
}

}  // namespace comera::rank
