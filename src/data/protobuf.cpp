#include "protobuf.h"

namespace comera::data {

std::optional<std::uint64_t> ProtobufReader::varint() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> ProtobufReader::fixed(int bytes) {
  if (rest_.size() < static_cast<std::size_t>(bytes)) return std::nullopt;
  std::uint64_t value = 0;
  for (int i = 0; i < bytes; ++i) value |= std::uint64_t{static_cast<unsigned char>(rest_[i])} << (8 * i);
  rest_.remove_prefix(bytes);
  return value;
}

std::optional<ProtobufReader::Field> ProtobufReader::next() {
  if (damaged_ || rest_.empty()) return std::nullopt;
  damaged_ = true;  // until the field has been read whole
  const auto key = varint();
  if (!key || (*key >> 3) == 0 || (*key >> 3) > 0x1FFFFFFF) return std::nullopt;
  Field field;
  field.number = static_cast<std::uint32_t>(*key >> 3);
  std::optional<std::uint64_t> value;
  switch (*key & 7) {
    case 0:
      value = varint();
      break;
    case 1:
      value = fixed(8);
      break;
    case 2:
      value = varint();
      if (!value || *value > rest_.size()) return std::nullopt;
      field.bytes = rest_.substr(0, *value);
      rest_.remove_prefix(*value);
      break;
    case 5:
      value = fixed(4);
      break;
    default:  // groups: no longer used
      return std::nullopt;
  }
  if (!value) return std::nullopt;
  field.integer = *value;
  damaged_ = false;
  return field;
}

}  // namespace comera::data
