#include <comera/base/error.h>
#include <comera/base/file.h>
#include <comera/exec/profile.h>
#include <comera/weights/torch.h>

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

using namespace comera;
namespace fs = std::filesystem;

namespace {

class ProfileFile : public testing::Test {
 protected:
  ProfileFile() : folder_(fs::temp_directory_path() / fmt::format("comera-profile-{}", ::getpid())) {
    fs::remove_all(folder_);
  }
  ~ProfileFile() override { fs::remove_all(folder_); }
  std::optional<plan::Profile> saved() {
    return exec::saved_profile(folder_, plan::DType::float32,
                               [this](const std::string& line) { warnings_.push_back(line); });
  }
  fs::path folder_;
  std::vector<std::string> warnings_;
};

}  // namespace

TEST_F(ProfileFile, IsMeasuredOnceAndReadBack) {
  double last = 0;
  exec::MeasureOptions options{.seconds = 0.01, .progress = [&](double done, double left) {
                                 EXPECT_GE(done, last);
                                 EXPECT_LE(done, 1);
                                 EXPECT_GE(left, 0);
                                 last = done;
                               }};
  const auto warn = [this](const std::string& line) { warnings_.push_back(line); };
  EXPECT_FALSE(saved());
  const auto measured = exec::machine_profile(folder_, options, warn);
  EXPECT_GT(last, 0);
  EXPECT_EQ(measured.threads, torch::get_num_threads());
  EXPECT_EQ(measured.dtype, plan::DType::float32);
  last = 2;  // nothing is measured again
  EXPECT_EQ(exec::machine_profile(folder_, options, warn), measured);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(ProfileFile, OfAnotherMachineOrDamagedIsLeftAside) {
  const auto path = exec::profile_path(folder_, plan::DType::float32);
  write_file(path, "{\"format\": \"comera mach");
  EXPECT_FALSE(saved());
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find(path.string()), std::string::npos);
  plan::save_profile(plan::default_profile(), path);  // machine "default"
  EXPECT_FALSE(saved());
  EXPECT_EQ(warnings_.size(), 2u);
  EXPECT_NE(exec::profile_path(folder_, plan::DType::float64), path);
}
