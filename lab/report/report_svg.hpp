// Pictures of the report: SVG that is written out element by element.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fovea::lab::report {

struct Point {
  double x = 0.0;
  double y = 0.0;
};

/// A picture as wide as its place. `kind`s are classes of the page's style.
class Svg {
 public:
  /// The title and the description say in words what is to be seen.
  Svg(Point size, std::string_view title, std::string_view description, std::string_view kind = {});

  void line(const std::vector<Point>& points, std::string_view kind);
  /// `hover` is shown under the pointer.
  void dot(Point at, double radius, std::string_view kind, std::string_view hover);
  void text(Point at, std::string_view words, std::string_view kind, const char* anchor = "start");
  /// Text near `at`, where nothing else is; with a thin line to it when that is farther away.
  void label(Point at, std::string_view words, std::string_view kind);
  /// Labels stay within this rectangle; without it, within the picture.
  void set_field(Point from, Point to) { from_ = from, to_ = to; }
  /// Labels keep away from here.
  void keep_free(Point at, double radius) { taken_.push_back({at, {radius, radius}}); }

  [[nodiscard]] Point size() const { return size_; }
  [[nodiscard]] std::string str() const { return svg_ + "</svg>\n"; }

 private:
  struct Box {
    Point centre, half;
  };

  Point size_, from_, to_;
  std::string svg_;
  std::vector<Box> taken_;
};

/// From values to places of a picture, by logarithms or in proportion.
class Scale {
 public:
  Scale(double low, double high, double from, double to, bool logarithmic);
  [[nodiscard]] double operator()(double value) const;
  /// Round values within it; as many as fit when two are at least `apart` units apart.
  [[nodiscard]] std::vector<double> ticks(double apart) const;
  [[nodiscard]] double low() const { return low_; }
  [[nodiscard]] double high() const { return high_; }

 private:
  double low_, high_, from_, to_;
  bool logarithmic_;
};

/// "1,500", "0.02", "3e+09": short, for ticks.
[[nodiscard]] std::string tick_text(double value);

}  // namespace fovea::lab::report
