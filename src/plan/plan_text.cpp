#include <comera/base/error.h>
#include <comera/base/text.h>
#include <comera/plan/plan.h>

#include <algorithm>

namespace comera::plan {
namespace {

// Columns as wide as their widest entry; the first to the left, numbers to the right.
std::string table(const std::vector<std::vector<std::string>>& rows, std::size_t texts) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) {
      widths.resize(std::max(widths.size(), row.size()));
      widths[c] = std::max(widths[c], row[c].size());
    }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c)
      line +=
          c < texts ? fmt::format("{:<{}}  ", row[c], widths[c]) : fmt::format("{:>{}}  ", row[c], widths[c]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += fmt::format("{}\n", line);
  }
  return text;
}

std::string microseconds(double seconds) { return fmt::format("{:.1f}", seconds * 1e6); }

std::string shape_of(const Product& product) {
  const std::string matrix = fmt::format("{} x {} x {}", product.m, product.k, product.n);
  return product.batch == 1 ? matrix : fmt::format("{} of {}", product.batch, matrix);
}

}  // namespace

std::string to_string(const Plan& plan, const NamedPlans& alternatives) {
  std::string text;
  for (const format::Shape& shape : plan.request.layers)
    text += fmt::format("{}\n", format::to_string(shape));
  text += fmt::format("{} tokens, {}, {}, for {}", plan.request.tokens, to_string(plan.request.dtype),
                      plan.request.device, to_string(plan.request.goal));
  if (plan.request.memory_limit) text += fmt::format(" within {} bytes", plan.request.memory_limit);
  text += "\n";
  if (plan.tree) text += fmt::format("tree {}\n", to_string(*plan.tree, plan.network));

  std::vector<std::vector<std::string>> rows{
      {"", "result", "from", "copied", "kept", "product (m x k x n)", "multiply-adds", "bytes", "us"}};
  for (const Step& step : plan.steps) {
    const std::string &left = plan.tensors[step.left].name, &right = plan.tensors[step.right].name;
    std::vector<std::string> copied;
    if (step.copy_left) copied.push_back(left);
    if (step.copy_right) copied.push_back(right);
    if (step.copy_result) copied.push_back("result");
    const bool saved =
        !step.backward && std::binary_search(plan.saved.begin(), plan.saved.end(), step.result);
    const char* kept = saved ? "saved" : step.recomputed ? "again" : "";
    rows.push_back({step.backward ? "backward" : "forward", plan.tensors[step.result].name,
                    fmt::format("{} * {}", left, right), fmt::format("{}", fmt::join(copied, ", ")), kept,
                    shape_of(step.product), format_count(static_cast<double>(step.multiply_adds)),
                    format_bytes(static_cast<double>(step.bytes)), microseconds(step.seconds)});
  }
  text += table(rows, 6);
  text += fmt::format("multiply-adds {} (forward {}, backward {})\n", plan.total_multiply_adds, plan.forward,
                      plan.backward);
  text += fmt::format("saved {} bytes, peak {} bytes{}, predicted {} us\n", plan.saved_bytes, plan.peak_bytes,
                      plan.request.goal != Goal::memory ? ""
                      : plan.peak_is_least              ? " (the least)"
                                                        : " (upper bound of the least)",
                      microseconds(plan.predicted_seconds));
  if (alternatives.empty()) return text;

  rows = {{"", "multiply-adds", "peak bytes", "us", "times"}};
  const auto add = [&](const std::string& name, const Plan& other) {
    rows.push_back({name, std::to_string(other.total_multiply_adds), std::to_string(other.peak_bytes),
                    microseconds(other.predicted_seconds),
                    fmt::format("{:.2f}", other.predicted_seconds / plan.predicted_seconds)});
  };
  add("this plan", plan);
  const Plan* dense = nullptr;
  for (const auto& [name, other] : alternatives) {
    add(name, other);
    if (name == "dense") dense = &other;
  }
  text += fmt::format("\n{}", table(rows, 1));
  if (dense && dense->predicted_seconds < plan.predicted_seconds)
    text += fmt::format("a dense layer would be faster: predicted {:.2f} of this plan's time\n",
                        dense->predicted_seconds / plan.predicted_seconds);
  return text;
}

}  // namespace comera::plan
