#include "safetensors_header.h"

#include <comera/base/error.h>
#include <comera/base/file.h>
#include <comera/io/checkpoint.h>

#include <charconv>
#include <memory>

namespace comera::io {
namespace {

constexpr const char* kFormat = "comera-checkpoint";

// Over what the file means and in the order of names, so that a tool that rewrites the file keeps it valid.
std::string content_hash(const std::string& version, const std::string& state, const NamedTensors& tensors) {
  Hasher hasher;
  const auto add_text = [&](std::string_view text) {
    const std::uint64_t length = text.size();
    hasher.add(&length, sizeof length);
    hasher.add(text);
  };
  add_text(version);
  add_text(state);
  std::map<std::string_view, const torch::Tensor*> by_name;
  for (const auto& [name, tensor] : tensors) by_name[name] = &tensor;
  for (const auto& [name, tensor] : by_name) {
    add_text(name);
    add_text(dtype_name(tensor->scalar_type()));
    add_text(fmt::format("{}", fmt::join(tensor->sizes(), ",")));
    hasher.add(tensor->const_data_ptr(), tensor->nbytes());
  }
  return hex(hasher.digest());
}

// JSON has no infinities, and strings may hold bytes that no reader accepts: found now, not when loading.
std::string exact_text(const Json& state, const std::string& path) {
  check(state.is_object(), "{}: the state of a checkpoint must be a JSON object", path);
  std::string text;
  try {
    text = state.dump();
  } catch (const Json::type_error&) {
    fail("{}: the state has a text that is not valid UTF-8", path);
  }
  const Json read_back = parse_json(text, path + ": state");
  if (read_back != state) {
    const Json difference = Json::diff(read_back, state);
    fail("{}: the state at {} is not a number that JSON can hold", path,
         difference.empty() ? "an unknown place" : difference[0]["path"].get<std::string>());
  }
  return text;
}

const std::string& entry(const SafetensorsFile& file, const char* key, const std::string& path) {
  const auto found = file.metadata().find(key);
  check(found != file.metadata().end(), "{}: damaged: its metadata has no {}", path, key);
  return found->second;
}

int version_number(const std::string& text, const std::string& path) {
  int version = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  check(error == std::errc() && end == text.data() + text.size() && version >= 1,
        "{}: damaged: {} is not a checkpoint version", path, shown(text));
  return version;
}

Checkpoint read_checkpoint(const SafetensorsFile& file, const std::string& path) {
  const std::string& state = entry(file, "state", path);
  Checkpoint checkpoint;
  for (std::size_t i = 0; i < file.tensors().size(); ++i)
    checkpoint.tensors.emplace_back(file.tensors()[i].name, file.read(i));
  check(content_hash(entry(file, "version", path), state, checkpoint.tensors) == entry(file, "hash", path),
        "{}: damaged: its content does not match its hash", path);
  checkpoint.state = parse_json(state, path + ": state");
  return checkpoint;
}

// What to do about a file that cannot be read is the same whatever is wrong with it.
template <class Read>
auto with_remedy(const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    fail("{}; use another checkpoint of the run or a copy", error.what());
  }
}

}  // namespace

void save_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint) {
  const std::string version = std::to_string(kCheckpointVersion);
  const std::string state = exact_text(checkpoint.state, path.string());
  NamedTensors host;
  for (const auto& [name, tensor] : checkpoint.tensors)
    host.emplace_back(name, host_tensor(tensor, name, path.string()));
  const std::string hash = content_hash(version, state, host);
  save_safetensors(path, host, {{"format", kFormat}, {"version", version}, {"state", state}, {"hash", hash}});
}

Checkpoint load_checkpoint(const std::filesystem::path& path) {
  const std::string name = path.string();
  const auto file = with_remedy([&] { return std::make_unique<SafetensorsFile>(path); });
  const auto format = file->metadata().find("format");
  check(format != file->metadata().end() && format->second == kFormat,
        "{}: a safetensors file, but no checkpoint of comera; give one that `comera train` wrote", name);
  const int version = with_remedy([&] { return version_number(entry(*file, "version", name), name); });
  check(version <= kCheckpointVersion,
        "{}: checkpoint version {} of a newer comera, this one reads up to {}; update comera", name, version,
        kCheckpointVersion);
  return with_remedy([&] { return read_checkpoint(*file, name); });
}

}  // namespace comera::io
