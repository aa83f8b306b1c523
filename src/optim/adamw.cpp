#include "adamw_update.h"

#include <comera/base/error.h>
#include <comera/ops/implementation.h>
#include <comera/ops/parallel.h>
#include <comera/optim/adamw.h>
#include <comera/weights/torch.h>

#include <cmath>

namespace comera::optim {
namespace {

// The flat storage is worked on in blocks of this many entries, whatever the number of threads.
constexpr std::int64_t kBlock = 1 << 14;

double sum_in_blocks(const torch::Tensor& flat) {
  const std::int64_t count = flat.numel(), blocks = (count + kBlock - 1) / kBlock;
  std::vector<double> sums(blocks);
  AT_DISPATCH_FLOATING_TYPES(flat.scalar_type(), "adamw", [&] {
    const scalar_t* values = flat.const_data_ptr<scalar_t>();
    ops::parallel_ranges(blocks, 1, [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t block = from; block < to; ++block)
        sums[block] = sum_of_squares(values + block * kBlock, std::min(kBlock, count - block * kBlock));
    });
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

std::vector<weights::FlatParameters::Parameter> named_tensors(const std::vector<Parameter>& parameters) {
  check(!parameters.empty(), "[adamw] needs at least one parameter");
  std::vector<weights::FlatParameters::Parameter> result;
  for (const Parameter& parameter : parameters) {
    const auto type = parameter.tensor.scalar_type();
    check(type == torch::kFloat || type == torch::kDouble,
          "[adamw] {} is {}; parameters must be float or double", parameter.name, c10::toString(type));
    result.push_back({parameter.name, parameter.tensor});
  }
  return result;
}

weights::FlatBuffer zeros_like(const weights::FlatBuffer& values) {
  weights::FlatBuffer buffer(values.parts());
  buffer.flat().zero_();
  return buffer;
}

}  // namespace

AdamW::AdamW(std::vector<Parameter> parameters, std::vector<Group> groups, AdamWOptions options)
    : flat_(named_tensors(parameters)), groups_(std::move(groups)), options_(options) {
  check(options.beta1 >= 0 && options.beta1 < 1 && options.beta2 >= 0 && options.beta2 < 1,
        "[adamw] beta1 and beta2 must be in [0, 1), got {} and {}", options.beta1, options.beta2);
  check(options.epsilon >= 0 && options.clip_norm >= 0,
        "[adamw] epsilon and clip_norm cannot be negative, got {} and {}", options.epsilon,
        options.clip_norm);
  for (std::size_t i = 0; i < groups_.size(); ++i)
    check(&group(groups_[i].name) == &groups_[i], "[adamw] group {} is listed twice", groups_[i].name);
  for (const Parameter& parameter : parameters) {
    index_[parameter.tensor.unsafeGetTensorImpl()] = members_.size();
    members_.push_back(
        {static_cast<std::size_t>(&group(parameter.group) - groups_.data()), parameter.rate_factor});
  }
  first_ = zeros_like(flat_.values());
  second_ = zeros_like(flat_.values());
}

Group& AdamW::group(const std::string& name) {
  for (Group& group : groups_)
    if (group.name == name) return group;
  fail("[adamw] no group named '{}'", name);
}

std::size_t AdamW::index_of(const torch::Tensor& parameter) const {
  const auto found = index_.find(parameter.unsafeGetTensorImpl());
  check(found != index_.end(), "[adamw] a tensor of sizes [{}] is not one of the parameters",
        fmt::join(parameter.sizes(), ","));
  return found->second;
}

double AdamW::rate_of(std::size_t index) const {
  return groups_[members_[index].group].learning_rate * members_[index].rate_factor;
}

void AdamW::set_rate_factor(const torch::Tensor& parameter, double factor) {
  members_[index_of(parameter)].rate_factor = factor;
}

double AdamW::learning_rate(const torch::Tensor& parameter) const { return rate_of(index_of(parameter)); }

std::int64_t AdamW::bytes() const { return first_.flat().nbytes() + second_.flat().nbytes(); }

std::size_t AdamW::parameter_at(std::int64_t entry) const {
  std::size_t first = 0, last = members_.size();  // empty parameters share their offset with the next one
  while (last - first > 1) {
    const std::size_t middle = (first + last) / 2;
    (first_.offset(middle) <= entry ? first : last) = middle;
  }
  return first;
}

AdamWStep AdamW::next_step() const {
  const double t = steps_ + 1;
  return {options_.beta1,
          options_.beta2,
          options_.epsilon,
          1 - std::pow(options_.beta1, t),
          std::sqrt(1 - std::pow(options_.beta2, t)),
          1};
}

torch::Tensor AdamW::step() {
  const torch::NoGradGuard no_grad;
  const torch::Tensor &values = flat_.values().flat(), &gradients = flat_.gradients().flat();
  return values.is_cpu() && !ops::use_reference() ? step_on_cpu(values, gradients)
                                                  : step_on_any_device(values, gradients);
}

torch::Tensor AdamW::step_on_cpu(const torch::Tensor& values, const torch::Tensor& gradients) {
  const double norm = std::sqrt(sum_in_blocks(gradients));
  if (!std::isfinite(norm)) return torch::scalar_tensor(norm, torch::kDouble);
  AdamWStep step = next_step();
  if (options_.clip_norm > 0) step.gradient_scale = std::min(1.0, options_.clip_norm / (norm + 1e-6));
  const std::int64_t count = values.numel(), blocks = (count + kBlock - 1) / kBlock;
  AT_DISPATCH_FLOATING_TYPES(values.scalar_type(), "adamw", [&] {
    scalar_t* value = values.data_ptr<scalar_t>();
    const scalar_t* gradient = gradients.const_data_ptr<scalar_t>();
    scalar_t *first = first_.flat().data_ptr<scalar_t>(), *second = second_.flat().data_ptr<scalar_t>();
    ops::parallel_ranges(blocks, 1, [&](std::int64_t from, std::int64_t to) {
      std::int64_t at = from * kBlock;
      const std::int64_t end = std::min(count, to * kBlock);
      for (std::size_t i = parameter_at(at); at < end; ++i) {
        const std::int64_t stop = std::min(end, first_.offset(i) + first_.parts()[i].numel());
        adamw_update(step, rate_of(i), groups_[members_[i].group].weight_decay, stop - at, value + at,
                     gradient + at, first + at, second + at);
        at = stop;
      }
    });
  });
  ++steps_;
  return torch::scalar_tensor(norm, torch::kDouble);
}

torch::Tensor AdamW::step_on_any_device(const torch::Tensor& values, const torch::Tensor& gradients) {
  const AdamWStep step = next_step();
  std::vector<double> rates, keeps;
  std::vector<std::int64_t> lengths;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    rates.push_back(rate_of(i) / step.correction1);
    keeps.push_back(1 - rate_of(i) * groups_[members_[i].group].weight_decay);
    lengths.push_back(first_.parts()[i].numel());
  }
  const torch::Tensor counts =
      torch::tensor(lengths, torch::kLong).to(values.device(), /*non_blocking=*/true);
  const auto for_each_entry = [&](const std::vector<double>& of_parameter) {
    return torch::tensor(of_parameter, torch::kDouble)
        .to(values.device(), values.scalar_type(), /*non_blocking=*/true)
        .repeat_interleave(counts, 0, values.numel());
  };
  const torch::Tensor norm = gradients.to(torch::kDouble).norm();
  torch::Tensor scaled = gradients;
  if (options_.clip_norm > 0)
    scaled = gradients * (options_.clip_norm / (norm + 1e-6)).clamp_max(1).to(values.scalar_type());
  const torch::Tensor first = step.beta1 * first_.flat() + (1 - step.beta1) * scaled;
  const torch::Tensor second = step.beta2 * second_.flat() + (1 - step.beta2) * scaled * scaled;
  const torch::Tensor value =
      for_each_entry(keeps) * values -
      for_each_entry(rates) * first / (second.sqrt() / step.sqrt_correction2 + step.epsilon);
  const torch::Tensor finite = norm.isfinite();
  values.copy_(torch::where(finite, value, values));
  first_.flat().copy_(torch::where(finite, first, first_.flat()));
  second_.flat().copy_(torch::where(finite, second, second_.flat()));
  ++steps_;
  return norm;
}

}  // namespace comera::optim
