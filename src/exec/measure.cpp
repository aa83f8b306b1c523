#include <comera/base/error.h>
#include <comera/base/machine.h>
#include <comera/exec/profile.h>
#include <comera/exec/run_plan.h>
#include <comera/ops/attention.h>
#include <comera/ops/dropout.h>
#include <comera/ops/layer_norm.h>
#include <comera/ops/product.h>
#include <comera/plan/plan.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

namespace comera::exec {
namespace {

using Sizes = std::vector<std::int64_t>;
using Work = std::function<void()>;

constexpr double kMostMultiplyAdds = 1 << 28;  // of a product that is timed; larger ones have its rate
constexpr std::int64_t kPool = 1 << 24;        // elements of the largest operand or result
constexpr double kBatchWork = 1 << 21;         // multiply-adds of a timed batch
// Products that read much and write little, and the other way, past all caches.
constexpr ops::ProductSize kRead{1, 4096, 4096, 1}, kWrite{1, 65536, 4, 256};
// Of the matrix that bandwidth is measured with: it stays in cache. What memory takes is in the rates of the
// large products; the bandwidth only bounds what they can be.
constexpr std::int64_t kSide = 256;
constexpr int kLayouts = 3;  // see Memory::product
constexpr int kRounds = 3;   // visits of each figure, spread over the whole time

const Sizes kSingle{1, 2, 4, 8, 12, 16, 24, 32, 64, 256, 1024, 4096, 16384, 65536};
const Sizes kBatched{1, 2, 4, 8, 12, 16, 32, 64, 256};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// One thing to time: the least seconds of a call so far.
struct Figure {
  Work work;
  double seconds = std::numeric_limits<double>::infinity();

  // Repeats for about `budget` seconds, once at least; short calls in runs, so that the clock costs nothing.
  void measure(double budget) {
    constexpr double kRun = 2e-5;
    int calls = 1;
    for (const double end = now() + budget; true;) {
      const double start = now();
      for (int i = 0; i < calls; ++i) work();
      const double stop = now(), took = (stop - start) / calls;
      seconds = std::min(seconds, took);
      if (stop >= end) return;
      if (stop - start < kRun) calls = std::clamp(static_cast<int>(kRun / took), calls + 1, 1000);
    }
  }
};

torch::ScalarType scalar_type(plan::DType dtype) {
  switch (dtype) {
    case plan::DType::float64:
      return torch::kFloat64;
    case plan::DType::float32:
      return torch::kFloat32;
    case plan::DType::bfloat16:
      return torch::kBFloat16;
    case plan::DType::float16:
      return torch::kFloat16;
  }
  return torch::kFloat32;
}

// Memory that all products are computed in. A call takes other places than the one before, as the tensors of
// a plan are other ones: what is larger than a cache is not found in it.
class Memory {
 public:
  explicit Memory(torch::ScalarType type)
      : left_(torch::rand({kPool}, type)),
        right_(torch::rand({kPool}, type)),
        result_(torch::zeros({kPool}, type)) {}

  // The three layouts that the directions of a node have: as they are, the right and the left transposed.
  void product(const ops::ProductSize& s, int layout) {
    ++calls_;
    ops::Matrices a{place(left_, s.batch * s.m * s.k), s.m * s.k, s.k, 1},
        b{place(right_, s.batch * s.k * s.n), s.k * s.n, s.n, 1};
    if (layout == 1) b.rows = 1, b.cols = s.k;
    if (layout == 2) a.rows = 1, a.cols = s.m;
    ops::product(s, {place(result_, s.batch * s.m * s.n), s.m * s.n, s.n, 1}, a, b);
  }
  void copy(const Sizes& sizes, const std::vector<int>& order) {
    ++calls_;
    std::int64_t elements = 1;
    for (const std::int64_t size : sizes) elements *= size;
    ops::permuting_copy(place(result_, elements), place(left_, elements), sizes, order);
  }
  void sum(std::int64_t elements) {
    ++calls_;
    auto out = place(result_, elements);
    at::add_out(out, place(left_, elements), place(right_, elements));
  }

 private:
  torch::Tensor place(const torch::Tensor& pool, std::int64_t elements) const {
    constexpr std::int64_t kPlaces = 4;
    const std::int64_t places = std::clamp<std::int64_t>(kPool / elements, 1, kPlaces);
    return pool.narrow(0, calls_ % places * elements, elements);
  }

  torch::Tensor left_, right_, result_;
  std::int64_t calls_ = 0;
};

double elements_of(const ops::ProductSize& s) {
  return static_cast<double>(s.batch) * static_cast<double>(std::max({s.m * s.k, s.k * s.n, s.m * s.n}));
}

ops::ProductSize batch_of(std::int64_t m, std::int64_t k, std::int64_t n) {
  const double work = static_cast<double>(m) * static_cast<double>(k) * static_cast<double>(n);
  return {std::clamp<std::int64_t>(static_cast<std::int64_t>(kBatchWork / work), 4, 4096), m, k, n};
}

// Rates of a table whose points were timed where they are small enough. What was not has the rate of the
// point with its longest side one size smaller.
plan::RateTable table_of(const Sizes& axis,
                         const std::function<double(std::size_t, std::size_t, std::size_t)>& timed_rate) {
  plan::RateTable table{axis, axis, axis, {}};
  const std::size_t count = axis.size();
  table.rates.resize(count * count * count);
  const auto place = [&](const std::size_t* at) { return (at[0] * count + at[1]) * count + at[2]; };
  // Ascending, so that the smaller neighbour is there.
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t j = 0; j < count; ++j)
      for (std::size_t k = 0; k < count; ++k) {
        std::size_t at[] = {i, j, k};
        const std::size_t here = place(at);
        const double rate = timed_rate(i, j, k);
        if (rate > 0) {
          table.rates[here] = rate;
        } else {
          --*std::max_element(at, at + 3);
          table.rates[here] = table.rates[place(at)];
        }
      }
  return table;
}

// Everything that is timed, by place.
class Measurement {
 public:
  explicit Measurement(const MeasureOptions& options)
      : options_(options), type_(scalar_type(options.dtype)), memory_(type_) {
    add_table(kSingle, &single_, [](auto m, auto k, auto n) { return ops::ProductSize{1, m, k, n}; });
    add_table(kBatched, &batched_, batch_of);
    start_ = add_start();
    least_product_ = add([this] { memory_.product({1, 1, 1, 1}, 0); });
    bandwidth_ = add([this] { memory_.product({1, kSide, kSide, 1}, 0); });
    read_ = add([this] { memory_.product(kRead, 0); });
    write_ = add([this] { memory_.product(kWrite, 0); });
    copies_ = {add_copy({64, 96, 512}, {1, 0, 2}), add_copy({64, 96, 512}, {0, 2, 1}),
               add_copy({512, 12, 512}, {2, 1, 0}), add_copy({4096, 8, 96}, {1, 0, 2})};
    const std::int64_t large = 1 << 22, small = 1 << 14;
    elementwise_ = add_sum(large);
    elementwise_in_cache_ = add_sum(small);
    keys_ = torch::randint(0, 1 << 20, {1 << 14}, torch::kInt64);
    unique_ = add([this] { at::_unique2(keys_, true, true); });
    add_model_parts();
  }

  void run() {
    const double start = now(), each = options_.seconds / static_cast<double>(kRounds * figures_.size());
    for (int round = 0; round < kRounds; ++round)
      for (std::size_t i = 0; i < figures_.size(); ++i) {
        figures_[i].measure(each);
        if (!options_.progress || i % 64 != 0) continue;
        const double done = (round + static_cast<double>(i) / static_cast<double>(figures_.size())) / kRounds;
        if (done > 0) options_.progress(done, (now() - start) / done * (1 - done));
      }
  }

  plan::Profile profile() const {
    plan::Profile profile;
    profile.machine = cpu_name();
    profile.threads = torch::get_num_threads();
    profile.dtype = options_.dtype;
    profile.single = rates(kSingle, single_, [](auto m, auto k, auto n) {
      return ops::ProductSize{1, m, k, n};
    });
    profile.batched = rates(kBatched, batched_, batch_of);
    const double element = static_cast<double>(plan::element_bytes(options_.dtype));
    profile.start_seconds =
        std::max(1e-7, seconds(start_) / static_cast<double>(tiny_->steps.size()) - seconds(least_product_));
    profile.bandwidth = element * static_cast<double>(kSide * kSide + 2 * kSide) / seconds(bandwidth_);
    double copy = 0;
    for (const auto& [figure, elements] : copies_)
      copy += std::log(2 * element * elements / seconds(figure)) / static_cast<double>(copies_.size());
    profile.copy_bandwidth = std::exp(copy);
    profile.rates = {{"elementwise", 3 * element * (1 << 22) / seconds(elementwise_)},
                     {"elementwise_in_cache", 3 * element * (1 << 14) / seconds(elementwise_in_cache_)},
                     {"unique", (1 << 14) / seconds(unique_)},
                     {"memory_read", element * kRead.m * kRead.k / seconds(read_)},
                     {"memory_write", element * kWrite.m * kWrite.n / seconds(write_)}};
    for (const auto& [name, part] : parts_) profile.rates[name] = part.second / seconds(part.first);
    plan::validate(profile, "[profile]");
    return profile;
  }

 private:
  using SizeOf = std::function<ops::ProductSize(std::int64_t, std::int64_t, std::int64_t)>;
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  static double multiply_adds(const ops::ProductSize& s) {
    return static_cast<double>(s.batch) * static_cast<double>(s.m) * static_cast<double>(s.k) *
           static_cast<double>(s.n);
  }
  static bool timed(const ops::ProductSize& s) {
    return multiply_adds(s) <= kMostMultiplyAdds && elements_of(s) <= kPool;
  }
  std::size_t add(Work work) {
    figures_.push_back({std::move(work)});
    return figures_.size() - 1;
  }
  double seconds(std::size_t figure) const { return figures_[figure].seconds; }

  void add_table(const Sizes& axis, std::vector<std::size_t>* places, const SizeOf& size_of) {
    for (const std::int64_t m : axis)
      for (const std::int64_t k : axis)
        for (const std::int64_t n : axis) {
          const ops::ProductSize size = size_of(m, k, n);
          places->push_back(timed(size) ? figures_.size() : kNone);
          for (int layout = 0; layout < kLayouts && timed(size); ++layout)
            add([this, size, layout] { memory_.product(size, layout); });
        }
  }
  plan::RateTable rates(const Sizes& axis, const std::vector<std::size_t>& places,
                        const SizeOf& size_of) const {
    return table_of(axis, [&](std::size_t i, std::size_t j, std::size_t k) {
      const std::size_t place = places[(i * axis.size() + j) * axis.size() + k];
      if (place == kNone) return 0.0;
      double layouts = 0;
      for (int layout = 0; layout < kLayouts; ++layout) layouts += seconds(place + layout) / kLayouts;
      return multiply_adds(size_of(axis[i], axis[j], axis[k])) / layouts;
    });
  }

  // Forward and backward of a whole plan around products that cost nothing, so that what autograd takes is
  // spread over the steps.
  std::size_t add_start() {
    const plan::Request request{{format::tt({1, 1}, {1, 1}, {1})}, 1, plan::Results::all, options_.dtype};
    tiny_ =
        std::make_shared<const plan::Plan>(plan::make_plan(request, plan::default_profile(options_.dtype)));
    std::vector<torch::Tensor> leaves;
    for (int i = 0; i < 5; ++i) leaves.push_back(torch::ones({1, 1}, type_).requires_grad_());
    return add([this, leaves, dy = torch::ones({1, 1}, type_)] {
      const torch::AutoGradMode with_gradients(true);
      torch::autograd::grad({run_plan(tiny_, leaves[0], {leaves.begin() + 1, leaves.end()})}, leaves, {dy});
    });
  }
  std::pair<std::size_t, double> add_copy(const Sizes& sizes, const std::vector<int>& order) {
    std::int64_t elements = 1;
    for (const std::int64_t size : sizes) elements *= size;
    return {add([this, sizes, order] { memory_.copy(sizes, order); }), static_cast<double>(elements)};
  }
  // The parts of a transformer that are no contraction of a plan, forward and backward: entries a second, of
  // attention multiply-adds (two products forward, five backward).
  void add_model_parts() {
    constexpr std::int64_t batch = 16, positions = 64, width = 1024, heads = 16;
    constexpr double entries = batch * positions * width;
    const auto leaf = [&](torch::IntArrayRef sizes) { return torch::rand(sizes, type_).requires_grad_(); };
    const auto x = leaf({batch, positions, width}), other = leaf({batch, positions, width}),
               third = leaf({batch, positions, width}), weight = leaf({width}), bias = leaf({width});
    const auto dy = torch::ones({batch, positions, width}, type_), ids = torch::arange(batch);
    const auto part = [this, dy](const std::string& name, double count, std::vector<torch::Tensor> inputs,
                                 std::function<torch::Tensor()> forward) {
      parts_[name] = {add([dy, inputs, forward] {
                        const torch::AutoGradMode with_gradients(true);
                        torch::autograd::grad({forward()}, inputs, {dy});
                      }),
                      count};
    };
    part("layer_norm", entries, {x, weight, bias}, [=] { return ops::layer_norm(x, weight, bias, 1e-5); });
    part("gelu", entries, {x}, [=] { return torch::gelu(x); });
    for (const bool drops : {false, true}) {
      const std::string suffix = drops ? "_dropout" : "";
      const ops::DropoutMask mask{drops ? 0.1 : 0.0, 1, ids};
      part("residual" + suffix, entries, {x, other}, [=] { return ops::dropout_add(x, other, mask); });
      part("attention" + suffix, 7 * entries * positions, {x, other, third},
           [=] { return ops::attention(x, other, third, heads, std::nullopt, false, mask); });
    }
  }
  std::size_t add_sum(std::int64_t elements) {
    return add([this, elements] { memory_.sum(elements); });
  }

  const MeasureOptions& options_;
  torch::ScalarType type_;
  Memory memory_;
  SharedPlan tiny_;
  torch::Tensor keys_;
  std::vector<Figure> figures_;
  std::vector<std::size_t> single_, batched_;
  std::size_t start_ = 0, least_product_ = 0, bandwidth_ = 0, read_ = 0, write_ = 0, elementwise_ = 0,
              elementwise_in_cache_ = 0, unique_ = 0;
  std::vector<std::pair<std::size_t, double>> copies_;
  std::map<std::string, std::pair<std::size_t, double>> parts_;
};

}  // namespace

plan::Profile measure_profile(const MeasureOptions& options) {
  check(options.seconds > 0, "[profile] seconds to measure must be above 0, got {}", options.seconds);
  const torch::NoGradGuard no_grad;
  Measurement measurement(options);
  measurement.run();
  return measurement.profile();
}

}  // namespace comera::exec
