// Byte strings with a number each, found by walking byte by byte.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace comera::data {

/// All nodes lie in one hash table keyed by (parent, byte), and the place of a node in the table is its name:
/// a step is one look-up, and there are no pointers.
class Trie {
 public:
  using Node = std::uint32_t;
  static constexpr Node kNone = 0xFFFFFFFFu;
  static constexpr Node kRoot = kNone - 1;

  /// The number of a key is its index in `keys`; keys must differ and not be empty, and be below 1 GB
  /// together.
  explicit Trie(std::span<const std::string> keys);

  Node child(Node parent, unsigned char byte) const {
    for (std::size_t place = home(parent, byte);; place = (place + 1) & mask_) {
      const Slot& slot = slots_[place];
      if (slot.parent == kNone) return kNone;
      if (slot.parent == parent && slot.byte == byte) return static_cast<Node>(place);
    }
  }
  /// The node of `text` below `start`, or kNone.
  Node descend(Node start, std::string_view text) const {
    for (const char byte : text)
      if (start != kNone) start = child(start, static_cast<unsigned char>(byte));
    return start;
  }
  /// Number of the key that ends at `node` (not the root), or -1.
  std::int32_t number(Node node) const { return slots_[node].number; }

 private:
  struct Slot {
    Node parent = kNone;
    std::int32_t number = -1;
    unsigned char byte = 0;
  };
  std::size_t home(Node parent, unsigned char byte) const {
    return static_cast<std::size_t>((((std::uint64_t{parent} << 8) | byte) * 0x9E3779B97F4A7C15ull) >>
                                    shift_);
  }
  Node add_child(Node parent, unsigned char byte);

  std::vector<Slot> slots_;
  std::size_t mask_ = 0;
  int shift_ = 0;
};

}  // namespace comera::data
