// What the parts of the report share: a file that was read, its values, and pieces of HTML.
#pragma once

#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace fovea::lab::report {

using Json = nlohmann::json;

/// One file of results.
struct Document {
  std::string file;  // as people are told it
  std::string kind;  // "profile"; "bench" is a file of bench/run_gpu.py
  /// Of a ledger: an object with its lines "run", "candidates", "confirmations" and, when it is the
  /// last, "end", and "cost_seconds" of all.
  Json json;
  std::string device, driver, clocks, date, commit;  // where and when, as far as it says so

  /// "2026-11-23 at 81c72c8d7378"
  [[nodiscard]] std::string when() const;
  /// The device, too: figures of two machines stand side by side.
  [[nodiscard]] std::string origin() const;
};

// Values of a document. Each throws fovea::Error that names the key when a value is missing or of
// another type; those with another value in its place do not. Numbers that nothing measures are
// errors: what is made of them would be infinite.
[[nodiscard]] double number(const Json& object, const char* key);
[[nodiscard]] double number(const Json& object, const char* key, double otherwise);
[[nodiscard]] int integer(const Json& object, const char* key);
[[nodiscard]] bool truth(const Json& object, const char* key);
/// A number, too, as text.
[[nodiscard]] std::string text(const Json& object, const char* key);
[[nodiscard]] std::string text(const Json& object, const char* key, const char* otherwise);
[[nodiscard]] const Json& list(const Json& object, const char* key);
[[nodiscard]] const Json& part(const Json& object, const char* key);
/// "stages 5, warps 8": an object's values in a line; "" when there are none.
[[nodiscard]] std::string values(const Json& object, const char* key);
/// A number from 0 to 1.
[[nodiscard]] double share(const Json& object, const char* key);
/// The named ones of an object, the largest first.
[[nodiscard]] std::vector<std::pair<std::string, double>> shares(const Json& object,
                                                                 const char* key);

// Words. Those that come from a file are escaped by `safe` and by nothing else.
[[nodiscard]] std::string safe(std::string_view text);
/// A name that may be broken behind its underlines.
[[nodiscard]] std::string safe_name(std::string_view name);
/// Three significant digits in plain notation: "1,769,472", "83.1", "0.00412".
[[nodiscard]] std::string digits(double value);
[[nodiscard]] std::string percent(double share);
/// "83.1 µs", "4.2 ms"
[[nodiscard]] std::string duration(double seconds);
/// "pass" or another word in colour.
[[nodiscard]] std::string badge(std::string_view word, bool good);

using Row = std::vector<std::string>;  // cells as HTML
/// A table that scrolls by itself where it is too wide. Columns whose names begin with '#' hold
/// numbers. `caption` is for those who cannot see the page.
[[nodiscard]] std::string table(std::string_view caption,
                                std::initializer_list<const char*> columns,
                                const std::vector<Row>& rows);
[[nodiscard]] std::string table(std::string_view caption, const std::vector<std::string>& columns,
                                const std::vector<Row>& rows);
/// The rows in the order of their keys; nothing when there are none.
[[nodiscard]] std::string table(std::string_view caption,
                                std::initializer_list<const char*> columns,
                                const std::map<std::string, Row>& rows);
/// What is folded away below a summary.
[[nodiscard]] std::string folded(std::string_view summary, std::string_view html);

/// Pieces of a section by what they are of; a newer document's replaces an older one's.
using Pieces = std::map<std::string, std::string>;

/// What a part of the page takes documents of and becomes HTML. `take` throws fovea::Error, and
/// takes nothing, when a document is not what it says to be. Documents come in the order of time.
class Section {
 public:
  Section(const char* id, const char* title) : id_(id), title_(title) {}
  virtual ~Section() = default;
  Section(const Section&) = delete;
  Section& operator=(const Section&) = delete;

  /// False when there is nothing for this section in it.
  virtual bool take(const Document& document) = 0;
  /// Empty when nothing was taken.
  [[nodiscard]] virtual std::string html() const = 0;
  [[nodiscard]] const char* id() const { return id_; }
  [[nodiscard]] const char* title() const { return title_; }

 private:
  const char* id_;
  const char* title_;
};

/// All of them, in the order of the page.
using Sections = std::vector<std::unique_ptr<Section>>;
void add_bench_sections(Sections& sections);    // roofline, encoder
void add_profile_sections(Sections& sections);  // profiles, gates, comparisons
void add_ledger_section(Sections& sections);
void add_history_section(Sections& sections);
void add_verdict_sections(Sections& sections);  // sanitizers, judgements

}  // namespace fovea::lab::report
