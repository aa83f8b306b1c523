#include "safetensors_header.h"

#include <comera/base/error.h>
#include <comera/base/json.h>

#include <limits>
#include <set>

namespace comera::io {
namespace {

// Takes the JSON as a stream of events, so that no tree is built from a header that may be hostile:
// {"name": {"dtype": text, "shape": [n, ..], "data_offsets": [begin, end]}, .., "__metadata__": {"key":
// text}}
class HeaderEvents : public nlohmann::json_sax<Json> {
 public:
  HeaderEvents(std::uint64_t data_bytes, std::string_view source)
      : data_bytes_(data_bytes), source_(source) {}
  Header header;

  bool start_object(std::size_t) override {
    if (depth_ == 2 || in_list_) refuse_value("an object");
    ++depth_;
    return true;
  }
  bool key(std::string& text) override {
    if (depth_ == 2) {
      key_ = text;
      return true;
    }
    name_ = text;
    check(names_.insert(text).second, "{}: {} stands twice in the header", source_, shown(text));
    dtype_.reset();
    shape_.reset();
    data_offsets_.reset();
    return true;
  }
  bool end_object() override {
    if (depth_-- == 2 && !in_metadata()) add_tensor();
    return true;
  }
  bool start_array(std::size_t) override {
    if (depth_ != 2 || in_list_ || in_metadata() || (key_ != "shape" && key_ != "data_offsets"))
      refuse_value("a list");
    in_list_ = true;
    list().emplace();
    return true;
  }
  bool end_array() override {
    in_list_ = false;
    return true;
  }
  bool string(std::string& text) override {
    if (depth_ == 2 && in_metadata()) {
      header.metadata[key_] = text;
    } else if (depth_ == 2 && !in_list_ && key_ == "dtype") {
      dtype_ = dtype_of(text);
      check(dtype_.has_value(), "{}: tensor {}: torch has no dtype {}", source_, shown(name_), shown(text));
    } else {
      refuse_value("a text");
    }
    return true;
  }
  bool number_unsigned(std::uint64_t value) override {
    if (!in_list_) refuse_value("a number");
    check(list()->size() < kMaximumDimensions, "{}: tensor {}: {} has more than {} entries", source_,
          shown(name_), key_, kMaximumDimensions);
    check(value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()),
          "{}: tensor {}: {} holds {}, which is too large", source_, shown(name_), key_, value);
    list()->push_back(static_cast<std::int64_t>(value));
    return true;
  }
  bool number_integer(std::int64_t value) override { refuse_value(std::to_string(value)); }
  bool number_float(double, const std::string& text) override { refuse_value(text); }
  bool null() override { refuse_value("null"); }
  bool boolean(bool) override { refuse_value("true or false"); }
  bool binary(Json::binary_t&) override { refuse_value("binary data"); }
  bool parse_error(std::size_t position, const std::string&, const Json::exception&) override {
    fail("{}: its header is not valid JSON near byte {}", source_, position);
  }

 private:
  bool in_metadata() const { return name_ == kMetadataKey; }
  std::optional<std::vector<std::int64_t>>& list() { return key_ == "shape" ? shape_ : data_offsets_; }

  [[noreturn]] void refuse_value(const std::string& what) const {
    if (depth_ < 2) fail("{}: header entry {} is {}, expected an object", source_, shown(name_), what);
    fail("{}: header entry {}: {} is {}, which does not belong there", source_, shown(name_), shown(key_),
         what);
  }

  void add_tensor() {
    const std::string name = shown(name_);
    check(dtype_ && shape_ && data_offsets_ && data_offsets_->size() == 2,
          "{}: tensor {} lacks one of dtype, shape and data_offsets [begin, end]", source_, name);
    TensorInfo info{name_, *dtype_, *shape_};
    const auto bytes = byte_count(info);
    check(bytes.has_value(), "{}: tensor {}: shape [{}] has too many elements", source_, name,
          fmt::join(info.shape, ", "));
    const auto begin = static_cast<std::uint64_t>((*data_offsets_)[0]);
    const auto end = static_cast<std::uint64_t>((*data_offsets_)[1]);
    check(begin <= end && end - begin == *bytes,
          "{}: tensor {}: bytes {} to {} do not fit its dtype and shape, which take {}", source_, name, begin,
          end, *bytes);
    check(end <= data_bytes_, "{}: truncated: tensor {} ends at byte {} of the data, which has {}", source_,
          name, end, data_bytes_);
    header.tensors.push_back(std::move(info));
    header.offsets.push_back(begin);
  }

  std::uint64_t data_bytes_;
  std::string_view source_;
  std::set<std::string> names_;
  int depth_ = 0;
  bool in_list_ = false;
  std::string name_, key_;
  std::optional<torch::ScalarType> dtype_;
  std::optional<std::vector<std::int64_t>> shape_, data_offsets_;
};

// Every byte belongs to exactly one tensor: a gap or an overlap is a damaged or a crafted file.
void check_tiling(const Header& header, std::uint64_t data_bytes, std::string_view source) {
  std::uint64_t end = 0;
  for (const std::size_t i : file_order(header)) {
    check(header.offsets[i] >= end, "{}: tensor {} overlaps another one", source,
          shown(header.tensors[i].name));
    check(header.offsets[i] == end, "{}: bytes {} to {} of the data belong to no tensor", source, end,
          header.offsets[i]);
    end += *byte_count(header.tensors[i]);
  }
  check(end == data_bytes, "{}: the last {} bytes belong to no tensor", source, data_bytes - end);
}

}  // namespace

Header parse_header(std::string_view text, std::uint64_t data_bytes, std::string_view source) {
  check(text.starts_with('{'), "{}: not a safetensors file: its header does not begin with {{", source);
  // The JSON library takes a zero byte for the end.
  check(text.find('\0') == std::string_view::npos, "{}: its header is not valid JSON: it has a zero byte",
        source);
  HeaderEvents events(data_bytes, source);
  Json::sax_parse(text, &events);
  check_tiling(events.header, data_bytes, source);
  return std::move(events.header);
}

}  // namespace comera::io
