// SVG elements, scales with round ticks, and labels that find a free place.
#include "lab/report/report_svg.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include <fmt/format.h>

#include "lab/report/report_document.hpp"

namespace fovea::lab::report {

Svg::Svg(Point size, std::string_view title, std::string_view description, std::string_view kind)
    : size_(size), to_(size) {
  svg_ = fmt::format(
      "<svg class=\"{}\" viewBox=\"0 0 {:g} {:g}\" role=\"img\" aria-label=\"{}\">"
      "<title>{}</title><desc>{}</desc>\n",
      kind, size.x, size.y, safe(title), safe(title), safe(description));
}

void Svg::line(const std::vector<Point>& points, std::string_view kind) {
  svg_ += fmt::format("<polyline class=\"{}\" points=\"", kind);
  for (const Point& point : points) {
    svg_ += fmt::format("{:.1f},{:.1f} ", point.x, point.y);
  }
  svg_ += "\"/>\n";
}

void Svg::dot(Point at, double radius, std::string_view kind, std::string_view hover) {
  svg_ += fmt::format(
      "<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:g}\"><title>{}</title></circle>\n",
      kind, at.x, at.y, radius, safe(hover));
}

void Svg::text(Point at, std::string_view words, std::string_view kind, const char* anchor) {
  svg_ += fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n",
                      kind, at.x, at.y, anchor, safe(words));
}

void Svg::label(Point at, std::string_view words, std::string_view kind) {
  constexpr double kGlyph = 6.6;  // of the picture's type: 12 units high
  const Point half{kGlyph * static_cast<double>(words.size()) / 2 + 1, 6.5};
  const auto is_free = [&](Point centre) {
    return centre.x - half.x >= from_.x && centre.x + half.x <= to_.x &&
           centre.y - half.y >= from_.y && centre.y + half.y <= to_.y &&
           std::ranges::none_of(taken_, [&](const Box& box) {
             return std::abs(box.centre.x - centre.x) < box.half.x + half.x &&
                    std::abs(box.centre.y - centre.y) < box.half.y + half.y;
           });
  };
  Point place{at.x + half.x + 6, at.y - 8};
  double away = 0;
  constexpr int kDirections = 16;
  for (int i = 0; i < 8 * kDirections; ++i) {
    const int ring = i / kDirections;
    away = 4 + 9.0 * ring;
    const double angle = 2 * M_PI * (i % kDirections) / kDirections - M_PI / 4;
    const Point centre{at.x + (half.x + away) * std::cos(angle),
                       at.y + (half.y + away) * std::sin(angle)};
    if (is_free(centre)) {
      place = centre;
      break;
    }
  }
  constexpr double kNear = 14;
  if (away > kNear) {
    line({at,
          {place.x + std::clamp(at.x - place.x, -half.x, half.x),
           place.y + std::clamp(at.y - place.y, -half.y, half.y)}},
         "leader");
  }
  taken_.push_back({place, half});
  text({place.x, place.y + 4}, words, kind, "middle");
}

Scale::Scale(double low, double high, double from, double to, bool logarithmic)
    : low_(low), high_(high), from_(from), to_(to), logarithmic_(logarithmic) {}

double Scale::operator()(double value) const {
  const double share = logarithmic_ ? std::log(value / low_) / std::log(high_ / low_)
                                    : (value - low_) / (high_ - low_);
  return from_ + (to_ - from_) * share;
}

std::vector<double> Scale::ticks(double apart) const {
  const double most = std::max(1.0, std::abs(to_ - from_) / apart);
  std::vector<double> found;
  if (!logarithmic_) {
    const double least = (high_ - low_) / most;
    double step = std::pow(10, std::floor(std::log10(least)));
    step *= step >= least ? 1 : 2 * step >= least ? 2 : 5 * step >= least ? 5 : 10;
    for (double at = std::ceil(low_ / step) * step; at <= high_; at += step) {
      found.push_back(at);
    }
    return found;
  }
  const int first = static_cast<int>(std::floor(std::log10(low_)));
  const int last = static_cast<int>(std::ceil(std::log10(high_)));
  const auto within = [&](std::initializer_list<double> steps, int every) {
    found.clear();
    for (int decade = first; decade <= last; decade += every) {
      for (const double step : steps) {
        const double value = step * std::pow(10, decade);
        if (value >= low_ && value <= high_) {
          found.push_back(value);
        }
      }
    }
    return static_cast<double>(found.size()) <= most;
  };
  if (!within({1, 1.5, 2, 3, 5, 7}, 1) && !within({1, 2, 5}, 1) && !within({1, 3}, 1)) {
    for (int every = 1; every < 64 && !within({1}, every); every *= 2) {
    }
  }
  return found;
}

std::string tick_text(double value) {
  constexpr double kPlain = 1e6;
  return std::abs(value) < kPlain && std::abs(value) >= 1000
             ? digits(value)
             : fmt::format("{:.4g}", std::abs(value) < 1e-12 ? 0.0 : value);
}

}  // namespace fovea::lab::report
