#include <comera/base/error.h>
#include <comera/base/text.h>
#include <comera/plan/plan.h>

#include <algorithm>
#include <map>

namespace comera::plan {
namespace {

constexpr double kAcross = 130, kDown = 90, kMargin = 60;

struct Place {
  double x = 0, y = 0;
};

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '&')
      result += "&amp;";
    else
      result += c;
  }
  return result;
}

std::string text_at(Place place, const std::string& text, const char* more) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", place.x, place.y, more, escaped(text));
}

// "b=64 r3=30", sizes of 1 left out.
std::string sizes(const Network& network, Indices set) {
  std::string text;
  for (std::size_t i = 0; i < network.indices.size(); ++i)
    if (set >> i & 1 && network.indices[i].size > 1)
      text +=
          fmt::format("{}{}={}", text.empty() ? "" : " ", network.indices[i].name, network.indices[i].size);
  return text;
}

}  // namespace

// Rooted at dY on top; leaves side by side in the order in which the tree visits them.
std::string draw_svg(const Plan& plan) {
  check(plan.tree.has_value(),
        "[plan] each result of this plan has a tree of its own: there is no one tree to draw");
  const Tree& tree = *plan.tree;
  const Network& network = plan.network;
  const Openings openings(network);
  const auto sets = tree.sets();
  const int last = static_cast<int>(sets.size()) - 1;

  std::vector<Place> places(sets.size());
  std::vector<int> height(sets.size());
  double column = 0;
  const auto place_leaves = [&](const auto& self, int id) -> void {
    if (tree.is_leaf(id)) {
      places[id].x = kMargin + kAcross * column++;
      return;
    }
    const auto& node = tree.nodes[id - tree.leaves];
    self(self, node.left), self(self, node.right);
    places[id].x = (places[node.left].x + places[node.right].x) / 2;
    height[id] = 1 + std::max(height[node.left], height[node.right]);
  };
  place_leaves(place_leaves, last);
  const double bottom = kMargin + kDown * (height[last] + 1);
  for (std::size_t id = 0; id < sets.size(); ++id) places[id].y = bottom - kDown * height[id];
  places[network.root()] = {places[last].x, kMargin};

  std::map<Leaves, std::int64_t> adds;  // of all directions of a node, by its set
  for (const Step& step : plan.steps) {
    const Leaves result = plan.tensors[step.result].leaves;
    for (int id = tree.leaves; id <= last; ++id) {
      const auto& node = tree.nodes[id - tree.leaves];
      const Leaves all = network.all();
      if (result == sets[id] || result == (all & ~sets[node.left]) || result == (all & ~sets[node.right])) {
        adds[sets[id]] += step.multiply_adds;
        break;
      }
    }
  }

  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      2 * kMargin + kAcross * (column - 1), bottom + kMargin);
  const auto edge = [&](int from, int to, Indices open) {
    const Place a = places[from], b = places[to];
    svg += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"gray\"/>\n",
                       a.x, a.y, b.x, b.y);
    svg += text_at({(a.x + b.x) / 2, (a.y + b.y) / 2}, sizes(network, open),
                   "text-anchor=\"middle\" fill=\"dimgray\" font-size=\"10\"");
  };
  for (int id = tree.leaves; id <= last; ++id) {
    const auto& node = tree.nodes[id - tree.leaves];
    edge(id, node.left, openings.open(sets[node.left]));
    edge(id, node.right, openings.open(sets[node.right]));
  }
  edge(network.root(), last, openings.open(sets[last]));
  for (int id = 0; id <= last; ++id) {
    const Place place = places[id];
    if (tree.is_leaf(id)) {
      svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"18\" fill=\"#dde8f5\" stroke=\"black\"/>\n",
                         place.x, place.y);
      svg += text_at({place.x, place.y + 4}, network.leaves[id].name, "text-anchor=\"middle\"");
    } else {
      svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"6\" fill=\"black\"/>\n", place.x, place.y);
      svg += text_at({place.x + 10, place.y - 6}, format_count(static_cast<double>(adds[sets[id]])), "");
    }
  }
  return svg + "</svg>\n";
}

}  // namespace comera::plan
