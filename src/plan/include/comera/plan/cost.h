// What a contraction costs: small classes, one an objective.
#pragma once

#include <comera/plan/profile.h>

#include <memory>
#include <string>

namespace comera::plan {

/// The numbers of one way to run one contraction: permute what has to be, then a batched product.
struct Work {
  double batch = 1, m = 1, k = 1, n = 1;
  double elements = 0;  ///< of both operands and the result
  double written = 0;   ///< those of the result, among them
  double copied = 0;    ///< elements of what is permuted first or last
  int copies = 0;

  double multiply_adds() const { return batch * m * k * n; }
};

class Objective {
 public:
  virtual ~Objective() = default;
  virtual double cost(const Work& work) const = 0;
  /// At most (up to rounding) the cost of any way to run a contraction with so many multiply-adds over so
  /// many elements; the search skips what cannot win by it.
  virtual double least(double multiply_adds, double elements) const = 0;
};

class MultiplyAdds : public Objective {
 public:
  double cost(const Work& work) const override { return work.multiply_adds(); }
  double least(double multiply_adds, double) const override { return multiply_adds; }
};

/// Bytes read and written, copies included.
class BytesMoved : public Objective {
 public:
  explicit BytesMoved(DType dtype) : element_(static_cast<double>(element_bytes(dtype))) {}
  double cost(const Work& work) const override { return element_ * (work.elements + 2 * work.copied); }
  double least(double, double elements) const override { return element_ * elements; }

 private:
  double element_;
};

/// Seconds. A product takes as long as its shape's rate says, at least as long as its bytes need, in cache or
/// from memory; copies take their bytes; each operation its start.
class PredictedTime : public Objective {
 public:
  PredictedTime(const Profile& profile, DType dtype);
  double cost(const Work& work) const override;
  double least(double multiply_adds, double elements) const override;

 private:
  RateLookup single_, batched_;
  double element_, bandwidth_, memory_read_, memory_write_, copy_bandwidth_, start_, highest_;
};

/// Elements of copies, which live while the contraction runs. Chooses how to run when memory is all that
/// counts.
class Workspace : public Objective {
 public:
  double cost(const Work& work) const override { return work.copied; }
  double least(double, double) const override { return 0; }
};

enum class Goal { multiply_adds, bytes, time, memory };
std::string to_string(Goal goal);
/// Throws Error listing the known names.
Goal parse_goal(const std::string& name);

/// The class that compares trees under `goal`; for memory, whose trees are compared by their peaks, the one
/// that breaks ties: time.
std::unique_ptr<Objective> tree_objective(Goal goal, const Profile& profile, DType dtype);
/// The class that chooses how each contraction runs. Multiply-adds do not depend on it, so there it is time.
std::unique_ptr<Objective> way_objective(Goal goal, const Profile& profile, DType dtype);

}  // namespace comera::plan
