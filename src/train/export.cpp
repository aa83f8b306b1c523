#include <comera/io/safetensors.h>
#include <comera/train/export.h>
#include <comera/train/report.h>
#include <comera/weights/materialize.h>

namespace comera::train {
namespace {

struct Entry {
  io::TensorInfo info;
  std::function<torch::Tensor()> value;
};

Entry plain(const std::string& name, const torch::Tensor& tensor) {
  return {{name, tensor.scalar_type(), tensor.sizes().vec()}, [tensor] { return tensor; }};
}

}  // namespace

std::int64_t export_model(const SavedModel& saved, const std::filesystem::path& path, ExportFormat format) {
  torch::NoGradGuard no_grad;
  const auto trains = saved.model->trains();
  std::vector<Entry> entries;
  // Whatever is not a core or a scale is written as it is.
  for (const auto& parameter : saved.model->named_parameters())
    if (parameter.key().find(".cores.") == std::string::npos &&
        parameter.key().find(".scales.") == std::string::npos)
      entries.push_back(plain(parameter.key(), parameter.value().detach()));
  for (const auto& [name, weight] : trains) {
    const format::Shape& shape = weight.shape();
    if (format == ExportFormat::dense) {
      const bool table = shape.kind == format::Kind::ttm;
      const auto type = weight.cores().front().scalar_type();
      const std::vector<std::int64_t> sizes =
          table ? std::vector{shape.rows, shape.cols} : std::vector{shape.cols, shape.rows};
      entries.push_back({{name + ".weight", type, sizes}, [weight = weight, table] {
                           const torch::Tensor w = weights::materialize(weight);
                           return (table ? w : w.t()).contiguous();
                         }});
      continue;
    }
    const auto cores = weights::fold_scales(weight.cores(), weight.scales());
    for (std::size_t k = 0; k < cores.size(); ++k)
      entries.push_back(plain(fmt::format("{}.cores.{}", name, k), cores[k].detach()));
  }
  io::Metadata metadata{{"format", format == ExportFormat::dense ? "comera-dense" : "comera-factored"},
                        {"recipe", to_toml(saved.recipe)},
                        {"labels", Json(saved.labels).dump()}};
  if (format == ExportFormat::factored) metadata["layers"] = layers_json(*saved.model).dump();
  std::vector<io::TensorInfo> infos;
  std::int64_t values = 0;
  for (const Entry& entry : entries) {
    infos.push_back(entry.info);
    values += c10::multiply_integers(entry.info.shape);
  }
  io::save_safetensors(
      path, infos, [&](std::size_t i) { return entries[i].value(); }, metadata);
  return values;
}

}  // namespace comera::train
