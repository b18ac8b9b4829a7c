// Shared by `fovea similar` and `fovea search`: options, and reports of neighbours as text, JSON
// and pages of pictures.
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

/// A query for neighbours: a photo; a vector, with row -1 when it is not from the collection; or a
/// text, which has no picture.
struct Query {
  Photo photo;
  bool is_text = false;
  /// Only set for texts, whose matches also have logits and probabilities.
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
/// Adds --in, --neighbours and --model.
void add_collection_options(CLI::App& command, NeighbourOptions& options, const char* model_help);
/// Adds --json, --html, --root and the options for computing and progress. Returns --html.
CLI::Option* add_report_options(CLI::App& command, NeighbourOptions& options);

/// Base class of both commands, with the open collection, the encoder and the report.
class NeighbourSearch {
 protected:
  /// `device`: the device that compares vectors. Prints a note when an output is unfinished.
  NeighbourSearch(const NeighbourOptions& options, const std::string& device);

  [[nodiscard]] const std::string& model() const {
    return neighbour_options_.model.empty() ? collection_.model() : neighbour_options_.model;
  }
  /// Returns the row of the photo with this name or path.
  [[nodiscard]] std::optional<std::int64_t> find_row(const std::string& name) const;
  /// Throws a fovea::Error saying that `name` is neither a photo of the collection nor a file.
  [[noreturn]] void throw_unknown_name(const std::string& name) const;
  /// Returns the options of the encoder for queries: on a GPU when one was requested, else fp32 on
  /// the CPU, because starting a GPU takes longer than embedding a few queries.
  [[nodiscard]] EncoderOptions encoder_options(Tower first) const;
  [[nodiscard]] bool prints_table() const {
    return neighbour_options_.json.prints_text() && !neighbour_options_.print0 &&
           neighbour_options_.html.empty();
  }
  /// Prints each query with its matches as a table, if a table is to be printed, adds them to the
  /// page, and writes them as JSON: {"rows": N, "queries": [{"query": ..., "matches": [...]}]}.
  void report_neighbours(std::span<const Query> queries,
                         std::span<const std::vector<Match>> results, Page& page) const;
  /// Throws fovea::Error when `dimension` is not that of the collection's vectors; `what` names the
  /// source of the vectors in the message.
  void check_dimension(std::int64_t dimension, const std::string& what) const;
  /// Returns a description of the searched outputs, such as " in OUT, embedded by base".
  [[nodiscard]] std::string search_scope() const;

  const NeighbourOptions& neighbour_options_;
  ProgressLine line_;
  Collection collection_;
  PhotoReport report_;
  std::optional<Encoder> encoder_;
};

/// Prints the unescaped name of a photo's file, and a NUL byte.
void print_name_and_nul(const Photo& photo);
/// Returns the names of outputs, separated by commas.
[[nodiscard]] std::string output_names(const std::vector<std::filesystem::path>& outputs);

/// Arguments for writing the page that become known while it is made.
struct PageNotes {
  std::string hint;            // appended to the note about pictures that could not be read
  Encoder* encoder = nullptr;  // as for write_page()
};
/// Calls `make`, and writes the page that it returns to the file `html`, unless that is "". First
/// checks that the file can be written, because `make` may take long. Prints a note about the file.
/// Throws fovea::Error.
void make_and_write_page(const std::string& html, int threads,
                         const std::function<Page(PageNotes& notes)>& make);

}  // namespace fovea::cli
