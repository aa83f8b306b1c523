#include "dataset_file.h"

#include <comera/base/error.h>
#include <comera/base/file.h>
#include <comera/data/dataset.h>

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace comera::data {
namespace {

using namespace dataset_file;

constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();

// Records wait in a second file until all tokens are written, so that memory does not grow with their number.
// The file has no name: nothing is left behind, however the process ends.
class Spill {
 public:
  explicit Spill(const std::filesystem::path& beside) {
    std::string name = beside.string() + ".tmp-XXXXXX";
    descriptor_ = ::mkstemp(name.data());
    check(descriptor_ >= 0, "{}: cannot write in its folder: {}", beside.string(), std::strerror(errno));
    ::unlink(name.c_str());
  }
  ~Spill() { ::close(descriptor_); }
  Spill(const Spill&) = delete;
  Spill& operator=(const Spill&) = delete;

  void add(const Record& record) {
    buffer_.push_back(record);
    if (buffer_.size() == kBuffered) flush();
  }

  // Calls `use(bytes, count)` for all records in order.
  template <class Use>
  void replay(Use&& use) {
    flush();
    check(::lseek(descriptor_, 0, SEEK_SET) == 0, "cannot read back a temporary file: {}",
          std::strerror(errno));
    std::string piece(kBuffered * sizeof(Record), '\0');
    while (true) {
      const ssize_t got = ::read(descriptor_, piece.data(), piece.size());
      if (got < 0 && errno == EINTR) continue;
      check(got >= 0, "cannot read back a temporary file: {}", std::strerror(errno));
      if (got == 0) return;
      use(piece.data(), static_cast<std::uint64_t>(got));
    }
  }

 private:
  static constexpr std::size_t kBuffered = 1 << 14;

  void flush() {
    const char* bytes = reinterpret_cast<const char*>(buffer_.data());
    for (std::size_t left = buffer_.size() * sizeof(Record); left > 0;) {
      const ssize_t wrote = ::write(descriptor_, bytes, left);
      if (wrote < 0 && errno == EINTR) continue;
      check(wrote > 0, "cannot write a temporary file: {}", std::strerror(errno));
      bytes += wrote;
      left -= static_cast<std::size_t>(wrote);
    }
    buffer_.clear();
  }

  int descriptor_ = -1;
  std::vector<Record> buffer_;
};

}  // namespace

struct DatasetWriter::State {
  explicit State(const std::filesystem::path& target) : path(target), file(target), records(target) {
    write(kMagic.data(), kMagic.size());
  }

  void write(const void* bytes, std::uint64_t count) {
    file.write(bytes, count);
    content.add(bytes, count);
    written += count;
  }

  void pad() {
    constexpr std::array<char, 8> zeros{};
    write(zeros.data(), padded(written) - written);
  }

  std::filesystem::path path;
  AtomicFile file;
  Spill records;
  Hasher content;
  std::uint64_t written = 0;
  Footer footer;
};

DatasetWriter::DatasetWriter(const std::filesystem::path& path) : state_(std::make_unique<State>(path)) {}
DatasetWriter::~DatasetWriter() = default;
DatasetWriter::DatasetWriter(DatasetWriter&&) noexcept = default;

void DatasetWriter::add(const Sample& sample) {
  State& state = *state_;
  const auto length = static_cast<std::int64_t>(sample.tokens.size());
  const auto problem = [&]() -> std::string {
    if (length == 0) return "has no tokens";
    if (length > kLargest) return fmt::format("has {} tokens, more than fit", length);
    for (const std::int32_t token : sample.tokens)
      if (token < 0) return fmt::format("has the negative token {}", token);
    if (sample.first_segment < 0 || sample.first_segment > length)
      return fmt::format("has first_segment {}, not between 0 and its {} tokens", sample.first_segment,
                         length);
    if (sample.label < -1 || sample.label > kLargest)
      return fmt::format("has the label {}, neither -1 nor a class", sample.label);
    return "";
  }();
  check(problem.empty(), "{}: sample {} {}", state.path.string(), state.footer.samples, problem);

  state.write(sample.tokens.data(), sample.tokens.size_bytes());
  state.footer.tokens += static_cast<std::uint64_t>(length);
  state.footer.samples += 1;
  state.records.add({state.footer.tokens, static_cast<std::int32_t>(sample.first_segment),
                     static_cast<std::int32_t>(sample.label)});
}

std::int64_t DatasetWriter::size() const { return static_cast<std::int64_t>(state_->footer.samples); }

void DatasetWriter::commit(const std::string& description) {
  State& state = *state_;
  check(description.size() <= kLongestDescription, "{}: a description of {} bytes is too long",
        state.path.string(), description.size());
  state.pad();
  state.records.replay([&](const char* bytes, std::uint64_t count) { state.write(bytes, count); });
  state.write(description.data(), description.size());
  state.pad();
  state.footer.description_bytes = description.size();
  state.footer.content_hash = state.content.digest();
  state.footer.checksum = state.footer.expected_checksum();
  state.file.write(&state.footer, sizeof(Footer));
  state.file.commit();
}

}  // namespace comera::data
