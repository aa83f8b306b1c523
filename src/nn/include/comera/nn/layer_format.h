// How the weight of one layer is held, and the rules that decide it by layer name.
#pragma once

#include <comera/format/shape.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace comera::nn {

enum class LayerKind {
  dense,       ///< one matrix
  low_rank,    ///< two factors with rank scales between them: a tensor train with one digit a side
  compressed,  ///< TT for a linear layer, TTM for a table
};

struct LayerFormat {
  LayerKind kind = LayerKind::dense;
  std::vector<std::int64_t> row_digits;  ///< in (linear) or rows (table); empty = chosen
  std::vector<std::int64_t> col_digits;  ///< out or columns; empty = chosen
  std::int64_t digits = 0;               ///< digits a side when chosen; 0 = by size
  std::vector<std::int64_t> ranks;       ///< any form of format::expand_ranks
  /// Linear layers: cores and scales at most; digits and ranks are then those with the largest middle rank.
  /// 0 = as said above.
  std::int64_t parameters = 0;
};

/// The first rule whose pattern (`*` = any run) matches a layer's name decides its format; none: dense.
struct FormatRule {
  std::string pattern;
  LayerFormat format;
};

/// Answers by name and remembers which rules were used.
class LayerFormats {
 public:
  explicit LayerFormats(std::vector<FormatRule> rules) : rules_(std::move(rules)), used_(rules_.size()) {}
  LayerFormat find(const std::string& layer);
  /// Throws Error for a rule that no layer matched, with the nearest layer name.
  void check_all_used() const;

 private:
  std::vector<FormatRule> rules_;
  std::vector<bool> used_;
  std::vector<std::string> layers_;
};

/// Shape of a linear layer in -> out (not for dense). Digits that cannot divide a width are padded;
/// `warning`, when given, receives what was bad about the choice.
format::Shape linear_shape(const std::string& name, std::int64_t in, std::int64_t out,
                           const LayerFormat& format, std::string* warning = nullptr);
/// Shape of a table rows x cols (not for dense); a low-rank table is TTM with digits (rows, 1) x (1, cols).
format::Shape table_shape(const std::string& name, std::int64_t rows, std::int64_t cols,
                          const LayerFormat& format, std::string* warning = nullptr);

/// What a layer is and what it costs, for tables people read and for `--dry-run --json`.
struct LayerInfo {
  std::string name;
  std::string format;                  ///< "dense", "low_rank", "tt" or "ttm"
  std::optional<format::Shape> shape;  ///< none for dense
  std::int64_t parameters = 0;         ///< with bias and, while they exist, rank scales
  std::int64_t dense_parameters = 0;   ///< of the dense layer, with bias
  std::string warning;
};

}  // namespace comera::nn
