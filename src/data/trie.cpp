#include "trie.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace comera::data {
namespace {

// Keys in order share with the key before them exactly the nodes of the common prefix.
std::uint64_t count_nodes(std::span<const std::string> keys) {
  std::vector<std::uint32_t> order(keys.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return keys[a] < keys[b]; });
  std::uint64_t nodes = 0;
  std::string_view previous;
  for (const std::uint32_t index : order) {
    const std::string_view key = keys[index];
    const auto shared =
        std::mismatch(key.begin(), key.end(), previous.begin(), previous.end()).first - key.begin();
    nodes += key.size() - shared;
    previous = key;
  }
  return nodes;
}

}  // namespace

Trie::Trie(std::span<const std::string> keys) {
  // At most half full, so that look-ups of absent children end soon.
  const std::uint64_t capacity = std::bit_ceil(std::max<std::uint64_t>(2 * count_nodes(keys), 16));
  slots_.resize(capacity);
  mask_ = capacity - 1;
  shift_ = 64 - std::countr_zero(capacity);
  for (std::size_t index = 0; index < keys.size(); ++index) {
    Node node = kRoot;
    for (const char byte : keys[index]) node = add_child(node, static_cast<unsigned char>(byte));
    slots_[node].number = static_cast<std::int32_t>(index);
  }
}

Trie::Node Trie::add_child(Node parent, unsigned char byte) {
  std::size_t place = home(parent, byte);
  for (; slots_[place].parent != kNone; place = (place + 1) & mask_)
    if (slots_[place].parent == parent && slots_[place].byte == byte) return static_cast<Node>(place);
  slots_[place] = {parent, -1, byte};
  return static_cast<Node>(place);
}

}  // namespace comera::data
