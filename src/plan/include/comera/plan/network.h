// The closed network <dY, X W> of one TT layer. Every result of the layer, its output and all gradients, is
// this network with one leaf left out.
#pragma once

#include <comera/format/shape.h>

#include <cstdint>
#include <string>
#include <vector>

namespace comera::plan {

/// A set of leaves, bit i for leaf i.
using Leaves = std::uint32_t;
/// A set of indices, bit i for index i. A tensor's dimensions are in ascending order of their bits, always:
/// so the leaves lie as the layer has them, and so do all results.
using Indices = std::uint64_t;

constexpr int kMostCores = 16;

struct Index {
  std::string name;  ///< "b" tokens, "l" stacked layers, "m1".. input and "n1".. output digits, "r1".. ranks
  std::int64_t size = 1;  ///< 1 or more
  bool operator==(const Index&) const = default;
};

struct Leaf {
  std::string name;  ///< "X", "G1".., "dY"
  Indices indices = 0;
  bool operator==(const Leaf&) const = default;
};

/// Leaf 0 is X, the last is dY, cores between (rank scales folded into a neighbour). Every index is on two
/// leaves or more.
struct Network {
  std::vector<Index> indices;
  std::vector<Leaf> leaves;
  Leaves wanted = 0;  ///< leaves whose gradients are asked for; Y always is

  bool operator==(const Network&) const = default;
  int size() const { return static_cast<int>(leaves.size()); }
  int root() const { return size() - 1; }
  Leaves all() const { return (Leaves{1} << size()) - 1; }
};

/// Which results of a layer are asked for.
enum class Results {
  forward,        ///< Y
  without_input,  ///< Y and the gradients of the cores
  all             ///< Y, the gradients of the cores, dX
};

/// `layers`: one TT shape, or several with equal digits that share X [tokens, m..] and run as one: cores
/// [l, r, s, r'] zero-padded to the largest rank of each bond, dY [tokens, l, n..]. Throws Error for a table,
/// a dead weight, tokens < 1, unequal digits, more than 16 cores, or a tensor past 2^63 bytes.
Network layer_network(const std::vector<format::Shape>& layers, std::int64_t tokens, Results results);
/// <dY, X W> with W [in, out] as one leaf.
Network dense_network(std::int64_t in, std::int64_t out, std::int64_t tokens, Results results);

/// Throws Error unless the network is as described above and no leaf passes 2^63 bytes.
void validate(const Network& network);

/// The same network with leaf `leaf` and dY exchanged in their places and nothing wanted: its "output" is the
/// gradient of that leaf.
Network rooted_at(const Network& network, int leaf);

/// Open indices and sizes, looked up fast.
class Openings {
 public:
  explicit Openings(const Network& network);
  /// Indices that the product of the leaves in `set` keeps: those also on a leaf outside.
  Indices open(Leaves set) const { return touched_[set] & touched_[all_ & ~set]; }
  /// Product of the sizes; doubles do not overflow, and are exact below 2^53.
  double elements(Indices set) const {
    return products_[0][set & kMask] * products_[1][set >> kBits & kMask] *
           products_[2][set >> 2 * kBits & kMask] * products_[3][set >> 3 * kBits];
  }
  /// Indices of size 2 or more: the others have no say in how a tensor lies.
  Indices large() const { return large_; }

 private:
  static constexpr int kBits = 11;
  static constexpr Indices kMask = (Indices{1} << kBits) - 1;
  std::vector<Indices> touched_;
  std::vector<double> products_[4];
  Leaves all_ = 0;
  Indices large_ = 0;
};

/// Product of the sizes, exact. Throws Error naming `what` past 2^63.
std::int64_t checked_elements(const Network& network, Indices set, const std::string& what);

/// "[b, m1, r1]".
std::string to_string(const Network& network, Indices set);

/// Plans are kept for buckets of tokens: the next of 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, ..
std::int64_t token_bucket(std::int64_t tokens);

}  // namespace comera::plan
