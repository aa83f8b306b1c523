// Ranks planted in a teacher are found, over a decade of prices, and not without a price.
#include <comera/optim/adamw.h>
#include <comera/optim/schedule.h>
#include <comera/rank/controller.h>
#include <comera/weights/initialise.h>
#include <comera/weights/materialize.h>
#include <comera/weights/rounding.h>
#include <comera/weights/torch.h>

#include <fmt/ranges.h>
#include <gtest/gtest.h>

namespace comera::rank {
namespace {

constexpr std::int64_t kSteps = 1200, kBatch = 64;
constexpr double kRate = 3e-2;
const std::vector<std::int64_t> kIn = {4, 4}, kOut = {4, 4}, kTeacherRanks = {2, 3, 2};

// Least over the bonds of sigma_min / sigma_max.
double evenness(const weights::TensorTrain& weight) {
  double least = 1;
  for (const torch::Tensor& sigma : weights::bond_singular_values(weight))
    least = std::min(least, sigma[-1].item<double>() / sigma[0].item<double>());
  return least;
}

torch::Tensor teacher_matrix(std::uint64_t seed) {
  weights::TensorTrain teacher(format::tt(kIn, kOut, kTeacherRanks));
  for (std::uint64_t attempt = 0;; ++attempt) {
    weights::initialise_spectral(teacher, seed * 10'000 + attempt);
    if (evenness(teacher) >= 0.45) return 2 * weights::materialize(teacher).detach();
  }
}

// Inner ranks of the student after the last cut.
std::vector<std::int64_t> found_ranks(double gamma, std::uint64_t seed) {
  const torch::Tensor w = teacher_matrix(seed);
  format::Shape shape = format::tt(kIn, kOut, {1});
  for (std::int64_t k = 0; k < shape.bonds(); ++k)
    shape.ranks[k + 1] = std::min(2 * kTeacherRanks[k], shape.admissible_rank(k));
  weights::TensorTrain student(shape);
  weights::initialise_spectral(student, seed);
  std::vector<optim::Parameter> parameters;
  for (const auto& core : student.cores())
    parameters.push_back({fmt::format("core{}", parameters.size()), core, "cores"});
  for (const auto& scale : student.scales())
    parameters.push_back({fmt::format("scale{}", parameters.size()), scale, "scales"});
  // A scale moves by its rate times price / noise a step; four times the usual rate lets small prices arrive
  // too.
  const double scale_rate = 4 * scale_learning_rate(kSteps * 8 / 10);
  optim::AdamW optimiser(parameters, {{"cores", kRate}, {"scales", scale_rate}});
  Controller ranks({{"student", student}}, {.gamma = gamma});
  auto generator = torch::make_generator<torch::CPUGeneratorImpl>(seed + 77);
  for (std::int64_t step = 1; step <= kSteps; ++step) {
    const double factor = optim::factor({.warm_up = 50, .decay = optim::Decay::cosine}, step - 1, kSteps);
    optimiser.group("cores").learning_rate = kRate * factor;
    optimiser.group("scales").learning_rate = scale_rate * std::min(1.0, step / 50.0);
    const torch::Tensor x = torch::randn({kBatch, w.size(0)}, generator);
    const torch::Tensor y = x.matmul(w) + 0.1 * torch::randn({kBatch, w.size(1)}, generator);
    optimiser.zero_gradients();
    const torch::Tensor loss = (x.matmul(weights::materialize(student)) - y).square().mean();
    loss.backward();
    ranks.before_step();
    optimiser.step();
    student.values_changed();
    ranks.after_step({step, static_cast<double>(step) / kSteps, loss.item<double>()}, optimiser);
  }
  return {student.shape().ranks.begin() + 1, student.shape().ranks.end() - 1};
}

std::int64_t seeds_found(double gamma) {
  std::int64_t found = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const auto ranks = found_ranks(gamma, seed);
    found += ranks == kTeacherRanks;
    if (ranks != kTeacherRanks)
      fmt::print("gamma {} seed {}: found {}, planted {}\n", gamma, seed, fmt::join(ranks, ","),
                 fmt::join(kTeacherRanks, ","));
  }
  return found;
}

// In units of a loss that falls from about 2 to 0.01.
class Planted : public testing::TestWithParam<double> {};
TEST_P(Planted, RanksAreFound) { EXPECT_GE(seeds_found(GetParam()), 9); }
INSTANTIATE_TEST_SUITE_P(Gamma, Planted, testing::Values(0.15, 0.3, 0.7, 1.5));

TEST(PlantedWithoutPrice, RanksAreNotFound) { EXPECT_EQ(seeds_found(0), 0); }

}  // namespace
}  // namespace comera::rank
