#include <comera/base/error.h>
#include <comera/train/saved_model.h>
#include <comera/weights/tensor_train.h>

#include <map>

namespace comera::train {
namespace {

constexpr const char* kModelPrefix = "model.";
constexpr const char* kTokenizer = "tokenizer";

// The tokenizer's state may be binary, so it is stored as bytes.
torch::Tensor bytes_tensor(const std::string& text) {
  return torch::from_blob(const_cast<char*>(text.data()), {static_cast<std::int64_t>(text.size())},
                          torch::kUInt8)
      .clone();
}

using ByName = std::map<std::string, torch::Tensor>;

const torch::Tensor& find(const ByName& tensors, const std::string& name) {
  const auto found = tensors.find(name);
  check(found != tensors.end(), "the checkpoint has no tensor '{}'", name);
  return found->second;
}

}  // namespace

void fill_model(nn::Model& model, const io::Checkpoint& checkpoint) {
  const ByName tensors(checkpoint.tensors.begin(), checkpoint.tensors.end());
  torch::NoGradGuard no_grad;
  // Tensor trains first: their saved cores say what the ranks are.
  for (auto& [name, weight] : model.trains()) {
    const auto gather = [&](const char* part, std::int64_t count) {
      std::vector<torch::Tensor> list;
      for (std::int64_t k = 0; k < count; ++k)
        list.push_back(find(tensors, fmt::format("{}{}.{}.{}", kModelPrefix, name, part, k)));
      return list;
    };
    const auto scales = gather("scales", weight.shape().bonds());
    for (const auto& scale : scales)
      check(scale.dim() == 1, "rank scales of '{}' have {} dimensions", name, scale.dim());
    weight.replace(gather("cores", weight.shape().order()), scales);
  }
  for (auto& parameter : model.named_parameters()) {
    const torch::Tensor& saved = find(tensors, kModelPrefix + parameter.key());
    check(saved.sizes() == parameter.value().sizes(), "tensor '{}' has sizes {}, its recipe says {}",
          parameter.key(), fmt::join(saved.sizes(), "x"), fmt::join(parameter.value().sizes(), "x"));
    check(torch::isfinite(saved).all().item<bool>(),
          "tensor '{}' has values that are not finite: the run had gone wrong; train again, with a lower "
          "train.learning_rate",
          parameter.key());
    parameter.value().copy_(saved);
  }
}

void put_model(io::Checkpoint& checkpoint, const Recipe& recipe, const nn::Model& model,
               const data::Tokenizer& tokenizer, const std::vector<std::string>& labels) {
  checkpoint.state["recipe"] = to_toml(recipe);
  checkpoint.state["labels"] = labels;
  checkpoint.state["tokenizer"] = tokenizer.kind();
  checkpoint.tensors.emplace_back(kTokenizer, bytes_tensor(tokenizer.state()));
  for (const auto& parameter : model.named_parameters())
    checkpoint.tensors.emplace_back(kModelPrefix + parameter.key(), parameter.value().detach());
}

bool same_tokenizer(const io::Checkpoint& checkpoint, const data::Tokenizer& tokenizer) {
  const ByName tensors(checkpoint.tensors.begin(), checkpoint.tensors.end());
  return checkpoint.state.at("tokenizer").get<std::string>() == tokenizer.kind() &&
         torch::equal(find(tensors, kTokenizer), bytes_tensor(tokenizer.state()));
}

SavedModel load_model(const std::filesystem::path& path) {
  SavedModel saved;
  saved.checkpoint = io::load_checkpoint(path);
  try {
    const Json& state = saved.checkpoint.state;
    check(state.contains("recipe"), "it holds no recipe; it was not written by comera train");
    saved.recipe = parse_recipe(state.at("recipe").get<std::string>(), "its recipe");
    // A checkpoint may come from anyone: it names no program to run and no folder to write to.
    saved.recipe.data.python.clear();
    saved.recipe.data.cache = DataRecipe().cache;
    saved.labels = state.at("labels").get<std::vector<std::string>>();
    const ByName tensors(saved.checkpoint.tensors.begin(), saved.checkpoint.tensors.end());
    const torch::Tensor& text = find(tensors, kTokenizer);
    check(text.scalar_type() == torch::kUInt8 && text.dim() == 1,
          "the tokenizer's state is not a list of bytes");
    saved.tokenizer = data::load_tokenizer(
        state.at("tokenizer").get<std::string>(),
        std::string_view(reinterpret_cast<const char*>(text.data_ptr<std::uint8_t>()), text.numel()));
    const auto classes = static_cast<std::int64_t>(saved.labels.size());
    saved.model =
        std::make_shared<nn::Model>(model_options(saved.recipe, saved.tokenizer->vocabulary_size(), classes),
                                    layer_rules(saved.recipe), saved.recipe.train.seed);
    fill_model(*saved.model, saved.checkpoint);
  } catch (const nlohmann::json::exception& error) {
    fail("{}: not a checkpoint of a comera run: {}", path.string(), error.what());
  } catch (const Error& error) {
    fail("{}: cannot be loaded: {}", path.string(), error.what());
  }
  return saved;
}

}  // namespace comera::train
