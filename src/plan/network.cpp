#include <comera/base/error.h>
#include <comera/plan/network.h>

#include <bit>
#include <limits>

namespace comera::plan {
namespace {

constexpr int kMostIndices = 44;     // four tables of 11 bits
constexpr std::int64_t kWidest = 8;  // bytes of the largest element type

Indices bit(int i) { return Indices{1} << i; }

// Makes the indices of a network in the order in which they lie, and the leaves from them.
class Builder {
 public:
  int index(std::string name, std::int64_t size) {
    network_.indices.push_back({std::move(name), size});
    return static_cast<int>(network_.indices.size()) - 1;
  }
  void leaf(std::string name, Indices indices) { network_.leaves.push_back({std::move(name), indices}); }
  Network finish(Results results) {
    if (results != Results::forward) network_.wanted = network_.all() & ~bit(network_.root());
    if (results == Results::without_input) network_.wanted &= ~Leaves{1};
    validate(network_);
    return std::move(network_);
  }

 private:
  Network network_;
};

}  // namespace

Network layer_network(const std::vector<format::Shape>& layers, std::int64_t tokens, Results results) {
  check(!layers.empty(), "[plan] needs at least one layer");
  check(tokens >= 1, "[plan] tokens must be 1 or more, got {}", tokens);
  const format::Shape& first = layers.front();
  std::vector<std::int64_t> ranks;
  for (const format::Shape& shape : layers) {
    check(shape.kind == format::Kind::tt,
          "[plan] a linear layer is a TT weight, got {}; tables have plan_lookup", format::to_string(shape));
    format::validate(shape, "plan");
    check(!shape.dead(), "[plan] {} is switched off: there is nothing to plan", format::to_string(shape));
    check(shape.order() <= kMostCores, "[plan] at most {} cores can be planned, got {}", kMostCores,
          shape.order());
    check(shape.row_digits == first.row_digits && shape.col_digits == first.col_digits,
          "[plan] layers that run as one need equal digits, got {} and {}", format::to_string(first),
          format::to_string(shape));
    if (ranks.empty()) ranks = shape.ranks;
    for (std::size_t k = 0; k < ranks.size(); ++k) ranks[k] = std::max(ranks[k], shape.ranks[k]);
  }

  Builder builder;
  const int order = static_cast<int>(first.order()), split = static_cast<int>(first.split());
  const Indices tokens_index = bit(builder.index("b", tokens));
  const Indices layer_index = layers.size() > 1 ? bit(builder.index("l", layers.size())) : 0;
  Indices rows = 0, cols = 0, left_rank = 0;
  std::vector<Indices> cores;
  for (int k = 0; k < order; ++k) {
    const bool row = k < split;
    const Indices mode =
        bit(builder.index(fmt::format("{}{}", row ? "m" : "n", row ? k + 1 : k - split + 1), first.mode(k)));
    (row ? rows : cols) |= mode;
    const Indices right_rank =
        k + 1 < order ? bit(builder.index(fmt::format("r{}", k + 1), ranks[k + 1])) : 0;
    cores.push_back(layer_index | left_rank | mode | right_rank);
    left_rank = right_rank;
  }
  builder.leaf("X", tokens_index | rows);
  for (int k = 0; k < order; ++k) builder.leaf(fmt::format("G{}", k + 1), cores[k]);
  builder.leaf("dY", tokens_index | layer_index | cols);
  return builder.finish(results);
}

Network dense_network(std::int64_t in, std::int64_t out, std::int64_t tokens, Results results) {
  Builder builder;
  const Indices b = bit(builder.index("b", tokens)), m = bit(builder.index("m1", in)),
                n = bit(builder.index("n1", out));
  builder.leaf("X", b | m);
  builder.leaf("W", m | n);
  builder.leaf("dY", b | n);
  return builder.finish(results);
}

void validate(const Network& network) {
  const int leaves = network.size();
  check(leaves >= 3 && leaves <= kMostCores + 2, "[plan] a network has 3 to {} leaves, got {}",
        kMostCores + 2, leaves);
  check(network.indices.size() <= kMostIndices, "[plan] a network has at most {} indices, got {}",
        kMostIndices, network.indices.size());
  for (std::size_t i = 0; i < network.indices.size(); ++i) {
    const Index& index = network.indices[i];
    check(index.size >= 1, "[plan] dimension {} must be 1 or more, got {}", index.name, index.size);
    int on = 0;
    for (const Leaf& leaf : network.leaves) on += leaf.indices >> i & 1;
    check(on >= 2, "[plan] dimension {} must be on two leaves or more, got {}", index.name, on);
  }
  for (const Leaf& leaf : network.leaves) {
    check(leaf.indices >> network.indices.size() == 0, "[plan] {} has a dimension that is not there",
          leaf.name);
    const std::int64_t elements = checked_elements(network, leaf.indices, leaf.name);
    check(elements <= std::numeric_limits<std::int64_t>::max() / kWidest, "[plan] {} {} passes 2^63 bytes",
          leaf.name, to_string(network, leaf.indices));
  }
  check((network.wanted & ~(network.all() >> 1)) == 0,
        "[plan] gradients can be asked for X and the cores only");
}

Network rooted_at(const Network& network, int leaf) {
  Network result = network;
  std::swap(result.leaves[leaf], result.leaves.back());
  result.wanted = 0;
  return result;
}

Openings::Openings(const Network& network) : touched_(std::size_t{1} << network.size()), all_(network.all()) {
  for (Leaves set = 1; set < touched_.size(); ++set)
    touched_[set] = touched_[set & (set - 1)] | network.leaves[std::countr_zero(set)].indices;
  const int count = static_cast<int>(network.indices.size());
  for (int i = 0; i < count; ++i)
    if (network.indices[i].size > 1) large_ |= bit(i);
  for (int part = 0; part < 4; ++part) {
    const int bits = std::clamp(count - part * kBits, 0, kBits);
    products_[part].assign(std::size_t{1} << bits, 1.0);
    for (std::size_t set = 1; set < products_[part].size(); ++set)
      products_[part][set] = products_[part][set & (set - 1)] *
                             static_cast<double>(network.indices[part * kBits + std::countr_zero(set)].size);
  }
}

std::int64_t checked_elements(const Network& network, Indices set, const std::string& what) {
  std::int64_t product = 1;
  for (std::size_t i = 0; i < network.indices.size(); ++i)
    if (set >> i & 1)
      check(!__builtin_mul_overflow(product, network.indices[i].size, &product), "[plan] {} {} passes 2^63",
            what, to_string(network, set));
  return product;
}

std::string to_string(const Network& network, Indices set) {
  std::string text;
  for (std::size_t i = 0; i < network.indices.size(); ++i)
    if (set >> i & 1) text += (text.empty() ? "[" : ", ") + network.indices[i].name;
  return text.empty() ? "[]" : text + "]";
}

std::int64_t token_bucket(std::int64_t tokens) {
  check(tokens >= 0 && tokens <= std::int64_t{1} << 60, "[plan] {} tokens are out of range", tokens);
  std::int64_t bucket = 1;
  while (bucket < tokens) {
    if (bucket % 2 == 0 && bucket + bucket / 2 >= tokens) return bucket + bucket / 2;
    bucket *= 2;
  }
  return bucket;
}

}  // namespace comera::plan
