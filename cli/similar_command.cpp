// `fovea similar`: finds neighbours and duplicates, and shows them as a table, JSON or a page.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/neighbours.hpp"
#include "cli/progress_line.hpp"
#include "cli/similar_report.hpp"
#include "cli/terminal.hpp"
#include "fovea/encoder.hpp"
#include "fovea/error.hpp"
#include "fovea/search.hpp"

namespace fovea::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct SimilarOptions : NeighbourOptions {
  std::vector<std::string> queries;
  bool duplicates = false;
  double threshold = 0.98;
  std::vector<std::string> only;
  std::vector<std::string> prefer;
  std::int64_t limit = 100;

  // Whether the class is shown: it is in --only, or --only is not given.
  [[nodiscard]] bool shows(Likeness likeness) const {
    return only.empty() || std::ranges::find(only, class_name(likeness)) != only.end();
  }
};

class Similar : private NeighbourSearch {
 public:
  explicit Similar(const SimilarOptions& options)
      : NeighbourSearch(options, options.duplicates ? "cpu" : options.device), options_(options) {}

  Page run(PageNotes& notes) {
    notes.hint = root_note();
    return options_.duplicates ? find_duplicates() : find_neighbours();
  }

 private:
  [[nodiscard]] std::string root_note() const {
    return options_.root.empty() ? "; --root sets the folder to which relative names refer"
                                 : "; relative names refer to " + source_name(options_.root);
  }

  Page find_duplicates() {
    const Duplicates duplicates =
        collection_.duplicates({.threshold = options_.threshold,
                                .identical_files = options_.shows(Likeness::kIdenticalFile),
                                .identical_pixels = options_.shows(Likeness::kIdenticalPixels),
                                .similar = options_.shows(Likeness::kSimilar),
                                .prefer = {options_.prefer.begin(), options_.prefer.end()}});
    Page page{"Duplicates", summarize(duplicates), {}};
    Json list = Json::array();
    for (const DuplicateGroup& group : duplicates.groups) {
      page.sections.push_back(report_.section(group, page.sections.size() + 1));
      list.push_back(report_.json(group));
      if (options_.print0) {
        print_names(group);
      } else if (prints_table()) {
        print(group, page.sections.size());
      }
    }
    Json result{
        {"threshold", options_.shows(Likeness::kSimilar) ? Json(options_.threshold) : Json()},
        {"rows", collection_.rows()}};
    if (!options_.only.empty()) {
      result["only"] = options_.only;
    }
    result["groups"] = std::move(list);
    options_.json.write(result, "duplicates");
    say(page.description);
    print_notes(duplicates);
    page.description += ". ";
    if (options_.shows(Likeness::kSimilar)) {
      page.description += fmt::format(
          "Each of them has a score of at least {:g} with the photo to keep. ", options_.threshold);
    }
    page.description += "Searched" + search_scope() + ".";
    return page;
  }

  // Returns "3 groups of duplicates in 120 photos, each with one photo to keep; of the others (2
  // identical files, 5 similar), 7 may go (12.3 MB)".
  [[nodiscard]] std::string summarize(const Duplicates& duplicates) const {
    std::int64_t deletable = 0;
    std::int64_t bytes = 0;
    std::map<Likeness, std::int64_t> by_likeness;
    for (const DuplicateGroup& group : duplicates.groups) {
      for (const Duplicate& member : group.members) {
        ++by_likeness[member.likeness];
        deletable += member.obstacle.empty() ? 1 : 0;
        bytes += member.obstacle.empty() ? member.photo.bytes.value_or(0) : 0;
      }
    }
    std::vector<std::string> classes;
    for (const auto& [likeness, count] : by_likeness) {
      const bool is_file = likeness == Likeness::kIdenticalFile;
      classes.push_back(is_file ? count_text(count, to_string(likeness))
                                : fmt::format("{} {}", count, to_string(likeness)));
    }
    const auto groups = static_cast<std::int64_t>(duplicates.groups.size());
    std::string text = fmt::format("{} of duplicates in {}", count_text(groups, "group"),
                                   count_text(collection_.rows(), "photo"));
    if (groups > 0) {
      text += fmt::format(", each with one photo to keep; of the others ({}), {} may go ({})",
                          fmt::join(classes, ", "), deletable, bytes_text(bytes));
    }
    return text;
  }

  void print_notes(const Duplicates& duplicates) const {
    if (duplicates.other_names > 0) {
      say(fmt::format("{} left out, because another row has the same file",
                      count_text(duplicates.other_names, "row")));
    }
    if (duplicates.not_compared > 0) {
      say(fmt::format(
          "{} could not be read or decoded, so it is unknown whether other files are copies of "
          "them{}",
          count_text(duplicates.not_compared, "photo"), root_note()));
    }
    std::map<std::string, std::int64_t> reasons;
    for (const DuplicateGroup& group : duplicates.groups) {
      for (const Duplicate& member : group.members) {
        if (!member.obstacle.empty()) {
          ++reasons[member.obstacle.substr(0, member.obstacle.find(':'))];
        }
      }
    }
    for (const auto& [reason, count] : reasons) {
      say(fmt::format("{} not to be deleted: {}", count_text(count, "duplicate"), reason));
    }
  }

  // Prints unescaped file names, each followed by a NUL.
  static void print_names(const DuplicateGroup& group) {
    for (const Duplicate& member : group.members) {
      if (member.obstacle.empty()) {
        print_name_and_nul(member.photo);
      }
    }
  }

  void print(const DuplicateGroup& group, std::size_t number) const {
    if (number == 1 && stdout_is_terminal()) {
      std::cout << PhotoReport::heading(fmt::format("  {:16}", "class"));
    }
    std::cout << fmt::format(
                     "group {}: {}, lowest score of a pair {:.6f}\n", number,
                     count_text(static_cast<std::int64_t>(group.members.size()) + 1, "photo"),
                     group.lowest_score)
              << report_.line(fmt::format("  {:16}", "keep"), std::nullopt, group.kept);
    for (const Duplicate& member : group.members) {
      const std::string original = original_name(group, member);
      std::cout << report_.line(fmt::format("  {:16}", to_string(member.likeness)), member.score,
                                member.photo, original.empty() ? "" : "copy of " + original);
    }
  }

  Page find_neighbours() {
    gather_queries();
    std::vector<std::int64_t> query_rows;
    query_rows.reserve(queries_.size());
    for (const Query& query : queries_) {
      query_rows.push_back(query.photo.row);
    }
    const auto results = collection_.nearest(vectors_, options_.k, query_rows);
    Page page;
    report_neighbours(queries_, results, page);
    page.title = queries_.size() == 1
                     ? "Neighbours of " + queries_.front().photo.source
                     : fmt::format("{} queries and their neighbours", queries_.size());
    page.description =
        fmt::format("The {} nearest of {}", options_.k, count_text(collection_.rows(), "photo")) +
        search_scope();
    return page;
  }

  [[nodiscard]] std::string outputs() const { return output_names(collection_.outputs()); }

  // Collects the queries: rows of the collection when none is given; otherwise each argument is a
  // name in OUT, a .npy file or a photo.
  void gather_queries() {
    if (options_.queries.empty()) {
      const std::int64_t count =
          options_.limit == 0 ? collection_.rows() : std::min(collection_.rows(), options_.limit);
      for (std::int64_t row = 0; row < count; ++row) {
        add_row(row);
      }
      if (count < collection_.rows()) {
        say(fmt::format("using the first {} of {} rows; --limit raises the number", count,
                        collection_.rows()));
      }
      return;
    }
    for (const std::string& query : options_.queries) {
      std::error_code ignored;  // the error is reported when the file is opened
      const bool exists = fs::status(query, ignored).type() != fs::file_type::not_found;
      // A .npy file is not looked up among the names of photos, because that would read all index
      // files.
      if (fs::path(query).extension() == ".npy" && exists) {
        add_vectors(query);
      } else if (const auto row = find_row(query)) {
        add_row(*row);
      } else if (exists) {
        add_photo(query);
      } else {
        throw_unknown_name(query);
      }
    }
  }

  void add(Query query, const std::vector<float>& values) {
    queries_.push_back(std::move(query));
    vectors_.insert(vectors_.end(), values.begin(), values.end());
  }

  void add_row(std::int64_t row) { add({collection_.photo(row)}, collection_.embedding(row)); }

  void add_vectors(const std::string& path) {
    const Vectors vectors = read_vectors(path);
    check_dimension(vectors.dimension, path);
    for (std::int64_t index = 0; index < vectors.rows; ++index) {
      const auto first = vectors.values.begin() + index * vectors.dimension;
      Query query;
      query.photo.source = fmt::format("{}[{}]", source_name(path), index);
      query.photo.error = "a vector has no picture";
      add(std::move(query), {first, first + vectors.dimension});
    }
  }

  void add_photo(const std::string& path) {
    if (!encoder_) {
      encoder_.emplace(load_model(path));
      tell_device(encoder_->device());
      check_dimension(encoder_->dimension(), model());
    }
    Query query;
    query.photo.source = source_name(path);
    query.photo.file = fs::absolute(path);
    add(std::move(query), encoder_->embed_file(path, true, options_.max_pixels));
  }

  [[nodiscard]] Encoder load_model(const std::string& photo) const {
    const std::string explanation = fmt::format(
        "{}: is not a photo of {}, so it must be embedded, but ", source_name(photo), outputs());
    if (model().empty()) {
      throw Error(explanation + "no manifest.json names the model: give it with -m");
    }
    try {
      return Encoder(model(), encoder_options(Tower::kImages));
    } catch (const Error& error) {
      if (!options_.model.empty()) {
        throw;
      }
      throw Error(
          fmt::format("{}the model {} that made {} cannot be loaded. Give the model with -m, or "
                      "the folder to which the names in {} refer with --root. ({})",
                      explanation, source_name(model()), outputs(), outputs(), error.what()));
    }
  }

  const SimilarOptions& options_;
  std::vector<Query> queries_;
  std::vector<float> vectors_;  // [queries, dimension]
};

// Rejects options that would have no effect.
void check_options(const CLI::App& command, SimilarOptions& options) {
  if (options.duplicates) {
    reject_if_typed(command, {"QUERY", "--neighbours", "--limit", "--model", "--max-pixels"},
                    "does not apply to --duplicates, which compares all photos in OUT");
    reject_if_typed(command, {"--device"}, "does not apply to --duplicates, which runs on the CPU");
  } else {
    reject_if_typed(command, {"--threshold", "--only", "--prefer", "--print0"},
                    "applies only to --duplicates");
  }
  if (!options.queries.empty()) {
    reject_if_typed(command, {"--limit"}, "does not apply to given queries");
  } else {
    reject_if_typed(command, {"--model", "--max-pixels"},
                    "has no effect, because there is no query");
  }
  if (!options.shows(Likeness::kSimilar)) {
    reject_if_typed(command, {"--threshold"},
                    "does not apply to identical files and pixels; see --only similar");
  }
  if (options.print0 && options.json.to_stdout()) {
    reject_if_typed(command, {"--json"}, "and --print0 both print their result: choose one");
    options.json = {};
  }
}

}  // namespace

void add_similar(CLI::App& app, Run& run) {
  const auto options = std::make_shared<SimilarOptions>();
  CLI::App* command = app.add_subcommand(
      "similar", "Find the most similar photos, or duplicates, in the output of `embed`");
  add_texts(
      *command, "QUERY", options->queries,
      "Photos (names in OUT, or files to embed) or .npy vectors (default: every photo in OUT)");
  add_collection_options(*command, *options,
                         "Model for photos that are not in OUT (default: the model that made OUT)");
  begin_group(*command, kOptionsGroup);
  add_flag(*command, "--duplicates", options->duplicates,
           "Group duplicates instead: one photo of each group is kept, and the others are "
           "duplicates of it");
  add_real(*command, "--threshold", "COSINE", {0, 1, true}, options->threshold,
           "Lowest cosine between a similar photo and the kept one, for --duplicates");
  add_choices(*command, "--only",
              {class_name(Likeness::kIdenticalFile), class_name(Likeness::kIdenticalPixels),
               class_name(Likeness::kSimilar)},
              options->only, "Classes of duplicates to show (default: all)");
  without_variable(add_repeated(*command, "--prefer", "FOLDER", options->prefer,
                                "Among duplicates with the same number of pixels, keep the one in "
                                "this folder; may be repeated, in order of priority"));
  without_variable(add_flag(*command, "--print0", options->print0,
                            "Print the names of the photos that may be deleted, which are all but "
                            "the kept one of each group, each followed by a NUL byte"));
  add_limit(*command, options->limit);
  add_report_options(*command, *options);
  explain(
      *command,
      {"A photo that is in OUT, whatever path leads to it, is not listed as its own neighbour. "
       "Scores are cosines. --limit applies when no query is given and all photos in OUT are "
       "queries.",
       "Among duplicates, the photo with the most pixels is kept, then one in a folder of "
       "--prefer, then the larger file, then the older one. --print0 leaves out members of "
       "archives, photos that cannot be read or whose kept photo cannot be read, and similar "
       "photos whose files have changed since they were embedded. Fovea never deletes a photo."},
      {"fovea similar cat.jpg --in OUT                     # the 10 most similar",
       "fovea similar --in OUT --limit 0 --html page.html  # neighbours of all photos",
       "fovea similar --in OUT --duplicates --html page.html",
       "fovea similar --in OUT --duplicates --only identical-files --print0"});
  command->callback([command, options, &run] {
    check_options(*command, *options);
    run = [options] {
      make_and_write_page(options->html, options->threads,
                          [&](PageNotes& notes) { return Similar(*options).run(notes); });
      return kDone;
    };
  });
}

}  // namespace fovea::cli
