#include <comera/base/error.h>
#include <comera/base/file.h>
#include <comera/base/json.h>
#include <comera/base/text.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace comera {
namespace {

constexpr std::size_t kDeepest = 64;

std::int64_t line_at(std::string_view text, std::size_t offset) {
  return 1 + std::count(text.begin(), text.begin() + std::min(offset, text.size()), '\n');
}

// Builds the document from the parser's events. The library's own builder compares each key with all before
// it in the object, for hours on a large one, and lets the last of equal keys win.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Builder(std::string_view text, std::string_view source) : text_(text), source_(source) {}
  Json root;

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(std::int64_t value) override { return add(value); }
  bool number_unsigned(std::uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string&) override { return add(value); }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool binary(Json::binary_t& value) override { return add(std::move(value)); }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& text) override {
    check(open_.back().keys.insert(text).second, "{}: not valid JSON: the key {} stands twice in an object",
          source_, Json(text).dump());
    key_ = std::move(text);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const Json::exception&) override {
    fail("{}:{}: not valid JSON near byte {}", source_, line_at(text_, position), position);
  }

 private:
  struct Open {
    Json* value;
    std::set<std::string> keys;
  };

  Json* place(Json value) {
    if (open_.empty()) return &(root = std::move(value));
    if (open_.back().value->is_array()) return &open_.back().value->emplace_back(std::move(value));
    auto& items = open_.back().value->get_ref<Json::object_t&>();
    return &items.Json::object_t::Container::emplace_back(std::move(key_), std::move(value)).second;
  }
  bool add(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json value) {
    check(open_.size() < kDeepest, "{}: JSON nested more than {} levels deep", source_, kDeepest);
    open_.push_back({place(std::move(value)), {}});
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view text_, source_;
  std::vector<Open> open_;
  std::string key_;
};

}  // namespace

Json parse_json(std::string_view text, std::string_view source) {
  if (const auto bad = invalid_utf8(text))
    fail("{}:{}: invalid UTF-8 at byte {}", source, line_at(text, *bad), *bad);
  // The library takes a zero byte for the end and would not see what follows.
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos)
    fail("{}:{}: not valid JSON: a zero byte at byte {}", source, line_at(text, zero), zero);
  Builder builder(text, source);
  Json::sax_parse(text, &builder);
  return std::move(builder.root);
}

Json read_json(const std::filesystem::path& path) { return parse_json(read_file(path), path.string()); }

}  // namespace comera
