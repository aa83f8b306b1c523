// Files go both ways between this library and the safetensors package of Python.
#include "tensors.h"
#include "test_data.h"

#include <comera/io/checkpoint.h>
#include <comera/io/safetensors.h>

#include <cstdlib>

using namespace comera;

namespace {

int python(const std::string& arguments) {
  return std::system(fmt::format("{} {}", COMERA_TEST_PYTHON, arguments).c_str());
}

int script(const std::string& command, const std::filesystem::path& from, const std::filesystem::path& to) {
  return python(fmt::format("{}/tests/io/safetensors_python.py {} {} {}", COMERA_SOURCE_DIR, command,
                            from.string(), to.string()));
}

class PythonSafetensors : public testing::Test {
 protected:
  void SetUp() override {
    const std::string missing = "the Python of this build has no package safetensors";
    if (std::string(COMERA_TEST_PYTHON).empty() || python("-c 'import safetensors.torch' 2>/dev/null") != 0) {
      if (test::in_ci()) FAIL() << missing;
      GTEST_SKIP() << missing << "; pip install -r requirements-test.txt";
    }
  }
  test::TemporaryFolder folder_;
};

}  // namespace

TEST_F(PythonSafetensors, ReadsWhatWeWriteAndWritesWhatWeRead) {
  const io::Metadata metadata{{"made by", "a test \xC3\xA9"}};
  io::save_safetensors(folder_ / "ours", test::examples(), metadata);
  // Python loads the file, stores every tensor under its own rules, and we compare what comes back.
  ASSERT_EQ(script("copy", folder_ / "ours", folder_ / "theirs"), 0);
  const io::SafetensorsFile theirs(folder_ / "theirs");
  EXPECT_EQ(theirs.metadata(), metadata);
  std::map<std::string, torch::Tensor> tensors;
  for (const auto& [name, tensor] : io::load_safetensors(folder_ / "theirs")) tensors[name] = tensor;
  EXPECT_EQ(tensors.size(), test::examples().size());
  for (const auto& [name, tensor] : test::examples()) {
    ASSERT_TRUE(tensors.contains(name)) << name;
    EXPECT_TRUE(test::same_bits(tensors[name], tensor)) << name;
  }
}

TEST_F(PythonSafetensors, SeesTheValuesThatWeWrote) {
  io::save_safetensors(folder_ / "file", {{"counted", torch::arange(6, torch::kFloat32).view({2, 3})},
                                          {"half", torch::tensor({0.5, -2.0}).to(torch::kBFloat16)},
                                          {"truth", torch::tensor({true, false})}});
  EXPECT_EQ(script("values", folder_ / "file", "-"), 0);
}

TEST_F(PythonSafetensors, OpensACheckpointAndACopyOfItStillLoads) {
  const io::Checkpoint checkpoint{Json{{"step", 3}}, test::examples()};
  io::save_checkpoint(folder_ / "ours", checkpoint);
  ASSERT_EQ(script("copy", folder_ / "ours", folder_ / "theirs"), 0);
  const io::Checkpoint copy = io::load_checkpoint(folder_ / "theirs");
  EXPECT_EQ(copy.state, checkpoint.state);
  EXPECT_EQ(copy.tensors.size(), checkpoint.tensors.size());
}
