// The one table of tolerances, the comparison that uses it, and the device that tests run on.
#pragma once

#include <comera/weights/torch.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>

namespace comera::test {

/// COMERA_TEST_DEVICE: cpu (default) or cuda.
inline torch::Device test_device() {
  const char* name = std::getenv("COMERA_TEST_DEVICE");
  return torch::Device(name && *name ? name : "cpu");
}

/// Largest error between two implementations of one operator, values or gradients, relative to the largest
/// entry of the expected tensor.
inline double tolerance(torch::ScalarType type, torch::Device device) {
  struct Row {
    torch::ScalarType type;
    double cpu, cuda;
  };
  static constexpr Row table[] = {
      {torch::kFloat64, 1e-9, 1e-9},
      {torch::kFloat32, 1e-5, 1e-5},  // sums of some thousand products in another order
      {torch::kBFloat16, 2e-2, 2e-2},
      {torch::kFloat16, 2e-3, 2e-3},
  };
  for (const Row& row : table)
    if (row.type == type) return device.is_cuda() ? row.cuda : row.cpu;
  return 0;  // integers are equal
}

/// max |actual - expected| / max |expected|; 0 for empty tensors, infinity where one is not finite.
inline double relative_error(const torch::Tensor& actual, const torch::Tensor& expected) {
  if (expected.numel() == 0) return 0;
  const auto a = actual.detach().to(torch::kCPU, torch::kFloat64);
  const auto e = expected.detach().to(torch::kCPU, torch::kFloat64);
  const double error = (a - e).abs().max().item<double>(), scale = e.abs().max().item<double>();
  if (!std::isfinite(error)) return INFINITY;
  return error == 0 ? 0 : error / scale;
}

/// Success when sizes and type agree and the error is within `tolerance`; else tells how far it is off.
inline testing::AssertionResult close(const torch::Tensor& actual, const torch::Tensor& expected,
                                      double tolerance, const std::string& what) {
  if (!actual.defined() || !expected.defined())
    return (actual.defined() == expected.defined() ? testing::AssertionSuccess()
                                                   : testing::AssertionFailure())
           << what << (actual.defined() ? " was not expected" : " is missing");
  if (actual.sizes() != expected.sizes() || actual.scalar_type() != expected.scalar_type())
    return testing::AssertionFailure()
           << fmt::format("{} is {} [{}], expected {} [{}]", what, c10::toString(actual.scalar_type()),
                          fmt::join(actual.sizes(), ", "), c10::toString(expected.scalar_type()),
                          fmt::join(expected.sizes(), ", "));
  const double error = relative_error(actual, expected);
  return (error <= tolerance ? testing::AssertionSuccess() : testing::AssertionFailure())
         << fmt::format("{}: relative error {:.3g}, allowed {:.3g}", what, error, tolerance);
}

/// Within the table's tolerance for the type and device of `expected`.
inline testing::AssertionResult close(const torch::Tensor& actual, const torch::Tensor& expected,
                                      const std::string& what) {
  return close(actual, expected,
               expected.defined() ? tolerance(expected.scalar_type(), expected.device()) : 0, what);
}

}  // namespace comera::test
