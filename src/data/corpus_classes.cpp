#include "corpus_classes.h"

#include <comera/base/error.h>
#include <comera/base/file.h>
#include <comera/base/random.h>

#include <algorithm>
#include <map>
#include <set>

namespace comera::data {
namespace {

using Counts = std::map<std::string, std::int64_t>;

std::int64_t functions_in(const HarvestedFile& file) {
  return static_cast<std::int64_t>(file.functions.size());
}

// Packages, and the parts of large packages, with enough functions; what remains of a divided package counts
// as the package. Empty where a file belongs to no class.
std::vector<std::string> name_classes(const std::vector<HarvestedFile>& files, const CorpusOptions& options) {
  Counts packages, parts;
  const auto part_name = [](const CorpusFile& file) { return file.package + "." + file.part; };
  for (const auto& file : files) {
    packages[file.file.package] += functions_in(file);
    parts[part_name(file.file)] += functions_in(file);
  }
  std::vector<std::string> names;
  Counts classes;
  for (const auto& file : files) {
    const bool divided = packages[file.file.package] > options.split_above && !file.file.part.empty() &&
                         parts[part_name(file.file)] >= options.least_functions;
    names.push_back(divided ? part_name(file.file) : file.file.package);
    classes[names.back()] += functions_in(file);
  }

  std::vector<std::pair<std::int64_t, std::string>> by_count;
  for (const auto& [name, count] : classes)
    if (count >= options.least_functions) by_count.emplace_back(-count, name);
  std::sort(by_count.begin(), by_count.end());
  if (static_cast<std::int64_t>(by_count.size()) > options.classes) by_count.resize(options.classes);
  std::set<std::string> chosen;
  for (const auto& [count, name] : by_count) chosen.insert(name);
  for (auto& name : names)
    if (!chosen.count(name)) name.clear();
  return names;
}

// Holds whole files out, in an order given by their names and the seed, until the share is reached; a file
// that would go far beyond it is passed over.
void hold_out(std::vector<HarvestedFile*> files, const CorpusOptions& options) {
  std::vector<std::pair<std::uint64_t, HarvestedFile*>> order;
  double all = 0, held = 0;
  for (auto* file : files) {
    order.emplace_back(mix64(hash_bytes(file->file.relative) ^ options.seed), file);
    all += static_cast<double>(functions_in(*file));
  }
  std::sort(order.begin(), order.end());
  const double target = options.held_out * all;
  for (auto& [key, file] : order) {
    if (held >= target) break;
    if (held + static_cast<double>(functions_in(*file)) > 1.25 * target) continue;
    file->held_out = true;
    held += static_cast<double>(functions_in(*file));
  }
  if (held > 0) return;
  // Few, large files: the smallest one.
  (*std::min_element(files.begin(), files.end(), [](const auto* a, const auto* b) {
    return functions_in(*a) < functions_in(*b);
  }))->held_out = true;
}

// Largest cap under which no class has more than `share` of what remains; the smallest class when none is.
std::int64_t balanced_cap(const std::vector<std::int64_t>& counts, double share) {
  const auto fits = [&](std::int64_t cap) {
    std::int64_t sum = 0, most = 0;
    for (const auto count : counts) {
      sum += std::min(count, cap);
      most = std::max(most, std::min(count, cap));
    }
    return static_cast<double>(most) <= share * static_cast<double>(sum);
  };
  std::int64_t low = *std::min_element(counts.begin(), counts.end());
  std::int64_t high = *std::max_element(counts.begin(), counts.end()) + 1;
  while (low + 1 < high) {
    const std::int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

// Marks `cap` functions of the files, chosen evenly by hash.
void take(const std::vector<HarvestedFile*>& files, std::int64_t cap, std::uint64_t seed) {
  std::vector<std::pair<std::uint64_t, HarvestedFile::Function*>> order;
  for (auto* file : files)
    for (auto& function : file->functions) order.emplace_back(mix64(function.hash ^ seed), &function);
  std::sort(order.begin(), order.end());
  if (static_cast<std::int64_t>(order.size()) > cap) order.resize(cap);
  for (auto& [key, function] : order) function->taken = true;
}

}  // namespace

std::vector<std::string> choose_classes(std::vector<HarvestedFile>& files, const CorpusOptions& options) {
  const std::vector<std::string> names = name_classes(files, options);
  std::map<std::string, std::vector<HarvestedFile*>> by_class;
  for (std::size_t i = 0; i < files.size(); ++i)
    if (!names[i].empty() && !files[i].functions.empty()) by_class[names[i]].push_back(&files[i]);
  // Both sides need a file.
  std::erase_if(by_class, [](const auto& entry) { return entry.second.size() < 2; });
  check(by_class.size() >= 2,
        "[corpus] {} packages with {} or more functions found; name folders with more Python packages",
        by_class.size(), options.least_functions);

  std::vector<std::string> classes;
  std::vector<std::vector<HarvestedFile*>> held(by_class.size()), train(by_class.size());
  std::vector<std::int64_t> held_counts(by_class.size(), 0);
  for (auto& [name, members] : by_class) {
    const std::size_t label = classes.size();
    classes.push_back(name);
    hold_out(members, options);
    for (auto* file : members) {
      file->label = static_cast<std::int64_t>(label);
      (file->held_out ? held : train)[label].push_back(file);
      if (file->held_out) held_counts[label] += functions_in(*file);
    }
  }
  const std::int64_t cap = balanced_cap(held_counts, options.largest_share);
  for (std::size_t label = 0; label < classes.size(); ++label) {
    take(train[label], options.train_per_class, options.seed);
    take(held[label], cap, options.seed);
  }
  return classes;
}

}  // namespace comera::data
