#include <comera/base/error.h>
#include <comera/base/file.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

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
  if (path_.has_parent_path()) fs::create_directories(path_.parent_path(), error);
  check(!error, "{}: cannot make the folder: {}", path_.parent_path().string(), error.message());
  temporary_ = path_.string() + ".tmp-XXXXXX";
  descriptor_ = ::mkostemp(temporary_.data(), O_CLOEXEC);
  check(descriptor_ >= 0, "{}: cannot write in its folder: {}", path_.string(), reason());
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
  buffer_.append(static_cast<const char*>(bytes), count);
  if (buffer_.size() >= kBufferBytes) flush();
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
  check(::fsync(descriptor_) == 0, "{}: cannot write: {}; the file before it is kept", path_.string(),
        reason());
  check(::close(std::exchange(descriptor_, -1)) == 0 && ::rename(temporary_.c_str(), path_.c_str()) == 0,
        "{}: cannot replace: {}", path_.string(), reason());
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
