// Reads the fields of a protobuf message in order. Only what the wire format says; no schema.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>

namespace comera::data {

class ProtobufReader {
 public:
  explicit ProtobufReader(std::string_view message) : rest_(message) {}

  struct Field {
    std::uint32_t number = 0;
    std::uint64_t integer = 0;  ///< of a varint or fixed-width field
    std::string_view bytes;     ///< of a length-delimited field: string, bytes or message
    float as_float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(integer)); }
  };
  /// The next field; none at the end, or where the message is damaged: see `damaged`.
  std::optional<Field> next();
  bool damaged() const { return damaged_; }

 private:
  std::optional<std::uint64_t> varint();
  std::optional<std::uint64_t> fixed(int bytes);
  std::string_view rest_;
  bool damaged_ = false;
};

}  // namespace comera::data
