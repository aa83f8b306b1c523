#include "safetensors_header.h"

#include <comera/base/error.h>
#include <comera/base/machine.h>
#include <comera/base/text.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>

namespace comera::io {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are read as they lie in the file");

void read_exactly(int descriptor, void* into, std::uint64_t count, std::uint64_t offset,
                  const std::string& path) {
  for (std::uint64_t done = 0; done < count;) {
    const ssize_t got =
        ::pread(descriptor, static_cast<char*>(into) + done, count - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    check(got >= 0, "{}: cannot read: {}", path, std::strerror(errno));
    check(got > 0, "{}: became shorter while it was read", path);
    done += static_cast<std::uint64_t>(got);
  }
}

}  // namespace

SafetensorsFile::SafetensorsFile(std::filesystem::path path) : path_(std::move(path)) {
  const std::string name = path_.string();
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  check(descriptor_ >= 0, "{}: cannot open: {}", name, std::strerror(errno));
  try {
    struct stat status {};
    check(::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode), "{}: is not a regular file", name);
    const auto file_bytes = static_cast<std::uint64_t>(status.st_size);
    std::uint64_t length = 0;
    check(file_bytes >= sizeof length, "{}: not a safetensors file: it has only {} bytes", name, file_bytes);
    read_exactly(descriptor_, &length, sizeof length, 0, name);
    const std::uint64_t behind = file_bytes - sizeof length;
    check(length <= kMaximumHeaderBytes, "{}: not a safetensors file: it claims a header of {} bytes", name,
          length);
    check(length <= behind, "{}: truncated: its header has {} bytes, the file {}", name, length, file_bytes);
    std::string text(length, '\0');
    read_exactly(descriptor_, text.data(), length, sizeof length, name);
    Header header = parse_header(text, behind - length, name);
    tensors_ = std::move(header.tensors);
    metadata_ = std::move(header.metadata);
    offsets_ = std::move(header.offsets);
    for (std::uint64_t& offset : offsets_) offset += sizeof length + length;
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() { ::close(descriptor_); }

torch::Tensor SafetensorsFile::read(std::size_t i) const {
  const TensorInfo& info = tensors_.at(i);
  const std::string name = path_.string();
  const std::uint64_t bytes = *byte_count(info);
  // A sparse file can claim more than there is; the system would promise it and kill the process later.
  check(bytes <= available_memory(), "{}: tensor {} takes {}, more than the memory of this machine", name,
        shown(info.name), format_bytes(static_cast<double>(bytes)));
  torch::Tensor tensor = torch::empty(info.shape, torch::TensorOptions().dtype(info.dtype));
  read_exactly(descriptor_, tensor.data_ptr(), bytes, offsets_[i], name);
  // Any other byte in a bool is undefined behaviour in the code that reads it.
  check(info.dtype != torch::kBool || !tensor.view(torch::kUInt8).gt(1).any().item<bool>(),
        "{}: tensor {} has dtype BOOL and a byte that is neither 0 nor 1", name, shown(info.name));
  return tensor;
}

NamedTensors load_safetensors(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  NamedTensors tensors;
  for (std::size_t i = 0; i < file.tensors().size(); ++i)
    tensors.emplace_back(file.tensors()[i].name, file.read(i));
  return tensors;
}

}  // namespace comera::io
