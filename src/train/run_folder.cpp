#include "run_folder.h"

#include <comera/base/error.h>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace comera::train {
namespace fs = std::filesystem;

RunFolder::RunFolder(fs::path folder) : folder_(std::move(folder)) {
  std::error_code error;
  fs::create_directories(folder_, error);
  check(!error, "{}: cannot make the folder: {}", folder_.string(), error.message());
  const fs::path path = folder_ / "lock";
  lock_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  check(lock_ >= 0, "{}: cannot write in its folder: {}", path.string(), std::strerror(errno));
  // File systems without locks give another error, and no protection.
  const bool taken = ::flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (taken) ::close(lock_);
  check(!taken, "{}: another run is writing here; give this one another --out", folder_.string());
}

RunFolder::~RunFolder() { ::close(lock_); }

bool RunFolder::set_aside() const {
  bool found = false;
  for (const char* name : {"summary.json", "best.ckpt", "last.ckpt", "metrics.jsonl", "metrics.csv",
                           "events.jsonl", "recipe.toml"}) {
    const fs::path from = folder_ / name, to = folder_ / "previous" / name;
    if (!fs::exists(from)) continue;
    std::error_code error;
    fs::create_directories(to.parent_path(), error);
    if (!error) fs::rename(from, to, error);
    check(!error, "{}: cannot be moved to {}: {}; give this run another --out", from.string(), to.string(),
          error.message());
    found = true;
  }
  return found;
}

}  // namespace comera::train
