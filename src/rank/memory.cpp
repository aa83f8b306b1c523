#include "memory.h"

namespace comera::rank {

Json to_json(const Memory& memory) {
  return {{"start_size", memory.start_size},
          {"l2_units", memory.l2_units},
          {"stage", static_cast<int>(memory.stage)},
          {"gamma", memory.gamma ? Json(*memory.gamma) : Json()},
          {"step", memory.step},
          {"progress", memory.progress},
          {"late", memory.late.save()},
          {"late_size", memory.late_size},
          {"sensitivity", memory.sensitivity},
          {"fixed_at", memory.fixed_at},
          {"forced", memory.forced},
          {"finished", memory.finished},
          {"live", memory.live}};
}

Memory memory_from_json(const Json& saved) {
  Memory memory;
  saved.at("start_size").get_to(memory.start_size);
  saved.at("l2_units").get_to(memory.l2_units);
  memory.stage = static_cast<Stage>(saved.at("stage").get<int>());
  if (!saved.at("gamma").is_null()) memory.gamma = saved.at("gamma").get<double>();
  saved.at("step").get_to(memory.step);
  saved.at("progress").get_to(memory.progress);
  memory.late.load(saved.at("late"));
  saved.at("late_size").get_to(memory.late_size);
  saved.at("sensitivity").get_to(memory.sensitivity);
  saved.at("fixed_at").get_to(memory.fixed_at);
  saved.at("forced").get_to(memory.forced);
  saved.at("finished").get_to(memory.finished);
  saved.at("live").get_to(memory.live);
  return memory;
}

}  // namespace comera::rank
