// The JSON header of a safetensors file: its text from tensor infos, and back with every claim checked.
#pragma once

#include <comera/io/safetensors.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace comera::io {

/// Readers elsewhere refuse longer headers, so none are written or read.
constexpr std::uint64_t kMaximumHeaderBytes = 100'000'000;
/// torch's element-wise loops handle no more.
constexpr std::size_t kMaximumDimensions = 64;
constexpr const char* kMetadataKey = "__metadata__";

struct Header {
  std::vector<TensorInfo> tensors;
  std::vector<std::uint64_t> offsets;  ///< of each tensor within the data that follows the header, bytes
  Metadata metadata;
};

/// The name a dtype has in the file, empty where it has none; and back.
std::string_view dtype_name(torch::ScalarType dtype);
std::optional<torch::ScalarType> dtype_of(std::string_view name);

/// Bytes of the tensor, or nothing when its sizes, strides or bytes do not fit into 63 bits.
std::optional<std::uint64_t> byte_count(const TensorInfo& tensor);
/// Indices of the tensors in the order of their bytes in the file.
std::vector<std::size_t> file_order(const Header& header);

/// Places the tensors, widest dtype first. Errors begin with `source`.
Header make_header(const std::vector<TensorInfo>& tensors, const Metadata& metadata, std::string_view source);
/// The header's JSON, padded so that the data behind it is aligned to 8 bytes.
std::string header_text(const Header& header, std::string_view source);
/// `text` describes `data_bytes` bytes of data. Errors begin with `source`. Takes time and memory in
/// proportion to the text, whatever it says.
Header parse_header(std::string_view text, std::uint64_t data_bytes, std::string_view source);

/// `tensor` as its bytes go into a file: dense, on the CPU, in order. Throws Error `source: what` when it has
/// none.
torch::Tensor host_tensor(const torch::Tensor& tensor, const std::string& name, std::string_view source);

/// A text from a file as it may stand in a message: quoted, on one line, not too long.
std::string shown(std::string_view text);

}  // namespace comera::io
