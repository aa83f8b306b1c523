#include "dataset_file.h"

#include <comera/base/error.h>
#include <comera/base/file.h>
#include <comera/data/dataset.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <limits>

namespace comera::data {
namespace {

using namespace dataset_file;
namespace fs = std::filesystem;

// Pages that were looked at stay in the process until they are given back, and would then count as its
// memory.
constexpr std::int64_t kReadsBetweenReleases = 1024;
constexpr std::uint64_t kPieceBytes = 1 << 20;

struct Layout {
  std::uint64_t tokens_at = 0, records_at = 0, description_at = 0, footer_at = 0;
};

// Offsets of the parts, or an Error when the footer's counts do not add up to the file's size exactly.
Layout layout_of(const Footer& footer, std::uint64_t file_bytes, const std::string& name) {
  const std::uint64_t body = file_bytes - sizeof(Footer);
  const bool counts_fit = footer.tokens <= body / sizeof(std::int32_t) &&
                          footer.samples <= body / sizeof(Record) &&
                          footer.description_bytes <= std::min(body, kLongestDescription);
  Layout layout;
  layout.tokens_at = sizeof(Magic);
  if (counts_fit) {
    layout.records_at = padded(layout.tokens_at + footer.tokens * sizeof(std::int32_t));
    layout.description_at = layout.records_at + footer.samples * sizeof(Record);
    layout.footer_at = padded(layout.description_at + footer.description_bytes);
  }
  check(counts_fit && layout.footer_at == body,
        "{}: damaged prepared data: its sizes do not add up; delete it", name);
  return layout;
}

}  // namespace

struct Dataset::State {
  explicit State(const fs::path& file) : path(file), name(file.string()) {
    descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    check(descriptor >= 0, "{}: cannot open: {}", name, std::strerror(errno));
    try {
      read_footer();
      verify();
      map();
    } catch (...) {
      ::close(descriptor);
      throw;
    }
  }
  ~State() {
    ::munmap(mapped, file_bytes);
    ::close(descriptor);
  }

  void read_at(std::uint64_t offset, void* into, std::uint64_t count) const {
    auto* bytes = static_cast<char*>(into);
    while (count > 0) {
      const ssize_t got = ::pread(descriptor, bytes, count, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      check(got > 0, "{}: cannot read: {}", name, got < 0 ? std::strerror(errno) : "it became shorter");
      bytes += got;
      offset += static_cast<std::uint64_t>(got);
      count -= static_cast<std::uint64_t>(got);
    }
  }

  void read_footer() {
    struct stat status {};
    check(::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode), "{}: is not a regular file", name);
    file_bytes = static_cast<std::uint64_t>(status.st_size);
    Magic magic{};
    if (file_bytes >= sizeof magic) read_at(0, magic.data(), magic.size());
    check(magic == kMagic, "{}: is not prepared data of comera", name);
    check(file_bytes >= sizeof(Magic) + sizeof(Footer), "{}: truncated prepared data; delete it", name);
    read_at(file_bytes - sizeof footer, &footer, sizeof footer);
    check(footer.magic == kMagic, "{}: truncated prepared data; delete it", name);
    check(footer.version == kVersion,
          "{}: prepared data of version {}, this build reads {}; delete it to prepare it again", name,
          footer.version, kVersion);
    check(footer.checksum == footer.expected_checksum(),
          "{}: damaged prepared data: wrong checksum; delete it", name);
    layout = layout_of(footer, file_bytes, name);
  }

  // Reads everything before the footer once, in pieces rather than through the map so that memory stays
  // small: the hash, then each part's values.
  void verify() {
    Hasher content;
    std::string piece(kPieceBytes, '\0');
    const auto stream = [&](std::uint64_t begin, std::uint64_t end, auto&& use) {
      for (std::uint64_t count = 0; begin < end; begin += count) {
        count = std::min(end - begin, kPieceBytes);
        read_at(begin, piece.data(), count);
        content.add(piece.data(), count);
        use(piece.data(), count);
      }
    };
    std::uint64_t end = 0;
    stream(0, layout.tokens_at, [](const char*, std::uint64_t) {});
    // The padding after an odd number of tokens is zero, a valid token.
    stream(layout.tokens_at, layout.records_at, [&](const char* bytes, std::uint64_t count) {
      verify_tokens({reinterpret_cast<const std::int32_t*>(bytes), count / sizeof(std::int32_t)});
    });
    stream(layout.records_at, layout.description_at, [&](const char* bytes, std::uint64_t count) {
      end = verify_records({reinterpret_cast<const Record*>(bytes), count / sizeof(Record)}, end);
    });
    stream(layout.description_at, layout.footer_at,
           [&](const char* bytes, std::uint64_t count) { description.append(bytes, count); });
    description.resize(footer.description_bytes);
    check(end == footer.tokens, "{}: damaged prepared data: its samples do not cover its tokens; delete it",
          name);
    check(content.digest() == footer.content_hash, "{}: damaged prepared data: wrong content hash; delete it",
          name);
  }

  void verify_tokens(std::span<const std::int32_t> tokens) {
    const auto [least, largest] = std::minmax_element(tokens.begin(), tokens.end());
    check(*least >= 0, "{}: damaged prepared data: negative token {}; delete it", name, *least);
    largest_token = std::max(largest_token, *largest);
  }

  std::uint64_t verify_records(std::span<const Record> records, std::uint64_t end) {
    for (const Record& record : records) {
      const bool good = record.end > end && record.end <= footer.tokens && record.first_segment >= 0 &&
                        static_cast<std::uint64_t>(record.first_segment) <= record.end - end &&
                        record.label >= -1;
      check(good, "{}: damaged prepared data: sample with end {}, first_segment {}, label {}; delete it",
            name, record.end, record.first_segment, record.label);
      longest = std::max(longest, static_cast<std::int64_t>(record.end - end));
      largest_label = std::max<std::int64_t>(largest_label, record.label);
      end = record.end;
    }
    return end;
  }

  void map() {
    mapped = ::mmap(nullptr, file_bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
    check(mapped != MAP_FAILED, "{}: cannot map it: {}", name, std::strerror(errno));
    ::madvise(mapped, file_bytes, MADV_RANDOM);
    const auto* bytes = static_cast<const char*>(mapped);
    tokens = reinterpret_cast<const std::int32_t*>(bytes + layout.tokens_at);
    records = reinterpret_cast<const Record*>(bytes + layout.records_at);
  }

  // Dropped pages come back from the file when they are touched again, so spans stay valid.
  void count_read() {
    if (reads.fetch_add(1, std::memory_order_relaxed) % kReadsBetweenReleases == kReadsBetweenReleases - 1)
      ::madvise(mapped, file_bytes, MADV_DONTNEED);
  }

  fs::path path;
  std::string name;  // in messages
  int descriptor = -1;
  std::uint64_t file_bytes = 0;
  Footer footer;
  Layout layout;
  std::string description;
  std::int32_t largest_token = -1;
  std::int64_t largest_label = -1, longest = 0;
  void* mapped = nullptr;
  const std::int32_t* tokens = nullptr;
  const Record* records = nullptr;
  std::atomic<std::int64_t> reads{0};
};

Dataset::Dataset(const fs::path& path) : state_(std::make_unique<State>(path)) {}
Dataset::~Dataset() = default;
Dataset::Dataset(Dataset&&) noexcept = default;
Dataset& Dataset::operator=(Dataset&&) noexcept = default;

std::int64_t Dataset::size() const { return static_cast<std::int64_t>(state_->footer.samples); }
std::int64_t Dataset::total_tokens() const { return static_cast<std::int64_t>(state_->footer.tokens); }
std::int32_t Dataset::largest_token() const { return state_->largest_token; }
std::int64_t Dataset::largest_label() const { return state_->largest_label; }
std::int64_t Dataset::longest() const { return state_->longest; }
const std::string& Dataset::description() const { return state_->description; }
std::uint64_t Dataset::content_hash() const { return state_->footer.content_hash; }
const fs::path& Dataset::path() const { return state_->path; }

Sample Dataset::operator[](std::int64_t index) const {
  check(index >= 0 && index < size(), "{}: no sample {}, it has {}", state_->name, index, size());
  state_->count_read();
  const Record& record = state_->records[index];
  const std::uint64_t begin = index == 0 ? 0 : state_->records[index - 1].end;
  return {{state_->tokens + begin, record.end - begin}, record.first_segment, record.label};
}

}  // namespace comera::data
