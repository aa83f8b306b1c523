// Files: whole reads with a limit, atomic writes, content hashes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace comera {

/// Reads a whole file. Throws Error that names the path when it is absent, unreadable or above `limit` bytes.
std::string read_file(const std::filesystem::path& path, std::uint64_t limit = std::uint64_t{1} << 32);

/// Writes to a temporary name in the same folder; commit() syncs and renames over `path`. Without commit (an
/// exception, a kill) the old file stays as it was; what a killed writer of the same path left behind is
/// removed by the next one. Makes the parent folder. Throws Error on a full disk.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* bytes, std::uint64_t count);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void commit();

 private:
  void flush();
  std::filesystem::path path_;
  std::string temporary_;
  std::string buffer_;
  int descriptor_ = -1;
};

/// AtomicFile with all of `content` in one call.
void write_file(const std::filesystem::path& path, std::string_view content);

/// XXH3 64 bits; the streaming form for content that arrives in pieces.
std::uint64_t hash_bytes(std::string_view bytes);
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;
  void add(const void* bytes, std::uint64_t count);
  void add(std::string_view text) { add(text.data(), text.size()); }
  std::uint64_t digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};
/// Hash of a file's content, read in pieces. Throws Error that names the path.
std::uint64_t hash_file(const std::filesystem::path& path);
/// 16 lower-case hex digits.
std::string hex(std::uint64_t value);

}  // namespace comera
