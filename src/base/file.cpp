#include <comera/base/error.h>
#include <comera/base/file.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

namespace comera {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kBufferBytes = 1 << 20;

std::string reason() { return std::strerror(errno); }

// Closes on every way out.
struct Descriptor {
  int value = -1;
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
};

int open_for_reading(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  check(descriptor >= 0, "{}: cannot open: {}", path.string(), reason());
  struct stat status {};
  if (::fstat(descriptor, &status) == 0 && S_ISDIR(status.st_mode)) {
    ::close(descriptor);
    fail("{}: is a folder, expected a file", path.string());
  }
  return descriptor;
}

std::size_t read_some(int descriptor, char* into, std::size_t count, const fs::path& path) {
  while (true) {
    const ssize_t got = ::read(descriptor, into, count);
    if (got >= 0) return static_cast<std::size_t>(got);
    check(errno == EINTR, "{}: cannot read: {}", path.string(), reason());
  }
}

constexpr const char* kTemporarySuffix = ".tmp-XXXXXX";

// Writers hold a lock on their temporary file. One that nobody holds is left from a process that was killed.
void remove_abandoned(const fs::path& path) {
  const std::string prefix = path.filename().string() + ".tmp-";
  std::error_code ignored;
  for (const auto& entry :
       fs::directory_iterator(path.has_parent_path() ? path.parent_path() : ".", ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix) || name.size() != prefix.size() + 6) continue;
    const Descriptor file{::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
    if (file.value >= 0 && ::flock(file.value, LOCK_EX | LOCK_NB) == 0) ::unlink(entry.path().c_str());
  }
}

// Makes and locks a file of its own for this writer.
int open_temporary(const fs::path& path, std::string& name) {
  while (true) {
    name = path.string() + kTemporarySuffix;
    const int descriptor = ::mkostemp(name.data(), O_CLOEXEC);
    check(descriptor >= 0, "{}: cannot write in its folder: {}", path.string(), reason());
    ::flock(descriptor, LOCK_EX);
    // Another writer may have taken it for abandoned before it was locked.
    struct stat status {};
    if (::fstat(descriptor, &status) != 0 || status.st_nlink > 0) return descriptor;
    ::close(descriptor);
  }
}

}  // namespace

std::string read_file(const fs::path& path, std::uint64_t limit) {
  const Descriptor file{open_for_reading(path)};
  std::string content;
  // Grows as bytes arrive: the size a file system reports is not believed.
  while (true) {
    const std::size_t used = content.size();
    check(used <= limit, "{}: larger than the {} bytes allowed here", path.string(), limit);
    content.resize(used + kBufferBytes);
    const std::size_t got = read_some(file.value, content.data() + used, kBufferBytes, path);
    content.resize(used + got);
    if (got == 0) return content;
  }
}

AtomicFile::AtomicFile(fs::path path) : path_(std::move(path)) {
  std::error_code error;
  // What a link points to is replaced, not the link; a device or a folder never.
  if (fs::is_symlink(path_, error)) path_ = fs::weakly_canonical(path_, error);
  check(!fs::exists(path_, error) || fs::is_regular_file(path_, error), "{}: is not a regular file",
        path_.string());
  error.clear();
  if (path_.has_parent_path()) fs::create_directories(path_.parent_path(), error);
  check(!error, "{}: cannot make the folder: {}", path_.parent_path().string(), error.message());
  remove_abandoned(path_);
  descriptor_ = open_temporary(path_, temporary_);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  ::fchmod(descriptor_, 0666 & ~mask);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::write(const void* bytes, std::uint64_t count) {
  // In pieces, so that the buffer stays small whatever is written.
  for (const char* next = static_cast<const char*>(bytes); count > 0;) {
    const std::size_t piece = std::min<std::uint64_t>(count, kBufferBytes - buffer_.size());
    buffer_.append(next, piece);
    next += piece;
    count -= piece;
    if (buffer_.size() == kBufferBytes) flush();
  }
}

void AtomicFile::flush() {
  for (std::size_t done = 0; done < buffer_.size();) {
    const ssize_t wrote = ::write(descriptor_, buffer_.data() + done, buffer_.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    check(wrote > 0, "{}: cannot write: {}; the file before it is kept", path_.string(), reason());
    done += static_cast<std::size_t>(wrote);
  }
  buffer_.clear();
}

void AtomicFile::commit() {
  flush();
  // The call comes first: arguments of one call are evaluated in any order, and reason() reads its result.
  const bool synced = ::fsync(descriptor_) == 0;
  check(synced, "{}: cannot write: {}; the file before it is kept", path_.string(), reason());
  const bool replaced = ::rename(temporary_.c_str(), path_.c_str()) == 0;
  check(replaced, "{}: cannot replace: {}", path_.string(), reason());
  ::close(std::exchange(descriptor_, -1));
  // The rename itself must survive a power cut.
  const fs::path folder = path_.has_parent_path() ? path_.parent_path() : fs::path(".");
  if (const Descriptor handle{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)}; handle.value >= 0)
    ::fsync(handle.value);
}

void write_file(const fs::path& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

std::uint64_t hash_bytes(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

struct Hasher::State {
  XXH3_state_t* value = XXH3_createState();
  State() {
    if (!value) throw std::bad_alloc();
    XXH3_64bits_reset(value);
  }
  ~State() { XXH3_freeState(value); }
};

Hasher::Hasher() : state_(std::make_unique<State>()) {}
Hasher::~Hasher() = default;
void Hasher::add(const void* bytes, std::uint64_t count) { XXH3_64bits_update(state_->value, bytes, count); }
std::uint64_t Hasher::digest() const { return XXH3_64bits_digest(state_->value); }

std::uint64_t hash_file(const fs::path& path) {
  const Descriptor file{open_for_reading(path)};
  Hasher hasher;
  std::string buffer(kBufferBytes, '\0');
  while (const std::size_t got = read_some(file.value, buffer.data(), buffer.size(), path))
    hasher.add(buffer.data(), got);
  return hasher.digest();
}

std::string hex(std::uint64_t value) { return fmt::format("{:016x}", value); }

}  // namespace comera
