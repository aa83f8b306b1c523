// Reads and writes safetensors files, the format other tools open: the length of the header in 8
// little-endian bytes, a JSON header with the dtype, shape and place of every tensor, then the tensors'
// bytes.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace comera::io {

using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;
using Metadata = std::map<std::string, std::string>;

/// What the header says of one tensor.
struct TensorInfo {
  std::string name;
  torch::ScalarType dtype;
  std::vector<std::int64_t> shape;
};

/// Writes one file atomically: it is there complete, or the file before it stays. `tensors` are listed in the
/// header in their order; `value(i)` gives tensor i, is called once for each in an order of the writer's
/// choice (wide dtypes first, so that readers may map the file) and its result let go before the next, so
/// that a model can be written without being held whole. Tensors may be anywhere in memory, on any device,
/// but dense. Throws Error `path: what` on a dtype without a safetensors name, a name used twice, a value
/// that is not as announced, a full disk.
void save_safetensors(const std::filesystem::path& path, const std::vector<TensorInfo>& tensors,
                      const std::function<torch::Tensor(std::size_t)>& value, const Metadata& metadata = {});
void save_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                      const Metadata& metadata = {});

/// An open safetensors file whose header has been checked: every tensor lies in the file, none overlap, no
/// byte is unaccounted for. Throws Error `path: what` on anything else, before allocating for it.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(std::filesystem::path path);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  /// In the order of the header.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  const Metadata& metadata() const { return metadata_; }
  /// The tensor tensors()[i], on the CPU, in storage of its own size.
  torch::Tensor read(std::size_t i) const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::vector<TensorInfo> tensors_;
  std::vector<std::uint64_t> offsets_;  ///< of each tensor in the file, bytes
  Metadata metadata_;
};

/// All tensors of a file, in the order of its header. Throws Error when they do not fit into memory.
NamedTensors load_safetensors(const std::filesystem::path& path);

}  // namespace comera::io
