#include "cache.h"

#include <comera/base/error.h>
#include <comera/base/file.h>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace comera::data {
namespace fs = std::filesystem;
namespace {

// Bytes of a file name that come from the source's name.
constexpr std::size_t kLongestSide = 80;

// Held by the one process that builds in a folder. The system releases it when the process ends, however it
// ends.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& folder) {
    const fs::path path = folder / "lock";
    descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    check(descriptor_ >= 0, "{}: cannot write in its folder: {}", path.string(), std::strerror(errno));
    int result = 0;
    while ((result = ::flock(descriptor_, LOCK_EX)) != 0 && errno == EINTR) continue;
    held_ = result == 0;
  }
  ~FolderLock() { ::close(descriptor_); }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  /// False on file systems without locks: builders may then do the same work twice, which is harmless.
  bool held() const { return held_; }

 private:
  int descriptor_ = -1;
  bool held_ = false;
};

// Temporary files that a killed builder of this file left.
void remove_leftovers(const fs::path& path) {
  const std::string prefix = path.filename().string() + ".tmp-";
  std::error_code error;
  for (fs::directory_iterator it(path.parent_path(), error), end; !error && it != end; it.increment(error))
    if (it->path().filename().string().starts_with(prefix)) {
      std::error_code ignored;
      fs::remove(it->path(), ignored);
    }
}

std::optional<Dataset> open_good(const fs::path& path, const Json& key,
                                 const std::function<void(const std::string&)>& warn) {
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  try {
    Dataset dataset(path);
    const Json description = parse_json(dataset.description(), path.string());
    check(description.is_object() && description.value("key", Json()) == key,
          "{}: prepared data with another key than its name says", path.string());
    return dataset;
  } catch (const Error& problem) {
    if (warn) warn(fmt::format("{}; it is prepared again", problem.what()));
    return std::nullopt;
  }
}

std::vector<Dataset> open_all(const std::vector<fs::path>& paths, const Json& key,
                              const std::function<void(const std::string&)>& warn) {
  std::vector<Dataset> all;
  for (const auto& path : paths) {
    auto dataset = open_good(path, key, warn);
    if (!dataset) return {};
    all.push_back(std::move(*dataset));
  }
  return all;
}

}  // namespace

std::vector<Dataset> cached(const PrepareOptions& options, const std::string& kind,
                            const std::vector<std::string>& sides, const Json& key,
                            const std::function<Json(std::vector<DatasetWriter>&)>& build) {
  check(!options.cache.empty(), "[prepare] name a folder for prepared data");
  std::vector<fs::path> paths;
  for (const auto& side : sides)
    paths.push_back(options.cache / fmt::format("{}-{}-{}.comera", kind, side.substr(0, kLongestSide),
                                                hex(hash_bytes(key.dump()))));
  if (auto found = open_all(paths, key, {}); !found.empty()) return found;

  std::error_code error;
  fs::create_directories(options.cache, error);
  check(!error, "{}: cannot make the folder: {}", options.cache.string(), error.message());
  const FolderLock lock(options.cache);
  // Another process may have built them while this one waited.
  if (auto found = open_all(paths, key, options.warn); !found.empty()) return found;
  std::vector<DatasetWriter> writers;
  for (const auto& path : paths) {
    if (lock.held()) remove_leftovers(path);
    writers.emplace_back(path);
  }
  Json description = build(writers);
  description["key"] = key;
  for (auto& writer : writers) writer.commit(description.dump());
  std::vector<Dataset> built;
  for (const auto& path : paths) built.emplace_back(path);
  return built;
}

}  // namespace comera::data
