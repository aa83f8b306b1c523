// Digits and ranks for a layer of given width under a budget.
#pragma once

#include <comera/plan/plan.h>

namespace comera::plan {

struct AdvisorRequest {
  std::int64_t in = 0, out = 0;
  std::int64_t tokens = 4096;
  std::int64_t parameters = 0;  ///< cores + rank scales at most; 0 = no such budget
  double seconds = 0;           ///< predicted forward + backward at most; 0 = no such budget
  int most_digits = 4;          ///< a side
  DType dtype = DType::float32;
};

struct Suggestion {
  format::Shape shape;  ///< outer bonds as large as the digits allow
  std::int64_t parameters = 0;
  double predicted_seconds = 0;
  std::int64_t middle_rank = 0;
  std::string warning;  ///< why the digits split badly, or empty
};

/// No suggestion is beaten by another in size, time and middle rank at once; ascending in size. Throws Error
/// unless at least one budget is given, or when no shape meets it, naming the smallest that would.
std::vector<Suggestion> advise(const AdvisorRequest& request, const Profile& profile);

std::string to_string(const std::vector<Suggestion>& suggestions);
Json to_json(const std::vector<Suggestion>& suggestions);

}  // namespace comera::plan
