#include "test_data.h"

#include <comera/base/error.h>
#include <comera/base/file.h>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

using namespace comera;
namespace fs = std::filesystem;

TEST(File, ReadsWhatWasWritten) {
  test::TemporaryFolder folder;
  const std::string content(3'000'001, 'x');
  write_file(folder / "a/b/file", content);
  EXPECT_EQ(read_file(folder / "a/b/file"), content);
  EXPECT_EQ(hash_file(folder / "a/b/file"), hash_bytes(content));
}

TEST(File, MissingFolderAndTooLargeAreErrorsWithThePath) {
  test::TemporaryFolder folder;
  write_file(folder / "big", std::string(100, 'x'));
  EXPECT_THROW(read_file(folder / "none"), Error);
  EXPECT_THROW(read_file(folder.path()), Error);
  try {
    read_file(folder / "big", 99);
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("big"), std::string::npos);
  }
}

TEST(AtomicFile, WithoutCommitTheOldFileStaysAndNoRubbishIsLeft) {
  test::TemporaryFolder folder;
  write_file(folder / "file", "old");
  {
    AtomicFile file(folder / "file");
    file.write("new");
  }
  EXPECT_EQ(read_file(folder / "file"), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
}

TEST(AtomicFile, WhatAKilledWriterLeftIsRemovedAndWhatALivingOneHasIsNot) {
  test::TemporaryFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    AtomicFile file(folder / "file");
    file.write(std::string(2 << 20, 'x'));
    std::raise(SIGKILL);
  }
  waitpid(child, nullptr, 0);
  write_file(folder / "file.tmp-notours", "kept: another name");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 2);
  AtomicFile first(folder / "file"), second(folder / "file");
  first.write("first");
  second.write("second");
  first.commit();
  EXPECT_EQ(read_file(folder / "file"), "first");
  second.commit();
  EXPECT_EQ(read_file(folder / "file"), "second");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 2);
}

TEST(AtomicFile, AFullDiskIsAnErrorAndTheOldFileStays) {
  // A file-size limit in a child stands for the full disk: writes beyond it fail.
  test::TemporaryFolder folder;
  write_file(folder / "file", "old");
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1 << 16, 1 << 16};
    setrlimit(RLIMIT_FSIZE, &limit);
    try {
      write_file(folder / "file", std::string(1 << 20, 'n'));
    } catch (const Error&) {
      _exit(7);
    }
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_EQ(read_file(folder / "file"), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
}
