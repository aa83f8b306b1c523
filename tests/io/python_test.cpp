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

std::map<std::string, torch::Tensor> by_name(const io::NamedTensors& tensors) {
  return {tensors.begin(), tensors.end()};
}

}  // namespace

TEST(PythonSafetensors, ReadsWhatWeWriteAndWritesWhatWeRead) {
  const std::string missing = "the Python of this build has no package safetensors";
  if (std::string(COMERA_TEST_PYTHON).empty() || python("-c 'import safetensors' 2>/dev/null") != 0) {
    if (test::in_ci()) FAIL() << missing;
    GTEST_SKIP() << missing << "; pip install -r requirements-test.txt";
  }
  test::TemporaryFolder folder;
  const io::Metadata metadata{{"made by", "a test \xC3\xA9"}};
  io::NamedTensors ours = test::examples();
  ours.emplace_back("counted", torch::arange(6, torch::kFloat32).view({2, 3}));
  ours.emplace_back("half", torch::tensor({0.5, -2.0}).to(torch::kBFloat16));
  io::save_safetensors(folder / "ours", ours, metadata);
  const io::Checkpoint checkpoint{Json{{"step", 3}}, test::examples()};
  io::save_checkpoint(folder / "checkpoint", checkpoint);

  // Python loads both, checks what it can know, and saves every tensor under its own rules.
  ASSERT_EQ(
      python(fmt::format("{}/tests/io/safetensors_python.py {}", COMERA_SOURCE_DIR, folder.path().string())),
      0);

  EXPECT_EQ(io::SafetensorsFile(folder / "ours.copy").metadata(), metadata);
  const auto theirs = by_name(io::load_safetensors(folder / "ours.copy"));
  EXPECT_EQ(theirs.size(), ours.size());
  for (const auto& [name, tensor] : ours) {
    ASSERT_TRUE(theirs.contains(name)) << name;
    EXPECT_TRUE(test::same_bits(theirs.at(name), tensor)) << name;
  }
  const io::Checkpoint copy = io::load_checkpoint(folder / "checkpoint.copy");
  EXPECT_EQ(copy.state, checkpoint.state);
  EXPECT_EQ(copy.tensors.size(), checkpoint.tensors.size());
}
