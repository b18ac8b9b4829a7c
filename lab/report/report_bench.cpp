// What bench/run_gpu.py measured: kernels below their roofs, the encoder, and how kernels changed.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <tuple>

#include <fmt/format.h>

#include "core/error.hpp"
#include "lab/report/report_document.hpp"
#include "lab/report/report_svg.hpp"

namespace fovea::lab::report {
namespace {

struct Peer {
  std::string name;
  double seconds = 0.0;
  double ratio = 0.0;
  bool ambiguous = false, equal_work = true;
};

struct Ceilings {
  double copy = 0.0, l2 = 0.0, bf16 = 0.0, e4m3 = 0.0;  // bytes and operations a second
};

/// One kernel's time in one result.
struct Figure {
  std::string device, card, problem, description, when;
  double flops = 0.0, bytes = 0.0, seconds = 0.0, spread = 0.0, matrix = 0.0;
  int order = 0;  // of its result: newer ones have more
  Ceilings ceilings;
  std::vector<Peer> peers;

  [[nodiscard]] double intensity() const { return flops / bytes; }
  [[nodiscard]] double reached() const { return flops / seconds; }
  /// Of what the roof allows: the memory's rate or the matrix units'.
  [[nodiscard]] double share_of_roof() const {
    const double by_memory = bytes / ceilings.copy / seconds;
    return matrix > 0 ? std::max(by_memory, reached() / matrix) : by_memory;
  }
};

double positive(const Json& object, const char* key) {
  const double value = number(object, key);
  if (!(value > 0)) {
    fail("its \"{}\" is {}, and should be above 0", key, value);
  }
  return value;
}

/// What the launcher chose; other plans are for those who choose one.
std::vector<Figure> figures_of(const Document& document) {
  const Json& kernels = part(document.json, "kernels");
  std::vector<Figure> figures;
  if (document.kind != "bench" || kernels.empty()) {
    return figures;
  }
  const Ceilings ceilings{positive(kernels, "copy_bytes_per_second"),
                          number(kernels, "l2_bytes_per_second", 0),
                          number(kernels, "bf16_flops", 0), number(kernels, "e4m3_flops", 0)};
  for (const Json& one : list(kernels, "figures")) {
    Figure figure;
    figure.device = document.device;
    figure.card = text(one, "card");
    figure.problem = text(one, "case");
    figure.description = text(one, "description", "");
    figure.when = document.when();
    figure.flops = number(one, "flops");
    figure.bytes = positive(one, "bytes");
    figure.seconds = positive(one, "seconds");
    figure.spread = number(one, "spread", 0) / 2 / figure.seconds;
    figure.matrix = number(one, "matrix_ceiling", 0);
    figure.ceilings = ceilings;
    for (const Json& other : list(one, "peers")) {
      if (text(other, "wrong", "").empty()) {
        figure.peers.push_back({text(other, "name"), positive(other, "seconds"),
                                positive(other, "ratio"), truth(other, "ambiguous"),
                                truth(other, "same_result")});
      }
    }
    if (text(one, "plan", "").empty()) {
      figures.push_back(std::move(figure));
    }
  }
  return figures;
}

/// The fastest peer that does the whole work, with how many times as long it takes.
std::string best_peer(const Figure& figure) {
  const Peer* best = nullptr;
  for (const Peer& peer : figure.peers) {
    if (peer.equal_work && (best == nullptr || peer.seconds < best->seconds)) {
      best = &peer;
    }
  }
  return best == nullptr
             ? ""
             : fmt::format("{:.2f}x{} {}", best->ratio,
                           best->ambiguous ? " (within the spread)" : "", safe(best->name));
}

std::string tera(double flops) {
  return digits(flops * 1e-12);
}

class Roofline final : public Section {
 public:
  Roofline() : Section("roofline", "Kernels below their roofs") {}

  bool take(const Document& document) override {
    std::vector<Figure> figures = figures_of(document);
    ++taken_;
    for (Figure& figure : figures) {
      figure.order = taken_;
      newest_[{figure.device, figure.card, figure.problem}] = figure;
    }
    return !figures.empty();
  }

  [[nodiscard]] std::string html() const override {
    std::map<std::pair<std::string, int>, std::vector<Figure>> groups;
    for (const auto& [key, figure] : newest_) {
      groups[{figure.device, group_of(figure)}].push_back(figure);
    }
    std::string html;
    for (auto& [key, figures] : groups) {
      std::ranges::sort(figures, {}, [](const Figure& one) {
        return std::tuple(one.intensity(), one.card, one.problem);
      });
      constexpr const char* kGroups[] = {"Matrix products of 8 bits", "Matrix products of 16 bits",
                                         "Attention", "Rows, pixels and pooling"};
      const std::string title = fmt::format("{} on {}", kGroups[key.second], key.first);
      html += fmt::format("<figure><figcaption>{}</figcaption>\n{}{}</figure>\n", safe(title),
                          chart(title, figures), key_of(title, figures));
    }
    return html.empty()
               ? ""
               : "<p>Each number is a kernel, in its newest result. A circle is a peer on the same "
                 "problem: below ours, it is slower. Roofs are rates that the same run measured; "
                 "peers that leave part of the work undone are circles, and not in the "
                 "tables.</p>\n<div class=\"grid wide\">\n" +
                     html + "</div>\n";
  }

 private:
  static int group_of(const Figure& figure) {
    if (figure.description.starts_with("gemm")) {
      // By its operands, "(u8 x i8)": a GPU without a rate for them has such products, too.
      const auto of = [&](const char* operands) {
        return figure.description.find(operands) != std::string::npos;
      };
      return of("8 x ") || of("e4m3 x ") ? 0 : 1;
    }
    return figure.description.starts_with("attention") ? 2 : 3;
  }

  static std::string chart(const std::string& title, const std::vector<Figure>& figures) {
    std::vector<double> xs;
    std::vector<double> ys;
    const Figure* newest = nullptr;
    for (const Figure& figure : figures) {
      if (figure.flops > 0) {
        newest = newest == nullptr || newest->order < figure.order ? &figure : newest;
        xs.push_back(figure.intensity());
        ys.push_back(figure.reached());
        for (const Peer& peer : figure.peers) {
          ys.push_back(figure.flops / peer.seconds);
        }
      }
    }
    if (newest == nullptr) {
      return "";
    }
    const Ceilings& roof = newest->ceilings;
    const double matrix = std::max_element(figures.begin(), figures.end(), [](auto& a, auto& b) {
                            return a.matrix < b.matrix;
                          })->matrix;
    const auto [x_low, x_high] = std::ranges::minmax(xs);
    const auto [y_low, y_high] = std::ranges::minmax(ys);
    const Point size{420, 310};
    const Scale x(x_low * 0.6, x_high * 1.7, 52, size.x - 22, true);
    const double roof_here = matrix > 0 ? std::min(matrix, x.high() * roof.copy) : y_high;
    const Scale y(y_low * 0.6 * 1e-12, std::max(y_high, roof_here) * 1.5e-12, size.y - 44, 10,
                  true);
    Svg svg(size, title,
            fmt::format("{} kernels by operations per byte and operations per second, below the "
                        "measured rates of memory and matrix units. The table holds the figures.",
                        xs.size()));
    for (const double tick : x.ticks(60)) {
      svg.line({{x(tick), y(y.low())}, {x(tick), y(y.high())}}, "axis");
      svg.text({x(tick), size.y - 28}, tick_text(tick), "tick", "middle");
    }
    for (const double tick : y.ticks(34)) {
      svg.line({{x(x.low()), y(tick)}, {x(x.high()), y(tick)}}, "axis");
      svg.text({46, y(tick) + 4}, tick_text(tick), "tick", "end");
    }
    svg.text({(52 + size.x) / 2, size.y - 8}, "operations per byte of device memory", "tick",
             "middle");
    svg.text({56, 22}, "TFLOP/s", "tick");
    svg.set_field({54, 26}, {size.x - 4, size.y - 46});
    for (const Figure& figure : figures) {
      if (figure.flops > 0) {
        svg.keep_free({x(figure.intensity()), y(figure.reached() * 1e-12)}, 4);
        for (const Peer& peer : figure.peers) {
          svg.keep_free({x(figure.intensity()), y(figure.flops / peer.seconds * 1e-12)}, 3);
        }
      }
    }
    slope(svg, x, y, roof.copy, matrix, "copy " + digits(roof.copy * 1e-12) + " TB/s");
    slope(svg, x, y, roof.l2, matrix, "L2 " + digits(roof.l2 * 1e-12) + " TB/s");
    flat(svg, x, y, roof.bf16, roof.copy, "bf16 " + tera(roof.bf16));
    flat(svg, x, y, matrix > 1.5 * roof.bf16 ? roof.e4m3 : 0, roof.copy,
         "8 bits " + tera(roof.e4m3));
    for (const Figure& figure : figures) {
      for (const Peer& peer : figure.peers) {
        if (figure.flops > 0) {
          const double reached = figure.flops / peer.seconds;
          svg.dot({x(figure.intensity()), y(reached * 1e-12)}, 3.5, "peer",
                  fmt::format("{}: {}, {}, {} TFLOP/s", figure.card, peer.name,
                              duration(peer.seconds), tera(reached)));
        }
      }
    }
    std::vector<std::pair<Point, std::size_t>> dots;
    for (std::size_t i = 0; i < figures.size(); ++i) {
      const Figure& figure = figures[i];
      if (figure.flops > 0) {
        const Point at{x(figure.intensity()), y(figure.reached() * 1e-12)};
        svg.dot(at, 4.5, "ours",
                fmt::format("{}. {} {}: {}, {} TFLOP/s, {} of the roof", i + 1, figure.card,
                            figure.description, duration(figure.seconds), tera(figure.reached()),
                            percent(figure.share_of_roof())));
        dots.emplace_back(at, i + 1);
      }
    }
    for (const auto& [at, name] : dots) {
      svg.label(at, fmt::format("{}", name), "name");
    }
    return svg.str();
  }

  /// The rate of a memory, up to the matrix units' rate.
  static void slope(Svg& svg, const Scale& x, const Scale& y, double rate, double matrix,
                    const std::string& name) {
    const double low = std::max(x.low(), y.low() * 1e12 / rate);
    const double high =
        std::min({x.high(), y.high() * 1e12 / rate, matrix > 0 ? matrix / rate : x.high()});
    if (rate > 0 && low < high) {
      const auto at = [&](double value) { return Point{x(value), y(value * rate * 1e-12)}; };
      svg.line({at(low), at(high)}, "roof");
      constexpr int kPlaces = 24;  // along the line: no label on it
      for (int i = 0; i <= kPlaces; ++i) {
        svg.keep_free(at(low * std::pow(high / low, i / double{kPlaces})), 3);
      }
      svg.label(at(std::sqrt(low * high)), name, "tick");
    }
  }

  static void flat(Svg& svg, const Scale& x, const Scale& y, double flops, double copy,
                   const std::string& name) {
    const double from = std::max(flops / copy, x.low());
    if (flops > 0 && from < x.high() && flops * 1e-12 < y.high() && flops * 1e-12 > y.low()) {
      svg.line({{x(from), y(flops * 1e-12)}, {x(x.high()), y(flops * 1e-12)}}, "roof");
      svg.text({svg.size().x - 22, y(flops * 1e-12) - 5}, name, "tick", "end");
      for (double along = x(from); along < x(x.high()); along += 6) {
        svg.keep_free({along, y(flops * 1e-12)}, 3);
      }
      for (const double before : {30.0, 50.0, 70.0, 90.0}) {
        svg.keep_free({svg.size().x - before, y(flops * 1e-12) - 9}, 10);
      }
    }
  }

  static std::string key_of(const std::string& title, const std::vector<Figure>& figures) {
    std::vector<Row> rows;
    for (std::size_t i = 0; i < figures.size(); ++i) {
      const Figure& figure = figures[i];
      const std::string peer = best_peer(figure);
      rows.push_back({figure.flops > 0 ? fmt::format("<b>{}</b>", i + 1) : "",
                      fmt::format("{}<small>{}{}</small>", safe_name(figure.card),
                                  safe_name(figure.problem), peer.empty() ? "" : "<br>" + peer),
                      duration(figure.seconds), figure.flops > 0 ? tera(figure.reached()) : "-",
                      percent(figure.share_of_roof())});
    }
    return table(title,
                 {"", "kernel, and how many times as long the best peer takes", "#time", "#TFLOP/s",
                  "#of roof"},
                 rows);
  }

  std::map<std::tuple<std::string, std::string, std::string>, Figure> newest_;
  int taken_ = 0;  // documents
};

/// Images per second by batch size.
class Encoder final : public Section {
 public:
  Encoder() : Section("encoder", "The encoder") {}

  bool take(const Document& document) override {
    if (document.kind != "bench") {
      return false;
    }
    std::map<std::string, std::map<std::string, Line>> found;
    for (const char* key : {"gpu_bench", "encoder", "torch_encoder"}) {
      std::map<std::string, Line> lines;
      for (const Json& one : document.json.contains(key) ? list(document.json, key) : Json()) {
        if (!one.contains("images_per_second") && !one.contains("device_images_per_second")) {
          continue;  // a peer that was left out
        }
        const std::string who = text(one, "engine", text(one, "peer", "fovea").c_str());
        const std::string precision = text(one, "precision", "");
        const double rate = one.contains("device_images_per_second")
                                ? positive(one, "device_images_per_second")
                                : positive(one, "images_per_second");
        Line& line = lines[precision.empty() ? who : fmt::format("{}, {}", who, precision)];
        line.rates[batch_of(one)] = rate;
        line.when = document.when();
      }
      if (!lines.empty()) {
        found[key] = std::move(lines);
      }
    }
    for (auto& [key, lines] : found) {
      newest_[document.device][key] = std::move(lines);
    }
    return !found.empty();
  }

  [[nodiscard]] std::string html() const override {
    std::string html;
    for (const auto& [device, sections] : newest_) {
      std::map<std::string, Line> lines;
      for (const auto& [key, section] : sections) {
        lines.insert(section.begin(), section.end());
      }
      std::vector<std::string> columns = {"engine"};
      std::map<double, double> batches;
      for (const auto& [who, line] : lines) {
        batches.insert(line.rates.begin(), line.rates.end());
      }
      for (const auto& [batch, rate] : batches) {
        columns.push_back(fmt::format("#batch {:g}", batch));
      }
      std::vector<Row> rows;
      for (const auto& [who, line] : lines) {
        Row row = {fmt::format("{}<small>{}</small>", safe(who), safe(line.when))};
        for (const auto& [batch, rate] : batches) {
          const auto found = line.rates.find(batch);
          row.push_back(found == line.rates.end() ? "-" : digits(found->second));
        }
        rows.push_back(std::move(row));
      }
      html += fmt::format("<figure><figcaption>Images per second on {}</figcaption>\n{}</figure>\n",
                          safe(device), table("Images per second on " + device, columns, rows));
    }
    return html;
  }

 private:
  struct Line {
    std::map<double, double> rates;  // by batch size
    std::string when;
  };

  static double batch_of(const Json& one) {
    if (one.contains("batch") || one.contains("batch_size")) {
      return positive(one, one.contains("batch") ? "batch" : "batch_size");
    }
    const std::string name = text(one, "case");  // "batch 1024"
    int batch = 0;
    std::from_chars(name.data() + name.find_last_of(' ') + 1, name.data() + name.size(), batch);
    if (batch <= 0) {
      fail("its \"case\" is \"{}\", which names no batch", name);
    }
    return batch;
  }

  // By device and section: a newer result of a section replaces the older one.
  std::map<std::string, std::map<std::string, std::map<std::string, Line>>> newest_;
};

/// A kernel's time over the committed results.
class History final : public Section {
 public:
  History() : Section("history", "History") {}

  bool take(const Document& document) override {
    const std::vector<Figure> figures = figures_of(document);
    for (const Figure& figure : figures) {
      kernels_[{figure.device, figure.card, figure.problem}].push_back(figure);
    }
    return !figures.empty();
  }

  [[nodiscard]] std::string html() const override {
    std::string charts;
    std::vector<Row> rows;
    for (const auto& [key, results] : kernels_) {
      const auto& [device, card, problem] = key;
      if (results.size() > 1) {
        charts += chart(results);
      }
      for (const Figure& one : results) {
        rows.push_back({safe_name(card), safe_name(problem), safe(device), safe(one.when),
                        duration(one.seconds), fmt::format("{:.1f}%", 100 * one.spread),
                        best_peer(one)});
      }
    }
    return rows.empty()
               ? ""
               : "<p>Time of each kernel in every result that has it, from the oldest to the "
                 "newest; lower is better. Those measured once are in the table.</p>\n"
                 "<div class=\"grid small\">\n" +
                     charts + "</div>\n" +
                     folded(fmt::format("All {} figures as a table", rows.size()),
                            table("Times of kernels over the results",
                                  {"card", "case", "device", "result", "#time", "#spread",
                                   "to the best peer"},
                                  rows));
  }

 private:
  static std::string chart(const std::vector<Figure>& results) {
    const Figure& last = results.back();
    const double change = last.seconds / results.front().seconds - 1;
    double low = last.seconds;
    double high = last.seconds;
    for (const Figure& one : results) {
      low = std::min(low, one.seconds * (1 - one.spread));
      high = std::max(high, one.seconds * (1 + one.spread));
    }
    const double middle = (low + high) / 2;
    constexpr double kLeastHalf = 0.06;  // a change of a percent is not to look like more
    const double half = std::max((high - low) / 2 * 1.15, kLeastHalf * middle);
    const Point size{300, 92};
    const Scale x(0, static_cast<double>(results.size()) - 1, 16, size.x - 16, false);
    const Scale y(middle - half, middle + half, size.y - 18, 12, false);
    Svg svg(size, last.card + " " + last.problem,
            fmt::format("{} in {}, {} in {}", duration(results.front().seconds),
                        results.front().when, duration(last.seconds), last.when));
    std::vector<Point> line;
    for (std::size_t i = 0; i < results.size(); ++i) {
      const Figure& one = results[i];
      const Point at{x(static_cast<double>(i)), y(one.seconds)};
      svg.line(
          {{at.x, y(one.seconds * (1 - one.spread))}, {at.x, y(one.seconds * (1 + one.spread))}},
          "whisker");
      line.push_back(at);
    }
    svg.line(line, "course");
    for (std::size_t i = 0; i < results.size(); ++i) {
      svg.dot(line[i], 4, "ours",
              fmt::format("{}: {} ±{:.1f}%", results[i].when, duration(results[i].seconds),
                          100 * results[i].spread));
    }
    svg.text({6, size.y - 3}, results.front().when.substr(0, 10), "tick");
    svg.text({size.x - 6, size.y - 3}, last.when.substr(0, 10), "tick", "end");
    constexpr double kMoved = 0.01;
    const char* const kind = change < -kMoved ? "better" : change > kMoved ? "worse" : "same";
    return fmt::format(
        "<figure><figcaption>{} <small>{}</small></figcaption><p><b>{}</b> <span "
        "class=\"{}\">{:+.1f}%</span> over {} results</p>\n{}</figure>\n",
        safe(last.card), safe(last.problem), duration(last.seconds), kind, 100 * change,
        results.size(), svg.str());
  }

  std::map<std::tuple<std::string, std::string, std::string>, std::vector<Figure>> kernels_;
};

}  // namespace

void add_bench_sections(Sections& sections) {
  sections.push_back(std::make_unique<Roofline>());
  sections.push_back(std::make_unique<Encoder>());
}

void add_history_section(Sections& sections) {
  sections.push_back(std::make_unique<History>());
}

}  // namespace fovea::lab::report
