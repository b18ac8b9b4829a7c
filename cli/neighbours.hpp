// What `fovea similar` and `fovea search` share: neighbours as lines, JSON and pages of pictures.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "cli/json_output.hpp"
#include "cli/progress_line.hpp"
#include "cli/similar_report.hpp"
#include "fovea/encoder.hpp"
#include "fovea/search.hpp"

namespace fovea::cli {

/// What neighbours are searched of: a photo or a vector, whose row is -1 when it has none; or
/// words, which have no picture.
struct Query {
  Photo photo;
  bool is_text = false;
  /// Set for texts alone: their matches also have logits and probabilities.
  std::optional<LogitScale> scale = std::nullopt;
};

/// Options of both commands.
struct NeighbourOptions {
  std::vector<std::string> in;
  std::string model;
  int k = 10;
  JsonOutput json;
  std::string html;
  bool print0 = false;
  std::string root;
  std::string device = "auto";
  std::int64_t max_pixels = 0;
  int threads = 0;
  ProgressArguments progress;
};
/// --in, --neighbours and --model.
void add_collection_options(CLI::App& command, NeighbourOptions& options, const char* model_help);
/// --json, --html, which is returned, --root, and how to compute and to tell of it.
CLI::Option* add_report_options(CLI::App& command, NeighbourOptions& options);

/// What both commands search with.
class NeighbourSearch {
 protected:
  /// `device`: where vectors are compared. Tells of an output that a job still writes.
  NeighbourSearch(const NeighbourOptions& options, const std::string& device);

  [[nodiscard]] const std::string& model() const {
    return neighbour_options_.model.empty() ? collection_.model() : neighbour_options_.model;
  }
  /// The row of a photo that the collection knows by this name or by this path.
  [[nodiscard]] std::optional<std::int64_t> find_row(const std::string& name) const;
  /// Throws fovea::Error: the name is neither of a photo nor of a file.
  [[noreturn]] void refuse_name(const std::string& name) const;
  /// How queries are embedded: on the GPU that was asked for; else in fp32 on the CPU, because a
  /// GPU would take longer to start than to compute a few of them.
  [[nodiscard]] EncoderOptions encoder_options(Tower first) const;
  [[nodiscard]] bool prints_table() const {
    return neighbour_options_.json.leaves_text() && !neighbour_options_.print0 &&
           neighbour_options_.html.empty();
  }
  /// Prints each query with its matches on the standard output where a table is printed, adds them
  /// to the page, and writes them as JSON: {"rows": N, "queries": [{"query": ..., "matches":
  /// [...]}]}.
  void report_neighbours(std::span<const Query> queries,
                         std::span<const std::vector<Match>> results, Page& page) const;
  /// Throws fovea::Error when vectors of `dimension` numbers, which are of `what`, cannot be
  /// compared with the collection.
  void check_dimension(std::int64_t dimension, const std::string& what) const;
  /// " in OUT, embedded by base".
  [[nodiscard]] std::string where_searched() const;

  const NeighbourOptions& neighbour_options_;
  ProgressLine line_;
  Collection collection_;
  PhotoReport report_;
  std::optional<Encoder> encoder_;
};

/// Prints the name of a photo's file as the file system knows it, and a NUL byte.
void print_file0(const Photo& photo);
/// The names of outputs, separated by commas.
[[nodiscard]] std::string names_of(const std::vector<std::filesystem::path>& outputs);

/// What the writing of a page takes, beside the page.
struct PageNotes {
  std::string hint;            // ends the sentence about pictures that could not be read
  Encoder* encoder = nullptr;  // see write_page
};
/// Makes the results, and writes the page for --html FILE, unless that is "". The page is written
/// last, after all the work, so its place is tried first. Says what was written. Throws
/// fovea::Error.
void with_page(const std::string& html, int threads,
               const std::function<Page(PageNotes& notes)>& make);

}  // namespace fovea::cli
