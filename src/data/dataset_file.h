// Layout of a prepared file, all little-endian, each part aligned to 8 bytes:
//   magic | tokens, int32 | one Record a sample | description, JSON text | Footer
// The counts stand at the end because the file is written as a stream.
#pragma once

#include <comera/base/file.h>

#include <array>
#include <bit>
#include <cstdint>

namespace comera::data::dataset_file {

static_assert(std::endian::native == std::endian::little, "prepared files are mapped as they are");

using Magic = std::array<char, 8>;
constexpr Magic kMagic = {'C', 'O', 'M', 'E', 'R', 'A', 'D', 'S'};
constexpr std::uint32_t kVersion = 1;
constexpr std::uint64_t kLongestDescription = std::uint64_t{1} << 26;

struct Record {
  std::uint64_t end = 0;  // index after the sample's last token; it starts where the record before it ends
  std::int32_t first_segment = 0;
  std::int32_t label = -1;
};

struct Footer {
  std::uint64_t samples = 0;
  std::uint64_t tokens = 0;
  std::uint64_t description_bytes = 0;
  std::uint64_t content_hash = 0;  // of all bytes before the footer
  std::uint32_t reserved = 0;
  std::uint32_t version = kVersion;
  std::uint64_t checksum = 0;  // of the footer's bytes before this one
  Magic magic = kMagic;

  std::uint64_t expected_checksum() const {
    return hash_bytes({reinterpret_cast<const char*>(this), offsetof(Footer, checksum)});
  }
};
static_assert(sizeof(Record) == 16 && sizeof(Footer) == 56);

constexpr std::uint64_t padded(std::uint64_t bytes) { return (bytes + 7) / 8 * 8; }

}  // namespace comera::data::dataset_file
