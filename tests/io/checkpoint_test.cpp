#include "tensors.h"
#include "test_data.h"

#include <comera/base/file.h>
#include <comera/io/checkpoint.h>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <limits>
#include <random>

using namespace comera;
namespace fs = std::filesystem;

namespace {

io::Checkpoint small_checkpoint(std::int64_t step) {
  return {Json{{"step", step}, {"loss", 0.1}, {"ranks", {1, 12, 30}}, {"text", "caf\xC3\xA9"}},
          {{"layer.cores.0", torch::arange(6, torch::kFloat32).view({1, 2, 3}) + step},
           {"step", torch::tensor(step)},
           {"mask", torch::tensor({true, false, true})}}};
}

void expect_equal(const io::Checkpoint& actual, const io::Checkpoint& expected) {
  EXPECT_EQ(actual.state.dump(), expected.state.dump());
  test::expect_same(actual.tensors, expected.tensors);
}

std::string load_error(const fs::path& path) {
  const std::string error = test::error_of([&] { io::load_checkpoint(path); });
  EXPECT_HAS(error, path.string() + ": ");
  EXPECT_EQ(error.find('\n'), std::string::npos);
  return error;
}

}  // namespace

TEST(Checkpoint, ComesBackBitForBitInOrder) {
  test::TemporaryFolder folder;
  io::Checkpoint checkpoint{Json{{"zebra", 1}, {"ant", {{"x", 0.1}, {"big", std::uint64_t{1} << 63}}}},
                            test::examples()};
  checkpoint.state["smallest"] = std::numeric_limits<double>::denorm_min();
  io::save_checkpoint(folder / "run/last.ckpt", checkpoint);
  expect_equal(io::load_checkpoint(folder / "run/last.ckpt"), checkpoint);
}

TEST(Checkpoint, StateThatJsonCannotHoldIsRefusedWhenSaving) {
  test::TemporaryFolder folder;
  const auto path = folder / "file";
  io::save_checkpoint(path, small_checkpoint(1));
  const auto refused = [&](const Json& state) {
    const std::string error = test::error_of([&] { io::save_checkpoint(path, {state, {}}); });
    expect_equal(io::load_checkpoint(path), small_checkpoint(1));
    return error;
  };
  EXPECT_HAS(refused({{"a", {1.0, std::numeric_limits<double>::infinity()}}}), "/a/1");
  EXPECT_HAS(refused({{"best", std::nan("")}}), "/best");
  EXPECT_HAS(refused({{"text", "\xFF"}}), "not valid UTF-8");
  EXPECT_HAS(refused(Json::array()), "must be a JSON object");
  Json deep = 1;
  for (int i = 0; i < 70; ++i) deep = Json{{"in", deep}};
  EXPECT_HAS(refused(deep), "levels deep");
}

TEST(Checkpoint, ForeignAndNewerFilesAreRefusedWithWhatToDo) {
  test::TemporaryFolder folder;
  const auto path = folder / "file";
  EXPECT_HAS(load_error(path), "No such file");
  write_file(path, "a text file, quite a long one");
  EXPECT_HAS(load_error(path), "not a safetensors file");
  io::save_safetensors(path, test::examples());
  EXPECT_HAS(load_error(path), "no checkpoint of comera; give one");
  io::save_safetensors(path, io::NamedTensors{}, {{"format", "pt"}});
  EXPECT_HAS(load_error(path), "no checkpoint of comera; give one");
  io::save_safetensors(path, io::NamedTensors{}, {{"format", "comera-checkpoint"}, {"version", "2"}});
  EXPECT_HAS(load_error(path), "version 2 of a newer comera, this one reads up to 1; update");
  for (const char* version : {"", "x", "0", "-1", "1.5", "99999999999999"}) {
    io::save_safetensors(path, io::NamedTensors{}, {{"format", "comera-checkpoint"}, {"version", version}});
    EXPECT_HAS(load_error(path), "damaged");
  }
  io::save_safetensors(path, io::NamedTensors{},
                       {{"format", "comera-checkpoint"}, {"version", "1"}, {"state", "{}"}});
  EXPECT_HAS(load_error(path), "damaged: its metadata has no hash");
}

TEST(Checkpoint, EveryFlippedBitAndEveryTruncationIsRefused) {
  test::TemporaryFolder folder;
  const auto path = folder / "file";
  io::save_checkpoint(path, small_checkpoint(7));
  const std::string good = read_file(path);
  const auto overwrite = [&](const std::string& content) {
    std::ofstream(path, std::ios::binary) << content;
  };
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string damaged = good;
    for (int bit = 0; bit < 8; ++bit) {
      damaged[i] = static_cast<char>(good[i] ^ (1 << bit));
      overwrite(damaged);
      EXPECT_THROW(io::load_checkpoint(path), Error) << "byte " << i << " bit " << bit;
    }
    overwrite(good.substr(0, i));
    EXPECT_THROW(io::load_checkpoint(path), Error) << "cut at " << i;
  }
  overwrite(good + "x");
  EXPECT_HAS(load_error(path), "last 1 bytes belong to no tensor; use another checkpoint");
  overwrite(good);
  expect_equal(io::load_checkpoint(path), small_checkpoint(7));
}

TEST(Checkpoint, AKillAtAnyMomentLeavesAFileThatLoads) {
  test::TemporaryFolder folder;
  const auto path = folder / "last.ckpt";
  // Two contents of some buffers' length; the child uses nothing of torch that starts threads.
  const io::Checkpoint checkpoints[] = {{Json{{"step", 0}}, {{"x", torch::zeros({400'000})}}},
                                        {Json{{"step", 1}}, {{"x", torch::ones({700'000})}}}};
  io::save_checkpoint(path, checkpoints[0]);
  const unsigned seed = std::random_device()();
  RecordProperty("seed", static_cast<int>(seed));
  std::mt19937 random(seed);
  int seen[2] = {0, 0};
  for (int kill_number = 0; kill_number < 40; ++kill_number) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (int i = 1;; ++i) io::save_checkpoint(path, checkpoints[i % 2]);
    }
    usleep(random() % 40'000);
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself";
    const io::Checkpoint loaded = io::load_checkpoint(path);
    const int step = loaded.state["step"].get<int>();
    expect_equal(loaded, checkpoints[step]);
    ++seen[step];
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(seen[1], 0) << "no child got as far as one save; seed " << seed;
  // What the killed ones left behind is cleared by the next save.
  io::save_checkpoint(path, checkpoints[0]);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
}

TEST(Checkpoint, AFullDiskKeepsTheOldCheckpoint) {
  test::TemporaryFolder folder;
  const auto path = folder / "last.ckpt";
  io::save_checkpoint(path, small_checkpoint(1));
  const io::Checkpoint large{Json{{"step", 2}}, {{"x", torch::ones({1 << 20})}}};
  const pid_t child = fork();
  if (child == 0) {
    // A limit on the size of files stands for the full disk: writing beyond it fails.
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1 << 21, 1 << 21};
    setrlimit(RLIMIT_FSIZE, &limit);
    try {
      io::save_checkpoint(path, large);
    } catch (const Error& error) {
      _exit(std::string(error.what()).find("cannot write") != std::string::npos ? 7 : 2);
    }
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  expect_equal(io::load_checkpoint(path), small_checkpoint(1));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
}

TEST(Checkpoint, EveryVersionEverWrittenLoads) {
  const fs::path folder = fs::path(COMERA_SOURCE_DIR) / "tests/fixtures/checkpoints";
  int count = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const io::Checkpoint checkpoint = io::load_checkpoint(entry.path());
    EXPECT_FALSE(checkpoint.tensors.empty()) << entry.path();
    ++count;
  }
  EXPECT_GE(count, 1);
  // The container itself, known in full.
  expect_equal(io::load_checkpoint(folder / "container-v1.ckpt"), small_checkpoint(7));
}
