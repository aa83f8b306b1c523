#include <fmt/format.h>
#include <comera/plan/plan.h>
#include <comera/plan/search.h>
#include <comera/plan/memory.h>
#include <comera/plan/region.h>
#include <comera/plan/lookup.h>
#include <comera/plan/advisor.h>
#include <gtest/gtest.h>
#include <chrono>
using namespace comera; using namespace comera::plan;
struct Clock { std::chrono::steady_clock::time_point t=std::chrono::steady_clock::now(); double ms(){return std::chrono::duration<double>(std::chrono::steady_clock::now()-t).count()*1e3;} };
TEST(Scratch, Print) {
  const Profile profile = default_profile();
  for (int tokens : {16, 64, 4096}) {
    Request r{{format::tt({12,8,8},{8,8,12},{30})}, tokens};
    Plan p = make_plan(r, profile);
    fmt::print("{}\n", to_string(p, alternatives(r, profile)));
  }
}
TEST(Scratch, Speed) {
  const Profile profile = default_profile();
  for (int tokens : {1, 64, 4096}) for (Goal g : {Goal::multiply_adds, Goal::bytes, Goal::time}) {
    Request r{{format::tt({4,4,4,4,4,4},{4,4,4,4,4,4},{30})}, tokens}; r.goal = g;
    Clock c; const Network n = layer_network(r.layers, tokens, Results::all);
    auto o = tree_objective(g, profile, DType::float32);
    TreeSearch s(n, *o); double a = c.ms();
    Clock c2; Plan p = make_plan(r, profile);
    Clock c3; auto many = s.cheapest(32); double m=c3.ms();
    fmt::print("{} {}: search {:.1f} ms, plan {:.1f} ms, 32 best {:.1f}\n", tokens, to_string(g), a, c2.ms(), m);
  }
}
TEST(Scratch, Memory) {
  const Profile profile = default_profile();
  for (int tokens : {1, 64, 4096}) {
    Request r{{format::tt({12,8,8},{8,8,12},{30})}, tokens}; r.goal = Goal::memory;
    Clock c; Plan p = make_plan(r, profile);
    fmt::print("{} {:.1f} ms\n{}\n", tokens, c.ms(), to_string(p));
    Request t = r; t.goal = Goal::time; t.memory_limit = p.peak_bytes * 1.2;
    Clock c2; Plan q = make_plan(t, profile);
    fmt::print("{} {:.1f} ms\n{}\n", tokens, c2.ms(), to_string(q));
    r.layers = {format::tt({4,4,4,4,4,4},{4,4,4,4,4,4},{30})};
    Clock c3; p = make_plan(r, profile);
    fmt::print("{} {:.1f} ms {} \n", tokens, c3.ms(), p.peak_bytes);
  }
}
