#include "safetensors_header.h"

#include <comera/base/error.h>
#include <comera/base/json.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace comera::io {
namespace {

struct DtypeName {
  torch::ScalarType dtype;
  std::string_view name;
};
constexpr DtypeName kDtypes[] = {
    {torch::kBool, "BOOL"},
    {torch::kUInt8, "U8"},
    {torch::kInt8, "I8"},
    {torch::kUInt16, "U16"},
    {torch::kInt16, "I16"},
    {torch::kUInt32, "U32"},
    {torch::kInt32, "I32"},
    {torch::kUInt64, "U64"},
    {torch::kInt64, "I64"},
    {torch::kFloat8_e5m2, "F8_E5M2"},
    {torch::kFloat8_e4m3fn, "F8_E4M3"},
    {torch::kFloat8_e5m2fnuz, "F8_E5M2FNUZ"},
    {torch::kFloat8_e4m3fnuz, "F8_E4M3FNUZ"},
    {torch::kFloat8_e8m0fnu, "F8_E8M0"},
    {torch::kFloat16, "F16"},
    {torch::kBFloat16, "BF16"},
    {torch::kFloat32, "F32"},
    {torch::kFloat64, "F64"},
    {torch::kComplexFloat, "C64"},
};

std::string json_text(const std::string& text, std::string_view source) {
  try {
    return Json(text).dump();
  } catch (const Json::type_error&) {
    fail("{}: {} is not valid UTF-8", source, shown(text));
  }
}

}  // namespace

std::string_view dtype_name(torch::ScalarType dtype) {
  for (const auto& entry : kDtypes)
    if (entry.dtype == dtype) return entry.name;
  return {};
}

std::optional<torch::ScalarType> dtype_of(std::string_view name) {
  for (const auto& entry : kDtypes)
    if (entry.name == name) return entry.dtype;
  return {};
}

std::optional<std::uint64_t> byte_count(const TensorInfo& tensor) {
  // Strides count a size of zero as one, so an empty tensor can overflow too.
  std::int64_t bytes = static_cast<std::int64_t>(c10::elementSize(tensor.dtype));
  bool empty = false;
  for (const std::int64_t size : tensor.shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, std::max<std::int64_t>(size, 1), &bytes)) return {};
    empty = empty || size == 0;
  }
  return empty ? 0 : static_cast<std::uint64_t>(bytes);
}

std::vector<std::size_t> file_order(const Header& header) {
  std::vector<std::size_t> order(header.tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // Empty tensors share their offset with the tensor behind them.
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::tuple(header.offsets[a], *byte_count(header.tensors[a]), a) <
           std::tuple(header.offsets[b], *byte_count(header.tensors[b]), b);
  });
  return order;
}

Header make_header(const std::vector<TensorInfo>& tensors, const Metadata& metadata,
                   std::string_view source) {
  Header header{tensors, std::vector<std::uint64_t>(tensors.size()), metadata};
  std::set<std::string_view> names{kMetadataKey};
  for (const TensorInfo& tensor : tensors) {
    const std::string name = shown(tensor.name);
    check(names.insert(tensor.name).second, "{}: tensor name {} is used twice or reserved", source, name);
    check(!dtype_name(tensor.dtype).empty(),
          "{}: tensor {} has dtype {}, which safetensors cannot hold; convert it first", source, name,
          c10::toString(tensor.dtype));
    check(tensor.shape.size() <= kMaximumDimensions && byte_count(tensor),
          "{}: tensor {} has an impossible shape [{}]", source, name, fmt::join(tensor.shape, ", "));
  }
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return c10::elementSize(tensors[a].dtype) > c10::elementSize(tensors[b].dtype);
  });
  std::uint64_t offset = 0;
  for (const std::size_t i : order) {
    header.offsets[i] = offset;
    check(!__builtin_add_overflow(offset, *byte_count(tensors[i]), &offset), "{}: more than 2^64 bytes",
          source);
  }
  return header;
}

std::string header_text(const Header& header, std::string_view source) {
  std::string text = "{";
  const auto separate = [&] { text += text.size() > 1 ? "," : ""; };
  if (!header.metadata.empty()) {
    text += fmt::format("\"{}\":{{", kMetadataKey);
    const char* comma = "";
    for (const auto& [key, value] : header.metadata)
      text +=
          fmt::format("{}{}:{}", std::exchange(comma, ","), json_text(key, source), json_text(value, source));
    text += "}";
  }
  for (std::size_t i = 0; i < header.tensors.size(); ++i) {
    const TensorInfo& tensor = header.tensors[i];
    separate();
    text +=
        fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                    json_text(tensor.name, source), dtype_name(tensor.dtype), fmt::join(tensor.shape, ","),
                    header.offsets[i], header.offsets[i] + *byte_count(tensor));
  }
  text += "}";
  text.append((8 - text.size() % 8) % 8, ' ');
  check(text.size() <= kMaximumHeaderBytes, "{}: its header would have {} bytes, at most {} are allowed",
        source, text.size(), kMaximumHeaderBytes);
  return text;
}

std::string shown(std::string_view text) {
  constexpr std::size_t kShown = 100;
  const bool whole = text.size() <= kShown;
  return Json(text.substr(0, kShown)).dump(-1, ' ', true, Json::error_handler_t::replace) +
         (whole ? "" : "...");
}

}  // namespace comera::io
