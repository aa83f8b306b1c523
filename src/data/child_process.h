// Runs another program, without a shell, and waits for it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace comera::data {

/// Runs `command` (its first part is looked up in PATH) with `folder` as working folder; what it prints goes
/// to the file `log` there. Throws Error with the last line printed when it fails, and one that names
/// `package` when there is no such program.
void run_program(const std::vector<std::string>& command, const std::filesystem::path& folder,
                 const std::string& log, const std::string& package);

/// Runs `command` and gives what it wrote to its standard output, at most `limit` bytes. Throws Error when it
/// cannot be started or fails.
std::string program_output(const std::vector<std::string>& command, std::size_t limit);

}  // namespace comera::data
