// Plans against their alternatives, measured: is what is predicted true, and is what is chosen the best?
//   bench_plan [--profile FILE] [--threads N] [--rounds 5] [--every 1] [--steps] [--json FILE]
//     times the plan and its alternatives, interleaved, over geometries of layers; prints the figures
//   bench_plan --serve ...
//     reads lines: "layer IN OUT RANKS TOKENS" (digits with commas) -> {"steps", "predicted_seconds"}, "run"
//     ->
//     {"seconds"} of one forward + backward by the plan; bench/plan.py drives it beside its peers
#include <comera/base/error.h>
#include <comera/base/file.h>
#include <comera/base/json.h>
#include <comera/exec/profile.h>
#include <comera/exec/run_plan.h>
#include <comera/plan/plan.h>

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>

using namespace comera;

namespace {

using List = std::vector<std::int64_t>;

struct Options {
  std::string profile, json;
  int threads = 2, rounds = 5, every = 1;
  bool steps = false, serve = false;
};

struct Geometry {
  std::string size_class;
  format::Shape shape;
  std::int64_t tokens = 1;
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// Digits of a power of two over `count` places, the largest first (or last).
List power_digits(std::int64_t size, int count, bool ascending) {
  List digits(count, 1);
  for (std::int64_t rest = size, i = 0; rest > 1; rest /= 2, ++i) digits[i % count] *= 2;
  std::sort(digits.rbegin(), digits.rend());
  if (ascending) std::reverse(digits.begin(), digits.end());
  return digits;
}

std::vector<Geometry> geometries() {
  std::vector<Geometry> list;
  const std::vector<std::pair<List, List>> reference{
      {{12, 8, 8}, {8, 8, 12}}, {{12, 8, 8}, {12, 16, 16}}, {{16, 16, 12}, {8, 8, 12}}};
  for (const auto& [in, out] : reference)
    for (const std::int64_t rank : {30, 15, 8, 1})
      for (const std::int64_t tokens : {1, 8, 32, 44, 64, 128, 512, 2048, 4096, 16384})
        list.push_back({"reference", format::tt(in, out, {rank}), tokens});
  for (const std::int64_t width : {1024, 4096})
    for (int order = 2; order <= 8; ++order)
      for (const std::int64_t rank : {4, 16, 64}) {
        const int left = (order + 1) / 2;
        const auto shape =
            format::tt(power_digits(width, left, false), power_digits(width, order - left, true), {rank});
        for (const std::int64_t tokens : {1, 16, 256, 4096, 16384})
          if (width == 1024 || tokens <= 4096)
            list.push_back({width == 1024 ? "1024 wide" : "4096 wide", shape, tokens});
      }
  return list;
}

// Forward and backward by one plan on fixed random values.
class Runner {
 public:
  Runner(plan::Plan plan) : plan_(std::make_shared<const plan::Plan>(std::move(plan))) {
    const plan::Network& network = plan_->network;
    const auto elements = [&](int leaf) {
      return plan::checked_elements(network, network.leaves[leaf].indices, "leaf");
    };
    const std::int64_t tokens = plan_->request.tokens;
    inputs_.push_back(torch::randn({tokens, elements(0) / tokens}).requires_grad_());
    for (int leaf = 1; leaf < network.root(); ++leaf)
      inputs_.push_back(torch::randn({elements(leaf)}).requires_grad_());
    dy_ = torch::randn({tokens, elements(network.root()) / tokens});
    step_seconds_.resize(plan_->steps.size());
  }

  double run() {
    const double start = now();
    const auto y = exec::run_plan(plan_, inputs_[0], {inputs_.begin() + 1, inputs_.end()});
    torch::autograd::grad({y}, inputs_, {dy_});
    return now() - start;
  }
  void run_by_steps() {
    std::size_t at = 0;
    double last = now();
    const auto y = exec::run_plan(plan_, inputs_[0], {inputs_.begin() + 1, inputs_.end()},
                                  [&](const plan::Step&, std::int64_t) {
                                    const double here = now();
                                    step_seconds_[at++].push_back(here - last);
                                    last = now();
                                  });
    last = now();
    torch::autograd::grad({y}, inputs_, {dy_});
  }
  const plan::Plan& plan() const { return *plan_; }
  Json steps() const {
    Json json = Json::array();
    for (std::size_t i = 0; i < plan_->steps.size(); ++i) {
      const plan::Step& s = plan_->steps[i];
      json.push_back(
          {{"product", {s.product.batch, s.product.m, s.product.k, s.product.n}},
           {"copies", {s.copy_left, s.copy_right, s.copy_result}},
           {"bytes",
            {plan_->tensors[s.left].bytes, plan_->tensors[s.right].bytes, plan_->tensors[s.result].bytes}},
           {"predicted", s.seconds},
           {"measured", *std::min_element(step_seconds_[i].begin(), step_seconds_[i].end())}});
    }
    return json;
  }

 private:
  exec::SharedPlan plan_;
  std::vector<torch::Tensor> inputs_;
  torch::Tensor dy_;
  std::vector<std::vector<double>> step_seconds_;
};

struct Result {
  std::string name;
  double predicted = 0, measured = 0;
};

std::vector<Result> measure(const Geometry& geometry, const plan::Profile& profile, const Options& options,
                            Json* out) {
  constexpr double kHopeless = 3;
  const plan::Request request{{geometry.shape}, geometry.tokens};
  std::vector<std::pair<std::string, Runner>> runners;
  plan::Plan plan = plan::make_plan(request, profile);
  const double promised = plan.predicted_seconds;
  auto others = plan::alternatives(request, profile);
  runners.emplace_back("plan", std::move(plan));
  for (auto& [name, other] : others)
    if (other.predicted_seconds <= kHopeless * promised) runners.emplace_back(name, std::move(other));
  std::vector<std::vector<double>> seconds(runners.size());
  for (auto& [name, runner] : runners) runner.run();
  for (int round = 0; round < options.rounds; ++round)
    for (std::size_t i = 0; i < runners.size(); ++i) {
      Runner& runner = runners[i].second;
      // Short ones several times, the least counts: other work on the machine only adds.
      double least = runner.run();
      for (const double end = now() + 2e-3; now() < end;) least = std::min(least, runner.run());
      seconds[i].push_back(least);
      if (options.steps) runner.run_by_steps();
    }
  std::vector<Result> results;
  *out = {{"class", geometry.size_class},
          {"shape", format::to_string(geometry.shape)},
          {"tokens", geometry.tokens},
          {"results", Json::array()}};
  for (std::size_t i = 0; i < runners.size(); ++i) {
    results.push_back({runners[i].first, runners[i].second.plan().predicted_seconds, median(seconds[i])});
    Json one{{"name", results.back().name},
             {"predicted", results.back().predicted},
             {"measured", results.back().measured}};
    if (options.steps) one["steps"] = runners[i].second.steps();
    (*out)["results"].push_back(std::move(one));
  }
  return results;
}

// Plans are often one of the alternatives; then the better of the two times is that of both.
void summarise(const std::vector<std::vector<Result>>& all) {
  std::vector<double> errors, ratios;
  int near_best = 0, pairs = 0, right = 0;
  for (const auto& results : all) {
    double best = results[0].measured, planned = results[0].measured;
    for (const Result& one : results) {
      errors.push_back(std::abs(one.predicted - one.measured) / one.measured);
      best = std::min(best, one.measured);
      if (one.predicted == results[0].predicted) planned = std::min(planned, one.measured);
    }
    ratios.push_back(planned / best);
    near_best += planned <= 1.05 * best;
    for (std::size_t i = 0; i < results.size(); ++i)
      for (std::size_t j = 0; j < i; ++j) {
        const double a = results[i].measured, b = results[j].measured;
        if (std::max(a, b) < 1.2 * std::min(a, b)) continue;
        ++pairs;
        right += (a < b) == (results[i].predicted < results[j].predicted);
      }
  }
  const auto count = static_cast<double>(all.size());
  std::cout << fmt::format(
      "{} geometries\nplanned within 5% of the best: {:.1f}%\nworst ratio to the best: {:.2f}\n"
      "prediction: median error {:.1f}%\norder right, pairs more than 20% apart: {:.1f}% of {}\n",
      all.size(), 100 * near_best / count, *std::max_element(ratios.begin(), ratios.end()),
      100 * median(errors), 100.0 * right / std::max(1, pairs), pairs);
}

List parse_list(const std::string& text) {
  List list;
  std::istringstream in(text);
  for (std::string item; std::getline(in, item, ',');) list.push_back(std::stoll(item));
  return list;
}

// From the file; measured, and kept there, when it is not there yet.
plan::Profile profile_of(const Options& options) {
  if (!options.profile.empty() && std::filesystem::exists(options.profile))
    return plan::profile_from_json(read_json(options.profile), options.profile);
  const plan::Profile profile = exec::measure_profile({});
  if (!options.profile.empty()) plan::save_profile(profile, options.profile);
  return profile;
}

void serve(const plan::Profile& profile) {
  std::unique_ptr<Runner> runner;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string command, in, out, ranks;
    std::int64_t tokens = 0;
    words >> command;
    Json answer;
    if (command == "layer") {
      words >> in >> out >> ranks >> tokens;
      const plan::Request request{{format::tt(parse_list(in), parse_list(out), parse_list(ranks))}, tokens};
      runner = std::make_unique<Runner>(plan::make_plan(request, profile));
      answer = {{"steps", runner->plan().steps.size()},
                {"predicted_seconds", runner->plan().predicted_seconds}};
    } else {
      answer = {{"seconds", runner->run()}};
    }
    std::cout << answer.dump() << std::endl;
  }
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&] {
      check(i + 1 < argc, "bench_plan: {} needs a value", word);
      return std::string(argv[++i]);
    };
    if (word == "--profile")
      options.profile = value();
    else if (word == "--json")
      options.json = value();
    else if (word == "--threads")
      options.threads = std::stoi(value());
    else if (word == "--rounds")
      options.rounds = std::stoi(value());
    else if (word == "--every")
      options.every = std::stoi(value());
    else if (word == "--steps")
      options.steps = true;
    else if (word == "--serve")
      options.serve = true;
    else
      fail("bench_plan: unknown {}", word);
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  // As the command line has it: blocks that were freed are used again, so that no page is touched first.
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
  const Options options = parse(argc, argv);
  torch::set_num_threads(options.threads);
  torch::manual_seed(1);
  const plan::Profile profile = profile_of(options);
  if (options.serve) {
    serve(profile);
    return 0;
  }
  std::vector<std::vector<Result>> all;
  std::string lines;
  const auto list = geometries();
  for (std::size_t i = 0; i < list.size(); i += options.every) {
    Json json;
    all.push_back(measure(list[i], profile, options, &json));
    lines += json.dump() + "\n";
    std::string text = fmt::format("{} {} tokens:", format::to_string(list[i].shape), list[i].tokens);
    for (const Result& one : all.back())
      text += fmt::format("  {} {:.0f}/{:.0f}", one.name, 1e6 * one.predicted, 1e6 * one.measured);
    std::cerr << text << std::endl;
  }
  if (!options.json.empty()) write_file(options.json, lines);
  std::cout << "predicted / measured in us are on stderr\n";
  summarise(all);
}
