#include "plan_builder.h"

#include <comera/base/error.h>

#include <limits>

namespace comera::plan {
namespace {

constexpr int kVersion = 1;
constexpr std::size_t kMostTensors = 4096, kMostSteps = 4096, kMostLayers = 64, kMostDigits = 64;

std::string results_name(Results results) {
  return results == Results::forward         ? "forward"
         : results == Results::without_input ? "without_input"
                                             : "all";
}

Json index_names(const Network& network, Indices set) {
  Json names = Json::array();
  for (std::size_t i = 0; i < network.indices.size(); ++i)
    if (set >> i & 1) names.push_back(network.indices[i].name);
  return names;
}

Json leaf_names(const Network& network, Leaves set) {
  Json names = Json::array();
  for (int i = 0; i < network.size(); ++i)
    if (set >> i & 1) names.push_back(network.leaves[i].name);
  return names;
}

Json request_json(const Request& request) {
  Json layers = Json::array();
  for (const format::Shape& shape : request.layers)
    layers.push_back({{"in", shape.row_digits}, {"out", shape.col_digits}, {"ranks", shape.ranks}});
  return {{"layers", layers},
          {"tokens", request.tokens},
          {"results", results_name(request.results)},
          {"dtype", to_string(request.dtype)},
          {"device", request.device},
          {"goal", to_string(request.goal)},
          {"memory_limit", request.memory_limit}};
}

Json figures_json(const Plan& plan) {
  return {{"total_multiply_adds", plan.total_multiply_adds},
          {"forward", plan.forward},
          {"backward", plan.backward},
          {"bytes_moved", plan.bytes_moved},
          {"peak_bytes", plan.peak_bytes},
          {"forward_peak_bytes", plan.forward_peak_bytes},
          {"backward_peak_bytes", plan.backward_peak_bytes},
          {"peak_is_least", plan.peak_is_least},
          {"saved_bytes", plan.saved_bytes},
          {"predicted_seconds", plan.predicted_seconds}};
}

// Reads members, each checked; whatever is wrong is an Error that names the source.
class Reader {
 public:
  Reader(const Json& json, const std::string& source) : json_(json), source_(source) {
    check(json.is_object(), "{}: not a plan: expected an object", source);
  }

  const Json& at(const char* key) const {
    check(json_.contains(key), "{}: not a plan: no \"{}\"", source_, key);
    return json_[key];
  }
  Reader object(const char* key) const { return {at(key), source_}; }
  const Json& array(const char* key, std::size_t most) const {
    const Json& value = at(key);
    check(value.is_array() && value.size() <= most, "{}: \"{}\" is not a list of at most {}", source_, key,
          most);
    return value;
  }
  std::int64_t integer(const char* key) const { return integer(at(key), key); }
  std::int64_t integer(const Json& value, const char* key) const {
    check(value.is_number_integer() &&
              (!value.is_number_unsigned() ||
               value.get<std::uint64_t>() <= std::uint64_t{std::numeric_limits<std::int64_t>::max()}),
          "{}: \"{}\" is not an integer below 2^63", source_, key);
    return value.get<std::int64_t>();
  }
  int id(const Json& value, const char* key) const {
    const std::int64_t number = integer(value, key);
    check(number >= -1 && number < static_cast<std::int64_t>(kMostTensors), "{}: \"{}\" is out of range",
          source_, key);
    return static_cast<int>(number);
  }
  int id(const char* key) const { return id(at(key), key); }
  double number(const char* key) const {
    check(at(key).is_number(), "{}: \"{}\" is not a number", source_, key);
    return at(key).get<double>();
  }
  bool truth(const char* key) const {
    check(at(key).is_boolean(), "{}: \"{}\" is not true or false", source_, key);
    return at(key).get<bool>();
  }
  std::string text(const char* key) const {
    check(at(key).is_string(), "{}: \"{}\" is not a text", source_, key);
    return at(key).get<std::string>();
  }
  std::vector<std::int64_t> integers(const char* key, std::size_t most) const {
    std::vector<std::int64_t> result;
    for (const Json& value : array(key, most)) result.push_back(integer(value, key));
    return result;
  }
  std::vector<int> ids(const char* key) const {
    std::vector<int> result;
    for (const Json& value : array(key, kMostTensors)) result.push_back(id(value, key));
    return result;
  }
  /// A set given by the names of its members.
  template <class Set, class Named>
  Set set(const char* key, const std::vector<Named>& members) const {
    Set result = 0;
    for (const Json& value : array(key, members.size())) {
      std::size_t i = 0;
      while (i < members.size() &&
             !(value.is_string() && value.get_ref<const std::string&>() == members[i].name))
        ++i;
      check(i < members.size(), "{}: \"{}\" names what is not there", source_, key);
      result |= Set{1} << i;
    }
    return result;
  }

 private:
  const Json& json_;
  const std::string& source_;
};

Request read_request(const Reader& reader, const std::string& source) {
  Request request;
  for (const Json& value : reader.array("layers", kMostLayers)) {
    const Reader layer(value, source);
    request.layers.push_back(format::tt(layer.integers("in", kMostDigits), layer.integers("out", kMostDigits),
                                        layer.integers("ranks", kMostDigits)));
  }
  request.tokens = reader.integer("tokens");
  const std::string results = reader.text("results");
  bool known = false;
  for (const Results one : {Results::forward, Results::without_input, Results::all})
    if (results_name(one) == results) request.results = one, known = true;
  check(known, "{}: unknown results \"{}\"", source, results);
  request.dtype = parse_dtype(reader.text("dtype"));
  request.device = reader.text("device");
  request.goal = parse_goal(reader.text("goal"));
  request.memory_limit = reader.integer("memory_limit");
  return request;
}

Step read_step(const Reader& reader, const Network& network) {
  Step step;
  step.backward = reader.truth("backward");
  step.recomputed = reader.truth("recomputed");
  step.left = reader.id("left"), step.right = reader.id("right"), step.result = reader.id("result");
  step.batch = reader.set<Indices>("batch", network.indices);
  step.m = reader.set<Indices>("m", network.indices);
  step.k = reader.set<Indices>("k", network.indices);
  step.n = reader.set<Indices>("n", network.indices);
  step.copy_left = reader.truth("copy_left");
  step.copy_right = reader.truth("copy_right");
  step.copy_result = reader.truth("copy_result");
  const Reader product = reader.object("product");
  step.product = {product.integer("batch"), product.integer("m"), product.integer("k"), product.integer("n")};
  step.multiply_adds = reader.integer("multiply_adds");
  step.bytes = reader.integer("bytes");
  step.workspace = reader.integer("workspace_bytes");
  step.seconds = reader.number("seconds");
  step.frees = reader.ids("frees");
  return step;
}

Plan read_plan(const Json& json, const std::string& source) {
  const Reader reader(json, source);
  check(reader.text("format") == "comera plan", "{}: not a plan", source);
  check(reader.integer("version") == kVersion, "{}: a plan of version {}, this program has {}", source,
        reader.integer("version"), kVersion);
  Plan plan;
  plan.request = read_request(reader.object("request"), source);
  plan.network = network_of(plan.request, reader.truth("dense"));
  for (const Json& value : reader.array("tensors", kMostTensors)) {
    const Reader tensor(value, source);
    plan.tensors.push_back({tensor.text("name"), tensor.set<Leaves>("leaves", plan.network.leaves),
                            tensor.set<Indices>("dimensions", plan.network.indices),
                            tensor.integer("bytes")});
  }
  for (const Json& value : reader.array("steps", kMostSteps))
    plan.steps.push_back(read_step({value, source}, plan.network));
  if (!reader.at("tree").is_null()) {
    plan.tree = Tree{plan.network.size(), {}};
    for (const Json& value : reader.array("tree", kMostCores)) {
      check(value.is_array() && value.size() == 2, "{}: a node of the tree joins two", source);
      plan.tree->nodes.push_back({reader.id(value[0], "tree"), reader.id(value[1], "tree")});
    }
  }
  plan.saved = reader.ids("saved");
  plan.results = reader.ids("results");
  plan.forward = reader.integer("forward");
  plan.backward = reader.integer("backward");
  plan.total_multiply_adds = reader.integer("total_multiply_adds");
  plan.bytes_moved = reader.integer("bytes_moved");
  plan.saved_bytes = reader.integer("saved_bytes");
  plan.forward_peak_bytes = reader.integer("forward_peak_bytes");
  plan.backward_peak_bytes = reader.integer("backward_peak_bytes");
  plan.peak_bytes = reader.integer("peak_bytes");
  plan.peak_is_least = reader.truth("peak_is_least");
  plan.predicted_seconds = reader.number("predicted_seconds");
  return plan;
}

}  // namespace

Json to_json(const Plan& plan, const NamedPlans& alternatives) {
  const Network& network = plan.network;
  Json json = {{"format", "comera plan"}, {"version", kVersion}, {"request", request_json(plan.request)}};
  json.update(figures_json(plan));
  json["dense"] = network.size() == 3;
  json["tree"] = nullptr;
  if (plan.tree) {
    json["tree"] = Json::array();
    for (const auto& node : plan.tree->nodes) json["tree"].push_back({node.left, node.right});
  }
  json["saved"] = plan.saved;
  json["results"] = plan.results;
  json["tensors"] = Json::array();
  for (const Tensor& tensor : plan.tensors)
    json["tensors"].push_back({{"name", tensor.name},
                               {"leaves", leaf_names(network, tensor.leaves)},
                               {"dimensions", index_names(network, tensor.indices)},
                               {"bytes", tensor.bytes}});
  json["steps"] = Json::array();
  for (const Step& step : plan.steps)
    json["steps"].push_back({{"backward", step.backward},
                             {"recomputed", step.recomputed},
                             {"left", step.left},
                             {"right", step.right},
                             {"result", step.result},
                             {"batch", index_names(network, step.batch)},
                             {"m", index_names(network, step.m)},
                             {"k", index_names(network, step.k)},
                             {"n", index_names(network, step.n)},
                             {"copy_left", step.copy_left},
                             {"copy_right", step.copy_right},
                             {"copy_result", step.copy_result},
                             {"product",
                              {{"batch", step.product.batch},
                               {"m", step.product.m},
                               {"k", step.product.k},
                               {"n", step.product.n}}},
                             {"multiply_adds", step.multiply_adds},
                             {"bytes", step.bytes},
                             {"workspace_bytes", step.workspace},
                             {"seconds", step.seconds},
                             {"frees", step.frees}});
  json["alternatives"] = Json::object();
  for (const auto& [name, other] : alternatives) json["alternatives"][name] = figures_json(other);
  return json;
}

Plan plan_from_json(const Json& json, const std::string& source) {
  Plan plan;
  try {
    plan = read_plan(json, source);
    validate(plan, source);
  } catch (const Error& error) {
    // What the checks of shapes and trees say does not name the source.
    const std::string text = error.what();
    throw Error(text.starts_with(source) ? text : source + ": " + text);
  }
  return plan;
}

}  // namespace comera::plan
