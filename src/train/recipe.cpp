#include "recipe_fields.h"

#include <comera/base/error.h>
#include <comera/base/file.h>
#include <comera/base/text.h>
#include <comera/rank/options.h>
#include <comera/train/recipe.h>

// Some text that the parser refuses would first abort in its own assertions.
#define TOML_ASSERT(expression) static_assert(true)
#define TOML_MAX_NESTED_VALUES 32
#include <toml++/toml.h>

#include <cmath>
#include <set>
#include <type_traits>

namespace comera::train {
namespace {

// One value of a TOML document, with the place to name in messages.
struct Place {
  std::string source;
  std::string key;
  std::string where(const toml::node& node) const {
    return node.source().begin.line ? fmt::format("{}:{}", source, node.source().begin.line) : source;
  }
};

[[noreturn]] void wrong(const Place& place, const toml::node& node, const std::string& expected) {
  fail("{}: {} must be {}", place.where(node), place.key, expected);
}

void assign(const Place& place, const toml::node& node, std::int64_t& into) {
  if (const auto number = node.value_exact<std::int64_t>()) {
    into = *number;
  } else if (const auto text = node.value_exact<std::string>()) {
    try {
      into = parse_count(*text);
    } catch (const Error& error) {
      fail("{}: {}: {}", place.where(node), place.key, error.what());
    }
  } else {
    wrong(place, node, "a whole number");
  }
}
void assign(const Place& place, const toml::node& node, double& into) {
  if (!node.is_number()) wrong(place, node, "a number");
  into = *node.value<double>();
  if (!std::isfinite(into)) wrong(place, node, "a finite number");
}
void assign(const Place& place, const toml::node& node, bool& into) {
  if (!node.is_boolean()) wrong(place, node, "true or false");
  into = *node.value<bool>();
}
void assign(const Place& place, const toml::node& node, std::string& into) {
  if (!node.is_string()) wrong(place, node, "text in quotes");
  into = *node.value<std::string>();
}
// Lists take one value for a list of one.
template <class Item>
void assign(const Place& place, const toml::node& node, std::vector<Item>& into) {
  into.clear();
  if (const toml::array* array = node.as_array()) {
    for (const toml::node& item : *array) assign(place, item, into.emplace_back());
  } else {
    assign(place, node, into.emplace_back());
  }
}

void choose(const Place& place, const toml::node& node, const std::string& value, const Choices& choices) {
  if (std::find(choices.begin(), choices.end(), value) == choices.end())
    fail("{}: {} cannot be '{}'; use one of {}", place.where(node), place.key, value,
         fmt::join(choices, ", "));
}

const toml::node* find(const toml::table& document, std::string_view key) {
  const toml::table* table = &document;
  for (std::size_t dot; (dot = key.find('.')) != std::string_view::npos; key.remove_prefix(dot + 1)) {
    const toml::node* inner = table->get(key.substr(0, dot));
    if (!inner || !inner->is_table()) return nullptr;
    table = inner->as_table();
  }
  return table->get(key);
}

const std::vector<std::string> kLayerKeys{"match", "format", "in",    "out",       "rows",
                                          "cols",  "digits", "ranks", "parameters"};

nn::FormatRule layer_rule(const toml::table& table, const std::string& source) {
  nn::FormatRule rule;
  bool advised = false;
  for (const auto& [key, node] : table) {
    const Place place{source, "layers." + std::string(key.str())};
    const std::string name(key.str());
    if (name == "match") {
      assign(place, node, rule.pattern);
    } else if (name == "format") {
      std::string value;
      assign(place, node, value);
      choose(place, node, value, {"dense", "low_rank", "compressed"});
      rule.format.kind = value == "dense"      ? nn::LayerKind::dense
                         : value == "low_rank" ? nn::LayerKind::low_rank
                                               : nn::LayerKind::compressed;
    } else if (name == "in" || name == "rows") {
      assign(place, node, rule.format.row_digits);
    } else if (name == "out" || name == "cols") {
      assign(place, node, rule.format.col_digits);
    } else if (name == "digits" && node.is_string()) {
      std::string value;
      assign(place, node, value);
      choose(place, node, value, {"auto"});
      advised = true;
    } else if (name == "parameters") {
      assign(place, node, rule.format.parameters);
      if (rule.format.parameters < 1) wrong(place, node, "1 or more");
    } else if (name == "digits") {
      assign(place, node, rule.format.digits);
      if (rule.format.digits < 1 || rule.format.digits > 16) wrong(place, node, "between 1 and 16");
    } else if (name == "ranks") {
      assign(place, node, rule.format.ranks);
    } else {
      const std::string near = nearest_name(name, kLayerKeys);
      fail("{}: unknown key '{}' in [[layers]]{}", place.where(node), name,
           near.empty() ? "; the keys are " + fmt::format("{}", fmt::join(kLayerKeys, ", "))
                        : "; did you mean '" + near + "'?");
    }
  }
  if (rule.pattern.empty())
    fail("{}:{}: a [[layers]] rule needs match = \"layer name pattern\"", source, table.source().begin.line);
  if (advised != (rule.format.parameters > 0))
    fail(
        "{}:{}: the rule for '{}' needs digits = \"auto\" and parameters together, for example parameters = "
        "\"20k\"",
        source, table.source().begin.line, rule.pattern);
  if (rule.format.kind != nn::LayerKind::dense && rule.format.ranks.empty() && !advised)
    fail("{}:{}: the rule for '{}' needs ranks, for example ranks = 16", source, table.source().begin.line,
         rule.pattern);
  return rule;
}

// Every leaf key of the document must be known.
void refuse_unknown(const toml::table& table, const std::string& prefix, const std::set<std::string>& known,
                    const std::string& source) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    if (name == "layers" || known.count(name)) continue;
    if (node.is_table() && prefix.empty() && known.lower_bound(name + ".") != known.end() &&
        known.lower_bound(name + ".")->starts_with(name + ".")) {
      refuse_unknown(*node.as_table(), name + ".", known, source);
      continue;
    }
    const std::string near = nearest_name(name, {known.begin(), known.end()});
    fail("{}: unknown key '{}'{}", Place{source, name}.where(node), name,
         near.empty() ? "; `comera train --help` lists all keys" : "; did you mean '" + near + "'?");
  }
}

// Each part of a dotted key nests one table in another, which the parser follows by recursion; it limits only
// the nesting of brackets.
constexpr std::ptrdiff_t kMostDots = 256;

toml::table parse_toml(std::string_view text, const std::string& source) {
  check(text.size() <= 1 << 20, "{}: a recipe of more than 1 MiB is not a recipe", source);
  std::int64_t number = 1;
  for (std::size_t from = 0; from < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    check(std::count(text.begin() + from, text.begin() + end, '.') <= kMostDots,
          "{}:{}: more than {} dots in a line; break the list into several lines", source, number, kMostDots);
    from = end + 1;
  }
  try {
    return toml::parse(text, source);
  } catch (const toml::parse_error& error) {
    fail("{}:{}: {}", source, error.source().begin.line, error.description());
  }
}

void apply_document(Recipe& recipe, const toml::table& document, const std::string& source) {
  std::set<std::string> known;
  visit_fields(recipe, [&](const char* key, auto&, const char*, const auto&...) { known.insert(key); });
  refuse_unknown(document, "", known, source);
  visit_fields(recipe, [&](const char* key, auto& member, const char*, const auto&... choices) {
    const toml::node* node = find(document, key);
    if (!node) return;
    const Place place{source, key};
    assign(place, *node, member);
    if constexpr (sizeof...(choices) == 1) choose(place, *node, member, choices...);
  });
  if (const toml::node* layers = document.get("layers")) {
    const toml::array* rules = layers->as_array();
    if (!rules) fail("{}: layers must be written as [[layers]] tables", Place{source, ""}.where(*layers));
    recipe.layers.clear();
    for (const toml::node& rule : *rules) {
      if (!rule.is_table())
        fail("{}: layers must be written as [[layers]] tables", Place{source, ""}.where(rule));
      recipe.layers.push_back(layer_rule(*rule.as_table(), source));
    }
  }
}

void apply_override(Recipe& recipe, const std::string& text) {
  const auto equals = text.find('=');
  check(equals != std::string::npos && equals > 0,
        "--set {}: write key=value, for example --set model.layers=2", text);
  const std::string key = text.substr(0, equals), value = text.substr(equals + 1);
  toml::table document;
  try {
    document = parse_toml(key + " = " + value, "--set");
  } catch (const Error&) {
    // Not a TOML value: a bare word or path, taken as text.
    std::string quoted;
    for (const char c : value) {
      if (c == '"' || c == '\\') quoted += '\\';
      quoted += c;
    }
    document = parse_toml(key + " = \"" + quoted + "\"", "--set");
  }
  apply_document(recipe, document, "--set " + key);
}

constexpr std::int64_t kLargestWidth = std::int64_t{1} << 24;  // entries of a side, samples of a batch
constexpr std::int64_t kMany = std::int64_t{1} << 53;          // what JSON keeps exactly

void check_values(const Recipe& recipe, const std::string& source) {
  const auto in_range = [&](bool fine, const char* key, const auto& value, const std::string& wanted) {
    check(fine, "{}: {} is {}, it must be {}", source, key, value, wanted);
  };
  const auto between = [&](const char* key, std::int64_t value, std::int64_t least, std::int64_t most) {
    check(value >= least && value <= most, "{}: {} is {}, it must be from {} to {}", source, key, value,
          least, most);
  };
  const ModelRecipe& m = recipe.model;
  between("model.layers", m.layers, 0, 10'000);
  between("model.width", m.width, 1, kLargestWidth);
  between("model.heads", m.heads, 1, kLargestWidth);
  between("model.ffn", m.ffn, 1, kLargestWidth);
  between("model.positions", m.positions, 1, kLargestWidth);
  between("model.segments", m.segments, 0, 1000);
  in_range(m.width % m.heads == 0, "model.heads", m.heads, "a divisor of model.width");
  in_range(m.dropout >= 0 && m.dropout < 1, "model.dropout", m.dropout, "from 0 to below 1");
  in_range(m.attention_dropout >= 0 && m.attention_dropout < 1, "model.attention_dropout",
           m.attention_dropout, "from 0 to below 1");
  in_range(m.norm_epsilon >= 0, "model.norm_epsilon", m.norm_epsilon, "0 or more");
  in_range(m.table_std > 0, "model.table_std", m.table_std, "above 0");
  const DataRecipe& d = recipe.data;
  between("data.max_length", d.max_length, 4, kLargestWidth);
  in_range(d.max_length <= m.positions, "data.max_length", d.max_length, "at most model.positions");
  between("data.vocabulary_size", d.vocabulary_size, 64, kLargestWidth);
  in_range(d.mask_share > 0 && d.mask_share < 1, "data.mask_share", d.mask_share, "between 0 and 1");
  const TrainRecipe& t = recipe.train;
  between("train.steps", t.steps, 1, kMany);
  between("train.batch_size", t.batch_size, 1, kLargestWidth);
  between("train.micro_batches", t.micro_batches, 1, kLargestWidth);
  in_range(t.batch_size % t.micro_batches == 0, "train.micro_batches", t.micro_batches,
           "a divisor of train.batch_size");
  between("train.seed", t.seed, 0, kMany);
  for (const auto& [key, value] : {std::pair{"train.learning_rate", t.learning_rate},
                                   {"train.core_learning_rate", t.core_learning_rate},
                                   {"train.scale_learning_rate", t.scale_learning_rate},
                                   {"train.weight_decay", t.weight_decay},
                                   {"train.clip", t.clip},
                                   {"rank.gamma", recipe.rank.gamma},
                                   {"rank.target_loss", recipe.rank.target_loss}})
    in_range(value >= 0, key, value, "0 or more");
  in_range(t.learning_rate > 0, "train.learning_rate", t.learning_rate, "above 0");
  in_range(t.warmup >= 0 && t.warmup <= 1, "train.warmup", t.warmup, "from 0 to 1");
  in_range(t.beta1 >= 0 && t.beta1 < 1, "train.beta1", t.beta1, "from 0 to below 1");
  in_range(t.beta2 >= 0 && t.beta2 < 1, "train.beta2", t.beta2, "from 0 to below 1");
  in_range(t.epsilon > 0, "train.epsilon", t.epsilon, "above 0");
  for (const auto& [key, value] : {std::pair{"train.evaluate_every", t.evaluate_every},
                                   {"train.evaluate_samples", t.evaluate_samples},
                                   {"train.save_every", t.save_every},
                                   {"rank.target_parameters", recipe.rank.target_parameters},
                                   {"rank.target_bytes", recipe.rank.target_bytes}})
    between(key, value, 0, kMany);
  between("train.threads", t.threads, 0, 4096);
  between("train.log_every", t.log_every, 1, kMany);
  between("rank.cut_every", recipe.rank.cut_every, 1, kMany);
  // Prices rise over the steps before.
  const double earliest = rank::Options().price_full;
  in_range(recipe.rank.early_end >= earliest && recipe.rank.early_end <= 1, "rank.early_end",
           recipe.rank.early_end, fmt::format("from {} to 1", earliest));
  for (const nn::FormatRule& rule : recipe.layers)
    check(
        recipe.rank.may_die || std::count(rule.format.ranks.begin(), rule.format.ranks.end(), 0) == 0,
        "{}: the rule for '{}' has a rank of 0, which leaves only the bias of a layer; use 1 or more, or set "
        "rank.may_die = true",
        source, rule.pattern);
  check(recipe.rank.adapt ||
            !(recipe.rank.target_parameters || recipe.rank.target_bytes || recipe.rank.target_loss > 0),
        "{}: a target needs rank.adapt = true", source);
  check(!(recipe.rank.target_parameters && recipe.rank.target_bytes),
        "{}: give rank.target_parameters or rank.target_bytes, not both", source);
}

std::string toml_text(const std::string& value) {
  std::string text = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') text += '\\';
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      text += fmt::format("\\u{:04X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      text += c;
    }
  }
  return text + "\"";
}
std::string toml_text(std::int64_t value) { return fmt::format("{}", value); }
std::string toml_text(bool value) { return value ? "true" : "false"; }
std::string toml_text(double value) {
  std::string text = fmt::format("{}", value);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}
template <class Item>
std::string toml_text(const std::vector<Item>& values) {
  std::string text = "[";
  for (const Item& value : values) text += (text.size() > 1 ? ", " : "") + toml_text(value);
  return text + "]";
}

}  // namespace

Recipe parse_recipe(std::string_view text, const std::string& source,
                    const std::vector<std::string>& overrides) {
  if (const auto bad = invalid_utf8(text)) fail("{}: invalid UTF-8 at byte {}", source, *bad);
  Recipe recipe;
  apply_document(recipe, parse_toml(text, source), source);
  for (const std::string& override_text : overrides) apply_override(recipe, override_text);
  check_values(recipe, source);
  return recipe;
}

Recipe read_recipe(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  const std::string text = read_file(path, 1 << 20);
  check(text.find('=') != std::string::npos,
        "{}: sets nothing; a recipe needs data.train and more, see configs/", path.string());
  Recipe recipe = parse_recipe(text, path.string(), overrides);
  if (recipe.name.empty()) recipe.name = path.stem().string();
  return recipe;
}

std::string to_toml(const Recipe& recipe) {
  std::string text, table;
  visit_fields(recipe, [&](const char* key, const auto& member, const char*, const auto&...) {
    const std::string full = key;
    const auto dot = full.find('.');
    const std::string section = dot == std::string::npos ? "" : full.substr(0, dot);
    if (section != table) text += fmt::format("\n[{}]\n", table = section);
    text +=
        fmt::format("{} = {}\n", dot == std::string::npos ? full : full.substr(dot + 1), toml_text(member));
  });
  for (const nn::FormatRule& rule : recipe.layers) {
    const nn::LayerFormat& format = rule.format;
    text += fmt::format("\n[[layers]]\nmatch = {}\nformat = \"{}\"\n", toml_text(rule.pattern),
                        format.kind == nn::LayerKind::dense      ? "dense"
                        : format.kind == nn::LayerKind::low_rank ? "low_rank"
                                                                 : "compressed");
    if (!format.row_digits.empty()) text += "in = " + toml_text(format.row_digits) + "\n";
    if (!format.col_digits.empty()) text += "out = " + toml_text(format.col_digits) + "\n";
    if (format.digits) text += "digits = " + toml_text(format.digits) + "\n";
    if (format.parameters) text += "digits = \"auto\"\nparameters = " + toml_text(format.parameters) + "\n";
    if (!format.ranks.empty()) text += "ranks = " + toml_text(format.ranks) + "\n";
  }
  return text;
}

std::vector<FieldHelp> recipe_help() {
  const Recipe defaults;
  std::vector<FieldHelp> help;
  visit_fields(defaults,
               [&](const char* key, const auto& member, const char* meaning, const auto&... choices) {
                 std::string text = meaning;
                 if constexpr (sizeof...(choices) == 1)
                   text += fmt::format(" ({})", fmt::join(choices..., ", "));
                 help.push_back({key, toml_text(member), text});
               });
  return help;
}

nn::ModelOptions model_options(const Recipe& recipe, std::int64_t vocabulary, std::int64_t labels) {
  const ModelRecipe& m = recipe.model;
  nn::ModelOptions options;
  options.vocabulary = vocabulary;
  options.positions = m.positions;
  options.segments = m.segments;
  options.layers = m.layers;
  options.encoder = {.width = m.width,
                     .heads = m.heads,
                     .ffn = m.ffn,
                     .norm = m.norm == "pre" ? nn::NormPlace::pre : nn::NormPlace::post,
                     .norm_epsilon = m.norm_epsilon,
                     .dropout = m.dropout,
                     .attention_dropout = m.attention_dropout};
  options.head = m.head == "classifier" ? nn::Head::classifier
                 : m.head == "masked"   ? nn::Head::masked
                                        : nn::Head::next_token;
  options.labels = labels;
  options.pooling = m.pooling == "mean" ? nn::Pooling::mean : nn::Pooling::first;
  options.pooler = m.pooler;
  options.table_std = m.table_std;
  options.zero_residual = m.zero_residual;
  return options;
}

std::vector<nn::FormatRule> layer_rules(const Recipe& recipe) {
  return recipe.train.method == "dense" ? std::vector<nn::FormatRule>{} : recipe.layers;
}

}  // namespace comera::train
