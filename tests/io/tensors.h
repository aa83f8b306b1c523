// Tensors of every dtype and of the shapes that go wrong, and what the io tests ask of errors.
#pragma once

#include <comera/base/error.h>
#include <comera/io/safetensors.h>

#include <torch/types.h>

#include <gtest/gtest.h>

#include <string>

namespace comera::test {

/// Dtypes that the safetensors package of Python knows too.
inline std::vector<torch::ScalarType> dtypes() {
  return {torch::kBool,
          torch::kUInt8,
          torch::kInt8,
          torch::kUInt16,
          torch::kInt16,
          torch::kUInt32,
          torch::kInt32,
          torch::kUInt64,
          torch::kInt64,
          torch::kFloat8_e5m2,
          torch::kFloat8_e4m3fn,
          torch::kFloat8_e5m2fnuz,
          torch::kFloat8_e4m3fnuz,
          torch::kFloat16,
          torch::kBFloat16,
          torch::kFloat32,
          torch::kFloat64,
          torch::kComplexFloat};
}

/// [3, 2] with bytes that depend on the dtype's place in the list, so that mixed-up tensors differ.
inline torch::Tensor example(torch::ScalarType dtype, int seed) {
  const auto size = static_cast<std::int64_t>(c10::elementSize(dtype));
  const torch::Tensor bytes = (torch::arange(6 * size) * 7 + seed).remainder(dtype == torch::kBool ? 2 : 120);
  return bytes.to(torch::kUInt8).view({3, 2 * size}).view(dtype);
}

inline io::NamedTensors examples() {
  io::NamedTensors tensors;
  for (const torch::ScalarType dtype : dtypes())
    tensors.emplace_back(c10::toString(dtype), example(dtype, static_cast<int>(tensors.size())));
  tensors.emplace_back("scalar", torch::tensor(-0.0));
  tensors.emplace_back("empty", torch::empty({0, 5}));
  tensors.emplace_back("empty.deep", torch::empty({3, 0, 2}, torch::kInt64));
  tensors.emplace_back("name with \"quotes\", \xC3\xA9 and \n a line",
                       torch::tensor({1.5, 2.5}, torch::kFloat64));
  return tensors;
}

inline bool same_bits(const torch::Tensor& a, const torch::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         std::string_view(static_cast<const char*>(a.contiguous().const_data_ptr()), a.nbytes()) ==
             std::string_view(static_cast<const char*>(b.contiguous().const_data_ptr()), b.nbytes());
}

inline void expect_same(const io::NamedTensors& actual, const io::NamedTensors& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_EQ(actual[i].first, expected[i].first);
    EXPECT_TRUE(same_bits(actual[i].second, expected[i].second)) << actual[i].first;
  }
}

/// The message of the Error that `act` must throw.
template <class Act>
std::string error_of(const Act& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "expected an error";
  return "";
}

#define EXPECT_HAS(text, part) \
  EXPECT_NE(std::string(text).find(part), std::string::npos) << "in: " << text << "\nexpected: " << part

}  // namespace comera::test
