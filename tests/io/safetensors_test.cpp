#include "tensors.h"
#include "test_data.h"

#include <comera/base/file.h>
#include <comera/io/safetensors.h>

#include <unistd.h>

using namespace comera;

namespace {

std::string file_with(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header +
         std::string(data_bytes, 1);
}

// {"x": {..}} of a float tensor.
std::string entry(const std::string& name, const std::string& shape, const std::string& offsets) {
  return fmt::format(R"("{}":{{"dtype":"F32","shape":[{}],"data_offsets":[{}]}})", name, shape, offsets);
}

}  // namespace

TEST(Safetensors, EveryDtypeAndShapeComesBackBitForBitInOrder) {
  test::TemporaryFolder folder;
  const io::Metadata metadata{{"made by", "a test"}, {"empty", ""}, {"json", R"({"a": [1]})"}};
  io::save_safetensors(folder / "file", test::examples(), metadata);
  test::expect_same(io::load_safetensors(folder / "file"), test::examples());
  EXPECT_EQ(io::SafetensorsFile(folder / "file").metadata(), metadata);
}

TEST(Safetensors, NoTensorsAtAll) {
  test::TemporaryFolder folder;
  io::save_safetensors(folder / "file", io::NamedTensors{});
  EXPECT_TRUE(io::load_safetensors(folder / "file").empty());
}

TEST(Safetensors, ViewsAndConjugatesAreWrittenAsTheirValues) {
  test::TemporaryFolder folder;
  const torch::Tensor base = torch::arange(12, torch::kFloat32).view({3, 4});
  const torch::Tensor complex = torch::complex(base, base + 1);
  io::save_safetensors(folder / "file", {{"transposed", base.t()},
                                         {"strided", base.slice(1, 0, 4, 2)},
                                         {"expanded", base.select(0, 1).expand({2, 4})},
                                         {"conjugate", complex.conj()},
                                         {"gradient", base.clone().requires_grad_() * 2}});
  const auto tensors = io::load_safetensors(folder / "file");
  EXPECT_TRUE(torch::equal(tensors[0].second, base.t()));
  EXPECT_TRUE(torch::equal(tensors[1].second, base.slice(1, 0, 4, 2)));
  EXPECT_TRUE(torch::equal(tensors[2].second, base.select(0, 1).expand({2, 4})));
  EXPECT_TRUE(torch::equal(tensors[3].second, torch::complex(base, -base - 1)));
  EXPECT_TRUE(torch::equal(tensors[4].second, base * 2));
  for (const auto& [name, tensor] : tensors) EXPECT_EQ(tensor.storage().nbytes(), tensor.nbytes()) << name;
}

TEST(Safetensors, WritingTensorByTensorHoldsOneAtATime) {
  test::TemporaryFolder folder;
  std::vector<io::TensorInfo> infos{
      {"a", torch::kInt8, {3}}, {"b", torch::kFloat64, {2}}, {"c", torch::kInt8, {1}}};
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> given;
  io::save_safetensors(folder / "file", infos, [&](std::size_t i) {
    for (const auto& earlier : given) EXPECT_TRUE(earlier.expired());
    torch::Tensor tensor = torch::full(infos[i].shape, static_cast<double>(i), infos[i].dtype);
    given.emplace_back(tensor.getIntrusivePtr());
    return tensor;
  });
  EXPECT_EQ(given.size(), 3u);
  const auto tensors = io::load_safetensors(folder / "file");
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(tensors[i].first, infos[i].name);
    EXPECT_EQ(tensors[i].second.sum().item<double>(), static_cast<double>(i * infos[i].shape[0]));
  }
}

TEST(Safetensors, WhatCannotBeWrittenIsRefusedAndTheOldFileStays) {
  test::TemporaryFolder folder;
  const auto path = folder / "file";
  write_file(path, "old");
  const torch::Tensor x = torch::ones({2});
  const auto refused = [&](const io::NamedTensors& tensors, const io::Metadata& metadata = {}) {
    const std::string error = test::error_of([&] { io::save_safetensors(path, tensors, metadata); });
    EXPECT_HAS(error, path.string() + ": ");
    EXPECT_EQ(error.find('\n'), std::string::npos);
    EXPECT_EQ(read_file(path), "old");
    return error;
  };
  EXPECT_HAS(refused({{"x", x}, {"x", x}}), "used twice");
  EXPECT_HAS(refused({{"__metadata__", x}}), "reserved");
  EXPECT_HAS(refused({{"x", x.to(torch::kComplexDouble)}}), "ComplexDouble");
  EXPECT_HAS(refused({{"x", x.to_sparse()}}), "no dense values");
  EXPECT_HAS(refused({{"x", x.to(torch::kMeta)}}), "no dense values");
  EXPECT_HAS(refused({{"x", torch::Tensor()}}), "\"x\"");
  EXPECT_HAS(refused({{"bad \xFF\n", x}}), "not valid UTF-8");
  EXPECT_HAS(refused({{"x", x}}, {{"key", "\xC0"}}), "not valid UTF-8");
  EXPECT_HAS(test::error_of([&] {
               io::save_safetensors(path, {{"x", torch::kFloat32, {3}}}, [&](std::size_t) { return x; });
             }),
             "not as announced");
  EXPECT_EQ(read_file(path), "old");
}

TEST(Safetensors, HostileHeadersAreRefusedWithTheirReason) {
  test::TemporaryFolder folder;
  const auto path = folder / "file";
  const auto refused = [&](const std::string& content) {
    write_file(path, content);
    const std::string error = test::error_of([&] { io::load_safetensors(path); });
    EXPECT_HAS(error, path.string() + ": ");
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
    EXPECT_LT(error.size(), 600u) << error;
    return error;
  };
  const auto header = [&](const std::string& text, std::size_t data_bytes = 0) {
    return refused(file_with(text, data_bytes));
  };
  EXPECT_HAS(refused(""), "only 0 bytes");
  EXPECT_HAS(refused("\x01\x02\x03"), "only 3 bytes");
  EXPECT_HAS(refused("\x89PNG\r\n\x1a\n and more"), "not a safetensors file");
  EXPECT_HAS(refused(std::string("\xff\xff\xff\xff\xff\xff\xff\xff", 8)), "not a safetensors file");
  EXPECT_HAS(refused(file_with("{}", 0).substr(0, 9)), "truncated");
  EXPECT_HAS(header(""), "does not begin");
  EXPECT_HAS(header("[]"), "does not begin");
  EXPECT_HAS(header("{"), "not valid JSON");
  EXPECT_HAS(header("{}{}"), "not valid JSON");
  EXPECT_HAS(header(std::string("{}\0", 3)), "zero byte");
  EXPECT_HAS(header(std::string("{\"\xff\": {}}")), "not valid JSON");
  EXPECT_HAS(header("{\"x\":" + std::string(100'000, '[')), "expected an object");
  EXPECT_HAS(header("{\"x\":" + std::string(100'000, '{')), "not valid JSON");
  EXPECT_HAS(header("{}", 5), "last 5 bytes belong to no tensor");

  EXPECT_HAS(header(R"({"x":3})"), "expected an object");
  EXPECT_HAS(header(R"({"x":{}})"), "lacks one of");
  EXPECT_HAS(header(R"({"x":{"dtype":"F32","shape":[1]}})", 4), "lacks one of");
  EXPECT_HAS(header(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4), "lacks one of");
  EXPECT_HAS(header(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,2,4]}})", 4), "lacks one of");
  EXPECT_HAS(header(R"({"x":{"dtype":"F4","shape":[1],"data_offsets":[0,4]}})", 4), "no dtype \"F4\"");
  EXPECT_HAS(header(R"({"x":{"dtype":7,"shape":[1],"data_offsets":[0,4]}})", 4), "\"dtype\" is a number");
  EXPECT_HAS(header(R"({"x":{"dtype":"F32","shape":1,"data_offsets":[0,4]}})", 4), "\"shape\" is a number");
  EXPECT_HAS(header(R"({"x":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", 4), "\"shape\" is a list");
  EXPECT_HAS(header(R"({"x":{"dtype":"F32","shape":[{}],"data_offsets":[0,4]}})", 4), "an object");
  EXPECT_HAS(header(R"({"x":{"dtype":"F32","shape":["1"],"data_offsets":[0,4]}})", 4), "a text");
  EXPECT_HAS(header(R"({"x":{"dtype":"F32","shape":[null],"data_offsets":[0,4]}})", 4), "null");
  EXPECT_HAS(header(R"({"x":{"dtype":"F32","shape":[true],"data_offsets":[0,4]}})", 4), "true or false");
  EXPECT_HAS(header(R"({"x":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4), "-1");
  EXPECT_HAS(header(R"({"x":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", 4), "1.0");
  EXPECT_HAS(header(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,1e300]}})", 4), "1e300");
  EXPECT_HAS(header(R"({"x":{"dtype":"F32","shape":[1],"place":[0,4]}})", 4), "\"place\" is a list");
  EXPECT_HAS(header(R"({"__metadata__":3})"), "expected an object");
  EXPECT_HAS(header(R"({"__metadata__":{"a":3}})"), "\"a\" is a number");
  EXPECT_HAS(header(R"({"__metadata__":{"a":["b"]}})"), "\"a\" is a list");

  EXPECT_HAS(header("{" + entry("x", "2", "0,4") + "}", 8), "do not fit");
  EXPECT_HAS(header("{" + entry("x", "1", "4,0") + "}", 4), "do not fit");
  EXPECT_HAS(header("{" + entry("x", "1", "0,4") + "}", 3), "truncated");
  EXPECT_HAS(header("{" + entry("x", "1", "0,4") + "}", 8), "last 4 bytes");
  EXPECT_HAS(header("{" + entry("x", "1", "4,8") + "}", 8), "bytes 0 to 4 of the data belong to no tensor");
  EXPECT_HAS(header("{" + entry("x", "1", "0,4") + "," + entry("y", "1", "0,4") + "}", 4), "overlaps");
  EXPECT_HAS(header("{" + entry("x", "2", "0,8") + "," + entry("y", "1", "4,8") + "}", 8), "overlaps");
  EXPECT_HAS(header("{" + entry("x", "1", "0,4") + "," + entry("x", "1", "4,8") + "}", 8), "twice");
  EXPECT_HAS(header("{" + entry("x\\n\\u001b[31m", "1", "0,4") + "}", 3), "x\\n\\u001b[31m");
  EXPECT_HAS(header("{" + entry(std::string(5000, 'n'), "1", "0,4") + "}", 3), "nnn\"...");

  // Sizes whose product, times four bytes, wraps around to something small or zero.
  EXPECT_HAS(header("{" + entry("x", "4294967296,4294967296", "0,0") + "}"), "too many elements");
  EXPECT_HAS(header("{" + entry("x", "4611686018427387904", "0,0") + "}"), "too many elements");
  EXPECT_HAS(header("{" + entry("x", "4611686018427387905", "0,4") + "}", 4), "too many elements");
  EXPECT_HAS(header("{" + entry("x", "0,4294967296,4294967296", "0,0") + "}"), "too many elements");
  EXPECT_HAS(header("{" + entry("x", "18446744073709551615", "0,4") + "}", 4), "too large");
  EXPECT_HAS(header("{" + entry("x", "18446744073709551616", "0,4") + "}", 4), "does not belong");
  EXPECT_HAS(header("{" + entry("x", "1", "18446744073709551612,18446744073709551616") + "}", 4),
             "too large");
  EXPECT_HAS(header("{" + entry("x", "1", "9223372036854775803,9223372036854775807") + "}", 4), "truncated");
  std::string ones = "1";
  for (int i = 0; i < 64; ++i) ones += ",1";
  EXPECT_HAS(header("{" + entry("x", ones, "0,4") + "}", 4), "more than 64");

  EXPECT_HAS(refused(file_with(R"({"x":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}})", 0) + "\x02"),
             "neither 0 nor 1");
}

TEST(Safetensors, ManyTensorsInAHeaderTakeTimeInProportion) {
  // 200,000 names: a look-up that goes through all earlier names would not end.
  test::TemporaryFolder folder;
  std::string header = "{";
  for (int i = 0; i < 200'000; ++i) header += entry(std::to_string(i), "0", "0,0") + ",";
  header.back() = '}';
  write_file(folder / "file", file_with(header, 0));
  EXPECT_EQ(io::SafetensorsFile(folder / "file").tensors().size(), 200'000u);
}

TEST(Safetensors, AFileLargerThanTheMemoryIsRefusedBeforeAllocating) {
  test::TemporaryFolder folder;
  const auto path = folder / "file";
  const std::uint64_t bytes = std::uint64_t{1} << 42;
  write_file(path,
             file_with("{" + entry("x", std::to_string(bytes / 4), fmt::format("0,{}", bytes)) + "}", 0));
  if (::truncate(path.c_str(), static_cast<off_t>(std::filesystem::file_size(path) + bytes)) != 0)
    GTEST_SKIP() << "the file system has no sparse files of 4 TiB";
  EXPECT_HAS(test::error_of([&] { io::load_safetensors(path); }), "more than the memory");
}

TEST(Safetensors, FilesThatAreNoFilesAreRefused) {
  test::TemporaryFolder folder;
  EXPECT_HAS(test::error_of([&] { io::SafetensorsFile file(folder / "none"); }), "No such file");
  EXPECT_HAS(test::error_of([&] { io::SafetensorsFile file(folder.path()); }), "not a regular file");
  EXPECT_HAS(test::error_of([&] { io::SafetensorsFile file("/dev/zero"); }), "not a regular file");
}
