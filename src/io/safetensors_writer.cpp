#include "safetensors_header.h"

#include <comera/base/error.h>
#include <comera/base/file.h>

#include <bit>

namespace comera::io {

static_assert(std::endian::native == std::endian::little, "tensors are written as they lie in memory");

torch::Tensor host_tensor(const torch::Tensor& tensor, const std::string& name, std::string_view source) {
  check(tensor.defined() && tensor.layout() == torch::kStrided && !tensor.is_meta() && !tensor.is_quantized(),
        "{}: tensor {} has no dense values to store", source, shown(name));
  return tensor.detach().to(torch::kCPU).resolve_conj().resolve_neg().contiguous();
}

void save_safetensors(const std::filesystem::path& path, const std::vector<TensorInfo>& tensors,
                      const std::function<torch::Tensor(std::size_t)>& value, const Metadata& metadata) {
  const Header header = make_header(tensors, metadata, path.string());
  const std::string text = header_text(header, path.string());
  const std::uint64_t length = text.size();

  AtomicFile file(path);
  file.write(&length, sizeof length);
  file.write(text);
  for (const std::size_t i : file_order(header)) {
    const torch::Tensor host = host_tensor(value(i), tensors[i].name, path.string());
    check(host.scalar_type() == tensors[i].dtype && host.sizes() == torch::IntArrayRef(tensors[i].shape),
          "{}: tensor {} is {} [{}], not as announced", path.string(), shown(tensors[i].name),
          c10::toString(host.scalar_type()), fmt::join(host.sizes(), ", "));
    file.write(host.const_data_ptr(), host.nbytes());
  }
  file.commit();
}

void save_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                      const Metadata& metadata) {
  std::vector<TensorInfo> infos;
  for (const auto& [name, tensor] : tensors) {
    check(tensor.defined(), "{}: tensor {} is undefined", path.string(), shown(name));
    infos.push_back({name, tensor.scalar_type(), tensor.sizes().vec()});
  }
  save_safetensors(
      path, infos, [&](std::size_t i) { return tensors[i].second; }, metadata);
}

}  // namespace comera::io
